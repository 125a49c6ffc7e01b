"""Fetch a data set of the catalogue into a folder, complete and verified or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from xmlgp.data.archives import unpack
from xmlgp.data.catalogue import EMBEDDED, DataFile, Entry
from xmlgp.data.download import NotFoundError, download
from xmlgp.data.tickets import tickets
from xmlgp.errors import FetchError
from xmlgp.runtime.atomic_files import report_errors_as
from xmlgp.runtime.locks import hold_lock, temporary_folder
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.untrusted_text import escape

__all__ = ["FetchedDataset", "fetch"]

WAITING = "waiting for another fetch of this data set"

#: Bytes that are read at once.
CHUNK = 1 << 20
#: The most bytes that are read as the header, three numbers: a file without line ends may not fit into memory.
MAX_HEADER = 100


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
        A copy to use instead of the catalogue's sources: a folder or a web address that contains files such as
        NAME/train.txt, and binary data sets as binary/FILE.
    force : bool
        Fetch all files and replace existing ones.
    progress : callable
        Reports bytes; see `xmlgp.runtime.progress`.

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
    if not force and not _missing_files(entry, folder):
        return FetchedDataset(paths, None)
    origin = mirror or entry.origin
    if mirror:
        entry = entry.copied_to(mirror)
    if entry.source is None:
        note = f" ({entry.note})" if entry.note else ""
        raise FetchError(f"{entry.name} cannot be downloaded{note}; {_advice(entry)}")
    with (
        report_errors_as(into),
        hold_lock(into / f".{entry.name}.lock", lambda: progress(WAITING, unit=None)),
        temporary_folder(into) as hidden,
    ):
        complete = hidden / "complete"
        complete.mkdir()
        # Another process may have fetched some files while this one waited for the lock.
        for file in entry.files if force else _missing_files(entry, folder):
            try:
                _fetch_verified(entry, entry.source, file, complete / file.name, progress)
            except FetchError as error:
                raise error if mirror else FetchError(f"{entry.name}: {error}; {_advice(entry)}") from error
        _move_files(complete, folder)
    return FetchedDataset(paths, origin)


def _advice(entry: Entry) -> str:
    """Return how to get a data set that cannot be downloaded."""
    files = ", ".join(f"{entry.mirror_folder}/{file.name}" for file in entry.files)
    return f"use --mirror with a folder that contains {files}"


def _move_files(complete: Path, folder: Path) -> None:
    """Move the files of a folder to another one; if that is new, it appears with all of them at once."""
    if folder.is_dir():
        for path in complete.iterdir():
            with report_errors_as(folder / path.name, path):
                os.replace(path, folder / path.name)
    else:
        with report_errors_as(folder, complete):
            complete.rename(folder)


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
        expected = f"{file.points} {entry.shape.D or 'D'} {entry.shape.K}"
        sizes = header.split()
        if not entry.shape.D:
            sizes[1:2] = "D"
        if entry.format == "repository" and sizes != expected.split():
            return f"has the header {header!r}, not {expected!r}"
        while chunk:
            git_sha1.update(chunk)
            sha256.update(chunk)
            chunk = stream.read(CHUNK)
    if file.checksums and {f"git:{git_sha1.hexdigest()}", f"sha256:{sha256.hexdigest()}"}.isdisjoint(file.checksums):
        return f"has the SHA-256 {sha256.hexdigest()}, which is not that of the catalogue"
    return None


def _fetch_verified(entry: Entry, source: str, file: DataFile, target: Path, progress: Progress) -> None:
    """Create the file `target` from a source and verify it; downloads are stored in the parent of its folder."""
    if source == EMBEDDED:
        _write_embedded(entry, file, target)
    else:
        address = source.replace("{file}", file.name)
        addresses = [address] if file.member else [address, f"{address}.gz"]
        # The archive has the other files of the data set too, and is downloaded once.
        downloaded = target.parents[1] / ("archive" if file.member else file.name)
        path = _local_copy(addresses, downloaded, entry.max_bytes, progress)
        unpack(path, file.member, target, entry.max_bytes, progress)
    if mismatch := _find_mismatch(target, entry, file):
        raise FetchError(f"{file.name} from {escape(source)} {mismatch}")


def _write_embedded(entry: Entry, file: DataFile, target: Path) -> None:
    """Write a file of a data set that xmlgp draws itself: the texts, if they are to be a table, or else the numbers."""
    if entry.format == "csv":
        target.write_bytes(tickets()[file.role == "test"].encode())
        return
    # NumPy and SciPy take long to import, and no other source needs them.
    from xmlgp.data.repository_format import write_dataset
    from xmlgp.data.toy import toy_dataset

    write_dataset(target, toy_dataset()[file.role == "test"])


def _local_copy(addresses: list[str], downloaded: Path, limit: int, progress: Progress) -> Path:
    """Return a file with the content of the first address that exists: a path, or a web address.

    Content from the web is downloaded to the path `downloaded`, unless that exists.
    """
    for address in addresses:
        if address.startswith(("https://", "http://")):
            with contextlib.suppress(NotFoundError):
                if not downloaded.exists():
                    download(address, downloaded, limit, progress)
                return downloaded
        # Only a regular file: a pipe or a device may never end.
        elif os.path.isfile(address):
            return Path(address)
    raise FetchError(f"{' and '.join(map(escape, addresses))} do not exist")
