"""Fetch a data set of the catalogue into a folder, complete and verified or not at all."""

from __future__ import annotations

import errno
import gzip
import hashlib
import logging
import os
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import pooch
import requests

from xmlgp.data.catalogue import EMBEDDED, DataFile, Entry
from xmlgp.data.tickets import tickets
from xmlgp.runtime.atomic_files import make_folders, remove_empty, report_errors_as, temporary_folder
from xmlgp.runtime.errors import FetchError
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.untrusted_text import escape

__all__ = ["FetchedDataset", "fetch"]

#: Seconds to wait for a connection, and for each piece of the response.
TIMEOUT = 30.0
#: Retries after a failed download; pooch waits one second before the first, two before the second.
RETRIES = 3

GZIP_MAGIC = b"\x1f\x8b"
#: Bytes that are read at once.
CHUNK = 1 << 20
#: The most bytes that are read as the header, three numbers: a file without line ends may not fit into memory.
MAX_HEADER = 100

#: What gzip and zipfile raise for files that are damaged, or that do not have the member.
UNPACKING_ERRORS = (EOFError, KeyError, NotImplementedError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error)

# pooch logs each download and each retry.
pooch.get_logger().setLevel(logging.WARNING)


class FetchedDataset(NamedTuple):
    """The files of a data set, training data first, and their origin, or None if nothing had to be fetched."""

    paths: list[Path]
    origin: str | None


def fetch(
    entry: Entry,
    into: str | os.PathLike[str] = "data",
    mirror: str | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> FetchedDataset:
    """Fetch the files of a data set into the folder `into`/NAME.

    Existing files are verified and kept; only missing files are fetched. New files stay in a hidden folder within
    `into` until all of them are verified; after a failure, that folder is removed.

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
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    FetchedDataset

    Raises
    ------
    FetchError
        If the source does not have the files that the entry describes, or existing files differ from it.
    """
    into = Path(into)
    folder = into / entry.name
    paths = [folder / file.name for file in entry.files]
    if os.path.lexists(folder) and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(folder))
    missing = list(entry.files) if force else _missing_files(entry, folder)
    if not missing:
        return FetchedDataset(paths, None)
    if entry.source is None and mirror is None:
        note = f" ({entry.note})" if entry.note else ""
        raise FetchError(f"{entry.name} cannot be downloaded{note}; {_advice(entry)}")
    made = make_folders(into)
    try:
        with report_errors_as(into), temporary_folder(into) as hidden:
            _fetch_files(entry, missing, folder, mirror, hidden, progress)
    except BaseException:
        remove_empty(made)
        raise
    return FetchedDataset(paths, mirror or entry.origin)


def _fetch_files(
    entry: Entry, files: list[DataFile], folder: Path, mirror: str | None, hidden: Path, progress: Progress
) -> None:
    """Create files in a hidden folder, verify them, and move them into a folder."""
    complete = hidden / "complete"
    complete.mkdir()
    for file in files:
        target = complete / file.name
        with progress(f"fetching {entry.name}/{file.name}", unit=None):
            _create(entry, file, target, mirror, hidden)
        if mismatch := _find_mismatch(target, entry, file):
            raise FetchError(f"{file.name} from {mirror or entry.source} {mismatch}")
    if not folder.exists():
        with report_errors_as(folder, complete):
            complete.rename(folder)
        return
    for path in complete.iterdir():
        with report_errors_as(folder / path.name, path):
            os.replace(path, folder / path.name)


def _advice(entry: Entry) -> str:
    """Return how to get a data set that cannot be downloaded."""
    files = ", ".join(f"{entry.mirror_folder}/{file.name}" for file in entry.files)
    return f"use --mirror with a folder that contains {files}"


def _missing_files(entry: Entry, folder: Path) -> list[DataFile]:
    """Return the files that do not exist; raise FetchError if one that exists does not match the catalogue."""
    missing = []
    for file in entry.files:
        path = folder / file.name
        if not path.exists():
            missing.append(file)
        elif mismatch := _find_mismatch(path, entry, file):
            raise FetchError(f"{path} exists but {mismatch}; use --force to replace it")
    return missing


