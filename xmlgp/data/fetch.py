"""Fetch a data set of the catalogue into a folder, complete and verified or not at all."""

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from xmlgp.data.archives import unpack
from xmlgp.data.download import NetworkError
from xmlgp.data.sources import Source
from xmlgp.errors import FetchError
from xmlgp.runtime.atomic_files import report_errors_as
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.locks import hold_lock
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape

__all__ = ["FetchedDataset", "fetch"]

#: Folder for unfinished work; within the target folder, so that finished files can be renamed into place.
WORK_FOLDER = ".partial"
CHUNK = 1 << 20
#: Bytes read of the first line. A header is three numbers; a file without line ends would not fit into memory.
MAX_HEADER = 100


class FetchedDataset(NamedTuple):
    """The files of a data set, training data first, and the source that they came from; None if they existed before."""

    paths: list[Path]
    origin: str | None


def fetch(entry, into="data", mirror=None, force=False, progress=silent):
    """Fetch the files of a data set into the folder `into`/NAME.

    Existing files are verified and kept; only missing files are fetched. New files stay in `into`/.partial until all of
    them are verified. After a failure, only downloads that can be resumed remain there.

    Parameters
    ----------
    entry : Entry
        The data set, from the catalogue.
    into : str or Path
        Folder of data sets, created if missing.
    mirror : str, optional
        A copy to use instead of the catalogue's sources: a folder or a web address that contains NAME/train.txt and so
        on, binary data sets as binary/FILE.
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
        If no source has the files that the entry describes, or different files exist already.
    OSError
        If the folder cannot be written.
    """
    into = Path(into)
    folder = into / entry.name
    paths = [folder / file.name for file in entry.files]
    sources = entry.sources if mirror is None else (Source("mirror", mirror),)
    for path, is_expected, kind in [(folder, Path.is_dir, "folder"), *((path, Path.is_file, "file") for path in paths)]:
        if os.path.lexists(path) and not is_expected(path):
            raise FetchError(f"{path} exists and is not a {kind}")
    if not force and not _missing_files(entry, folder):
        return FetchedDataset(paths, None)
    if not sources:
        files = ", ".join(f"{entry.mirror_folder}/{file.name}" for file in entry.files)
        note = f" ({entry.note})" if entry.note else ""
        raise FetchError(f"{entry.name} cannot be downloaded{note}; use --mirror with a folder that contains {files}")
    with _work_folder(into, entry.name, progress) as work_folder:
        # Another process may have fetched them while this one waited.
        files = entry.files if force else _missing_files(entry, folder)
        if not files:
            return FetchedDataset(paths, None)
        origin = _fetch_verified(entry, files, sources, work_folder, progress)
        _move_into_place(work_folder / "complete", folder)
    return FetchedDataset(paths, origin)


def _missing_files(entry, folder):
    """Return the files that do not exist; raise FetchError if one that exists does not match the catalogue."""
    missing = []
    for file in entry.files:
        path = folder / file.name
        if not path.exists():
            missing.append(file)
        elif mismatch := _find_mismatch(path, entry, file):
            raise FetchError(f"{path} exists but {mismatch}; use --force to replace it")
    return missing


def _find_mismatch(path, entry, file):
    """Return how a file first differs from what its entry says, as a sentence without a subject, or None."""
    has_header = entry.format == "repository"
    expected = f"{file.points} {entry.shape.D} {entry.shape.K}"
    digests = {
        "git": hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False),
        "sha256": hashlib.sha256(),
    }
    lines, last = 0, b"\n"
    with open(path, "rb") as stream:
        header = stream.readline(MAX_HEADER) if has_header else b""
        if has_header and header.split() != expected.encode().split():
            return f"has the header {header.decode('ascii', 'replace').strip()!r}, not {expected!r}"
        stream.seek(0)
        while chunk := stream.read(CHUNK):
            for digest in digests.values():
                digest.update(chunk)
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    points = lines + (last != b"\n") - has_header
    if points < file.points:
        return f"has {points} points, not {file.points}; the end is missing"
    if file.checksums and not any(digests[kind].hexdigest() == digest for kind, digest in file.checksums):
        kind = file.checksums[0].kind
        return f"has the {kind} checksum {digests[kind].hexdigest()}, which is not in the catalogue"
    return None


def _fetch_verified(entry, files, sources, work_folder, progress):
    """Put the files into `complete`, from the first source that provides all of them; return its origin."""
    failures = []
    for source in sources:
        target = work_folder / "complete"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        # Each source has its own, because files of the same name may differ.
        folder = work_folder / "downloads" / hashlib.sha256(repr(source).encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for file in files:
                path, member = source.locate(entry, file, folder, progress)
                unpack(path, member, target / file.name, entry.max_bytes, progress)
                if mismatch := _find_mismatch(target / file.name, entry, file):
                    raise FetchError(f"{file.name} {mismatch}")
        except Exception as error:
            if not isinstance(error, NetworkError):  # wrong content, or a full disk: there is nothing to resume
                shutil.rmtree(folder, ignore_errors=True)
            if not isinstance(error, FetchError):
                raise
            failures.append(f"{escape(source.origin)}: {error}")
        else:
            shutil.rmtree(work_folder / "downloads", ignore_errors=True)
            return source.origin
    raise FetchError(f"{entry.name} could not be fetched from {'; nor from '.join(failures)}")


def _move_into_place(complete, folder):
    """Move the files to `folder`; if it is new, it appears with all of them at once."""
    paths = list(complete.iterdir())
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    if folder.is_dir():
        for path in paths:
            os.replace(path, folder / path.name)
    else:
        os.rename(complete, folder)


@contextlib.contextmanager
def _work_folder(into, name, progress):
    """Lend a folder to one process at a time; only downloads that can be resumed stay in it."""
    folder = into / WORK_FOLDER / name
    downloads = folder / "downloads"
    try:
        with (
            report_errors_as(into),
            hold_lock(folder / "lock", lambda: progress("waiting for another fetch of this data set")),
        ):
            try:
                yield folder
            finally:
                shutil.rmtree(folder / "complete", ignore_errors=True)
                _remove_empty(*downloads.glob("*"), downloads)
    except Interrupted as error:
        if downloads.exists():
            error.advice = f"the partial download stays in {into / WORK_FOLDER}; the next call resumes it"
        raise
    finally:
        _remove_empty(folder, folder.parent)


def _remove_empty(*folders):
    """Remove those folders that are empty."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
