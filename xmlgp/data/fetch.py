"""Fetch a data set of the catalogue into a folder, complete and verified or not at all."""

import contextlib
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from xmlgp.data.archives import unpack
from xmlgp.data.catalogue import Source
from xmlgp.data.download import NotFoundError, download
from xmlgp.data.streams import check_outputs
from xmlgp.errors import FetchError
from xmlgp.runtime.atomic_files import remove_abandoned, report_errors_as, sync_file
from xmlgp.runtime.locks import hold_lock, temporary_folder
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape

__all__ = ["FetchedDataset", "fetch"]

#: Without `confirm`, files too large for the virus scan get a page that asks for it.
GOOGLE_DRIVE = "https://drive.usercontent.google.com/download?id={}&export=download&confirm=t"
CHUNK = 1 << 20
#: Bytes read of the first line. A header is three numbers; a file without line ends would not fit into memory.
MAX_HEADER = 100


class FetchedDataset(NamedTuple):
    """The files of a data set, training data first, and the source that they came from; None if they existed before."""

    paths: list[Path]
    origin: str | None


def fetch(entry, into="data", mirror=None, force=False, progress=silent):
    """Fetch the files of a data set into the folder `into`/NAME.

    Existing files are verified and kept; only missing files are fetched. New files stay in a hidden folder within
    `into` until all of them are verified. After a failure nothing remains there.

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
    if os.path.lexists(folder) and not folder.is_dir():
        raise FetchError(f"{folder} exists and is not a folder")
    if not force and not _missing_files(entry, folder):
        remove_abandoned(into)
        return FetchedDataset(paths, None)
    if not sources:
        files = ", ".join(f"{entry.mirror_folder}/{file.name}" for file in entry.files)
        note = f" ({entry.note})" if entry.note else ""
        raise FetchError(f"{entry.name} cannot be downloaded{note}; use --mirror with a folder that contains {files}")
    if mirror is not None:
        check_outputs(paths, [Path(mirror, entry.mirror_folder, file.name) for file in entry.files])
    failures = []
    with (
        report_errors_as(into),
        hold_lock(
            into / f".{entry.name}.lock", lambda: progress("waiting for another fetch of this data set", unit=None)
        ),
    ):
        # Another process may have fetched them while this one waited.
        files = entry.files if force else _missing_files(entry, folder)
        if not files:
            return FetchedDataset(paths, None)
        for source in sources:
            try:
                with temporary_folder(into) as hidden:
                    _fetch_verified(entry, files, source, hidden, progress)
                    _move_into_place(hidden / "complete", folder)
            except FetchError as error:
                failures.append(f"{escape(source.origin)}: {error}")
            else:
                return FetchedDataset(paths, source.origin)
    raise FetchError(f"{entry.name} could not be fetched from {'; nor from '.join(failures)}")


def _missing_files(entry, folder):
    """Return the files that do not exist; raise FetchError if one that exists does not match the catalogue."""
    missing = []
    for file in entry.files:
        path = folder / file.name
        if not path.exists():
            missing.append(file)
        elif not path.is_file():
            # A pipe would be waited for without end.
            raise FetchError(f"{path} exists but is not a regular file; use --force to replace it")
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
    lines = 0
    last = b"\n"
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
        kind = file.checksums[0][0]
        return f"has the {kind} checksum {digests[kind].hexdigest()}, which is not in the catalogue"
    return None


def _fetch_verified(entry, files, source, hidden, progress):
    """Put the files of a source into the folder `complete`, and what is downloaded beside it."""
    (hidden / "complete").mkdir()
    for file in files:
        target = hidden / "complete" / file.name
        path, member = _locate(source, entry, file, hidden, progress)
        unpack(path, member, target, entry.max_bytes, progress)
        if mismatch := _find_mismatch(target, entry, file):
            raise FetchError(f"{file.name} {mismatch}")


def _locate(source, entry, file, folder, progress):
    """Return the path of a file of an entry, downloaded to a folder if necessary, and its member or None."""

    def get(address, name):
        if not (folder / name).exists():
            download(address, folder / name, entry.max_bytes, progress)
        return folder / name

    match source.kind:
        case "https":
            return get(source.address.replace("{file}", file.name), file.name), None
        case "archive":
            return get(source.address, "archive.zip"), source.members[file.role]
        case "drive":
            return get(GOOGLE_DRIVE.format(source.address), "archive.zip"), source.members[file.role]
        case "embedded":
            return _draw(folder / file.name, file.role), None
    copies = [f"{source.address.rstrip('/')}/{entry.mirror_folder}/{file.name}{end}" for end in ("", ".gz")]
    for copy in copies:
        if "://" not in copy:
            # A pipe or a device may never end.
            if Path(copy).is_file():
                return copy, None
        else:
            with contextlib.suppress(NotFoundError):
                return get(copy, copy.rpartition("/")[2]), None
    raise FetchError(f"neither {escape(copies[0])} nor {file.name}.gz exists")


def _draw(path, role):
    # NumPy and SciPy take long to import, and no other source needs them.
    from xmlgp.data.repository_format import write_dataset
    from xmlgp.data.toy import toy_dataset

    write_dataset(path, toy_dataset()[role == "test"])
    return path


def _move_into_place(complete, folder):
    """Move the files to `folder`; if it is new, it appears with all of them at once."""
    for path in complete.iterdir():
        with open(path, "rb") as file:
            sync_file(file.fileno())
    if folder.is_dir():
        for path in complete.iterdir():
            os.replace(path, folder / path.name)
    else:
        os.rename(complete, folder)