def _find_mismatch(path: Path, entry: Entry, file: DataFile) -> str | None:
    """Return how a file differs from the catalogue, as a sentence without its subject, or None if it matches."""
    if not path.is_file():
        # Reading a pipe could wait forever.
        return "is not a regular file"
    git_sha1 = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    sha256 = hashlib.sha256()
    with open(path, "rb") as stream:
        chunk = stream.readline(MAX_HEADER)
        header = chunk.decode("ascii", "replace").strip()
        expected = [str(file.points), str(entry.shape.D), str(entry.shape.K)]
        sizes = header.split()
        if not entry.shape.D:
            sizes[1:2] = ["0"]
        if entry.format == "repository" and sizes != expected:
            return f"has the header {header!r}, not {' '.join(expected)!r}"
        while chunk:
            git_sha1.update(chunk)
            sha256.update(chunk)
            chunk = stream.read(CHUNK)
    if file.checksums and {f"git:{git_sha1.hexdigest()}", f"sha256:{sha256.hexdigest()}"}.isdisjoint(file.checksums):
        return f"has the SHA-256 {sha256.hexdigest()}, which is not that of the catalogue"
    return None


def _create(entry: Entry, file: DataFile, target: Path, mirror: str | None, downloads: Path) -> None:
    """Create the file `target` from a mirror, or from the source of the data set."""
    if mirror:
        _unpack(_in_mirror(Path(mirror, entry.mirror_folder, file.name)), None, target)
    elif entry.source == EMBEDDED:
        _write_embedded(entry, file, target)
    else:
        address = str(entry.source).replace("{file}", file.name)
        # The archive has the other files of the data set too, and is downloaded once.
        name = "archive" if file.member else file.name
        try:
            if not (downloads / name).exists():
                _download(address, downloads, name)
            _unpack(downloads / name, file.member, target)
        except FetchError as error:
            raise FetchError(f"{entry.name}: {address}: {error}; {_advice(entry)}") from error


def _in_mirror(path: Path) -> Path:
    """Return a file, or its gzipped copy beside it; FetchError if there is neither."""
    compressed = path.with_name(f"{path.name}.gz")
    # Only a regular file: a pipe or a device may never end.
    for file in (path, compressed):
        if file.is_file():
            return file
    raise FetchError(f"{path} and {compressed} do not exist")


def _download(address: str, folder: Path, name: str) -> None:
    """Download a file into a folder."""
    downloader = pooch.HTTPDownloader(timeout=TIMEOUT)
    files = pooch.create(folder, "", registry={name: None}, urls={name: address}, retry_if_failed=RETRIES)
    try:
        files.fetch(name, downloader=downloader)
    except (requests.RequestException, ValueError) as error:
        raise FetchError(f"the download failed ({escape(str(error)) or type(error).__name__})") from error


def _unpack(source: Path, member: str | None, target: Path) -> None:
    """Create a file with the content of another one, plain or gzipped, or of a member of that zip archive."""
    try:
        with open(target, "xb") as output:
            if member is not None:
                with zipfile.ZipFile(source) as archive, archive.open(member) as content:
                    shutil.copyfileobj(content, output, CHUNK)
                return
            with open(source, "rb") as stream:
                packed = stream.peek(2).startswith(GZIP_MAGIC)
                shutil.copyfileobj(gzip.GzipFile(fileobj=stream) if packed else stream, output, CHUNK)
    except UNPACKING_ERRORS as error:
        reason = escape(str(error)) or type(error).__name__
        raise FetchError(
            f"{target.name} cannot be unpacked ({reason}); a server that is asked too often may send a web page instead"
        ) from error


def _write_embedded(entry: Entry, file: DataFile, target: Path) -> None:
    """Write a file of a data set that xmlgp draws itself: the texts, if they are to be a table, or else the numbers."""
    if entry.format == "csv":
        target.write_bytes(tickets()[file.role == "test"].encode())
        return
    # NumPy and SciPy take long to import, and no other source needs them.
    from xmlgp.data.repository_format import write_dataset
    from xmlgp.data.toy import toy_dataset

    write_dataset(target, toy_dataset()[file.role == "test"])
