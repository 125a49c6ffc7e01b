"""Fetch a data set of the catalogue into a folder; each file is complete and verified or not there at all."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import re
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import pooch
import requests

from xmlgp.data.catalogue import EMBEDDED, DataFile, Entry
from xmlgp.data.repository_format import write_dataset
from xmlgp.data.tickets import tickets
from xmlgp.data.toy import toy_dataset
from xmlgp.runtime.atomic_files import report_errors_as, temporary_folder
from xmlgp.runtime.errors import FetchError
from xmlgp.runtime.untrusted_text import escape, quote

__all__ = ["FetchedDataset", "fetch"]

#: Seconds to wait for a connection, and for each piece of the response.
TIMEOUT = 30.0
#: Retries after a failed download; pooch waits one second before the first, two before the second.
RETRIES = 3

#: Bytes that are read at once.
CHUNK = 1 << 20
#: The most bytes that are read as the header, three numbers: a file without line ends may not fit into memory.
MAX_HEADER = 100

#: What a failed download raises, and reading an archive that is damaged or does not have the member.
FAILURES = (requests.RequestException, ValueError, EOFError, KeyError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error)

# pooch logs each download and each retry.
pooch.get_logger().setLevel(logging.WARNING)


class FetchedDataset(NamedTuple):
    """The files of a data set, training data first, and their origin, or None if nothing had to be fetched."""

    paths: list[Path]
    origin: str | None


def fetch(
    entry: Entry, into: str | os.PathLike[str] = "data", mirror: str | None = None, force: bool = False
) -> FetchedDataset:
    """Fetch the files of a data set into the folder `into`/NAME.

    Existing files are verified and kept; only missing files are fetched. New files stay in a hidden folder within
    that folder until all of them are verified; after a failure, they are removed.

    Parameters
    ----------
    entry : Entry
        The data set, from the catalogue.
    into : str or Path
        Folder of data sets, created if missing.
    mirror : str, optional
        A folder to use instead of the catalogue's sources, with files such as NAME/train.txt or NAME/train.txt.gz, and
        binary data sets as binary/FILE.
    force : bool
        Fetch all files and replace existing ones.

    Returns
    -------
    FetchedDataset

    Raises
    ------
    FetchError
        If the source does not have the files that the entry describes, or existing files differ from it.
    """
    folder = Path(into, entry.name)
    paths = [folder / file.name for file in entry.files]
    missing = [file for file in entry.files if force or not (folder / file.name).exists()]
    for file in entry.files:
        if file not in missing:
            _verify(folder / file.name, entry, file, f"{folder / file.name} exists but", "; use --force to replace it")
    if not missing:
        return FetchedDataset(paths, None)
    if entry.source is None and mirror is None:
        raise FetchError(f"{entry.name} cannot be downloaded; {_advice(entry)}")
    with temporary_folder(folder) as hidden:
        for file in missing:
            _create(entry, file, hidden, mirror)
            _verify(hidden / file.name, entry, file, f"{file.name} from {mirror or entry.source}")
        for file in missing:
            with report_errors_as(folder / file.name, hidden / file.name):
                os.replace(hidden / file.name, folder / file.name)
    return FetchedDataset(paths, mirror or entry.origin)


def _advice(entry: Entry) -> str:
    """Return how to get a data set that cannot be downloaded."""
    files = ", ".join(f"{entry.mirror_folder}/{file.name}" for file in entry.files)
    return "; ".join(filter(None, [f"use --mirror with a folder that contains {files}", entry.note]))


def _verify(path: Path, entry: Entry, file: DataFile, title: str, advice: str = "") -> None:
    """Raise FetchError if a file is not that of the catalogue; the message begins with its `title`."""
    if not path.is_file():
        # Reading a pipe could wait forever.
        raise FetchError(f"{title} is not a regular file{advice}")
    with open(path, "rb") as stream:
        header = stream.readline(MAX_HEADER)
        # Sets that are too large for memory have no checksums.
        content = header + stream.read() if file.checksums else b""
    expected = f"{file.points} {entry.shape.D or 'D'} {entry.shape.K}"
    if entry.format == "repository" and not re.fullmatch(
        expected.replace("D", r"\d+"), header.decode("latin-1").strip()
    ):
        raise FetchError(f"{title} has the header {quote(header.strip())}, not {expected}{advice}")
    sha256 = hashlib.sha256(content).hexdigest()
    git_sha1 = hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()
    if file.checksums and {f"git:{git_sha1}", f"sha256:{sha256}"}.isdisjoint(file.checksums):
        raise FetchError(f"{title} has the SHA-256 {sha256}, which is not that of the catalogue{advice}")


def _create(entry: Entry, file: DataFile, folder: Path, mirror: str | None) -> None:
    """Create a file in a folder from a mirror, or from the source of the data set."""
    source = str(entry.source).replace("{file}", file.name)
    try:
        if mirror:
            source = os.path.join(mirror, entry.mirror_folder, file.name)
            _copy(Path(source), folder / file.name)
        elif entry.source != EMBEDDED:
            _download(source, file, folder)
        elif entry.format == "csv":
            (folder / file.name).write_bytes(tickets()[file.role == "test"].encode())
        else:
            write_dataset(folder / file.name, toy_dataset()[file.role == "test"])
    except FAILURES as error:
        reason = escape(str(error)) or type(error).__name__
        raise FetchError(f"{entry.name}: {source}: {reason}; {_advice(entry)}") from error


def _copy(path: Path, target: Path) -> None:
    """Copy a file, or decompress its gzipped copy beside it; FetchError if there is neither."""
    compressed = path.with_name(f"{path.name}.gz")
    # Only a regular file: a pipe or a device may never end.
    if path.is_file():
        shutil.copyfile(path, target)
    elif compressed.is_file():
        with gzip.open(compressed) as content, open(target, "xb") as output:
            shutil.copyfileobj(content, output, CHUNK)
    else:
        raise FetchError(f"{path} and {compressed} do not exist")


def _download(address: str, file: DataFile, folder: Path) -> None:
    """Download a file into a folder, or the archive of which it is a member, unless that is there already."""
    name = "archive" if file.member else file.name
    files = pooch.create(folder, "", registry={name: None}, urls={name: address}, retry_if_failed=RETRIES)
    path = files.fetch(name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT))
    if file.member:
        with zipfile.ZipFile(path) as archive:
            os.rename(archive.extract(file.member, folder), folder / file.name)
