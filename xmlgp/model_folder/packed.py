"""Packed models: a model folder as one zip file, which is unpacked into the user's cache folder when it is read.

An unpacked copy is the folder `models/DIGEST-vVERSION/` of the cache folder, where DIGEST is the SHA-256 of the file.
The digest is not computed at each start: `models/digests/` has it by the identity, the size and the times of a file.
The file is untrusted: names, kinds and sizes of its members are checked before the first byte is unpacked.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import re
import shlex
import shutil
import stat
import struct
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path

from xmlgp.data.archives import METHODS, UNPACKING_ERRORS
from xmlgp.data.cache import cache_root, file_digest, folder_for_run, remove_unused
from xmlgp.errors import ModelFolderError
from xmlgp.model_folder.arrays import FOLDER
from xmlgp.model_folder.card import CARD
from xmlgp.model_folder.description import DESCRIPTION
from xmlgp.runtime.atomic_files import FOLDER_LOCK, atomic_write, create_file, remove_abandoned, remove_empty
from xmlgp.runtime.locks import hold_lock, temporary_folder
from xmlgp.runtime.untrusted_json import read_json
from xmlgp.runtime.untrusted_text import escape, excerpt
from xmlgp.runtime.zip_archives import open_archive

__all__ = ["ARRAY_MEMBER", "check_is_folder", "expansion_limit", "is_packed", "unpacked"]

#: The folder of unpacked models in the cache folder, and that of the digests of packed ones in it.
KIND = "models"
DIGESTS = "digests"

#: Incremented when the same file is unpacked otherwise.
VERSION = 1

#: The first bytes of a zip archive.
START = b"PK\x03\x04"

#: Bytes that are copied at once.
CHUNK = 1 << 20

#: A packed model may claim so many bytes; beyond, it may expand to so many times its size. Those of real models expand
#: to less than twice their size.
LEAST_LIMIT = 256 << 20
MOST_EXPANSION = 100

#: Array files that a packed model may have.
ARRAY_MEMBER = re.compile(rf"{FOLDER}/[A-Za-z0-9_][A-Za-z0-9_.-]{{0,200}}\.npy")

#: What people pack with a folder that they pack by hand, and what is left out: files of a run, and of a Mac.
LEFT_OUT = re.compile(r"(?:.*/)?(?:checkpoint\.npz|\.lock|\.DS_Store)|__MACOSX/.*")

#: A digest in the cache folder.
DIGEST = re.compile(r"[0-9a-f]{64}")

#: Seconds after the last change of a file from which its digest is kept: within the steps of a clock, a file can change
#: without another time.
SETTLED_SECONDS = 3

#: Errors of a cache folder that cannot be used; a full one is another matter.
UNUSABLE = (errno.EACCES, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS, None)

#: What reading a damaged archive raises.
DAMAGE = (*UNPACKING_ERRORS, struct.error)

#: The folders of this process with models that could not be unpacked into the cache folder, by digest.
_temporary: dict[str, Path] = {}


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is that of a packed model, perhaps a damaged one."""
    path = Path(path)
    if not path.is_file():
        return False
    try:
        with open_archive(path) as archive:
            return any(Path(name).name == DESCRIPTION for name in archive.namelist())
    except (OSError, *DAMAGE):
        return False


def check_is_folder(path: str | os.PathLike[str]) -> None:
    """Raise ModelFolderError if a model that is to be written is a file; one that is packed does not change."""
    path = Path(path)
    if not path.exists() or path.is_dir():
        return
    if is_packed(path):
        folder = path.with_suffix("") if path.suffix else path.with_name(f"{path.name}-unpacked")
        command = shlex.join(["unzip", os.fspath(path), "-d", os.fspath(folder)])
        raise ModelFolderError(f"{path}: a packed model is not changed; unpack it with `{command}` and use that folder")
    raise ModelFolderError(f"{path}: this is a file, but a model is a folder")


def unpacked(path: Path) -> Path:
    """Return the folder with the files of a packed model; ModelFolderError if the file is none or cannot be unpacked.

    The folder is in the cache folder; if that cannot be used, a temporary one that this process removes at its end.
    """
    with open(path, "rb") as stream, _opened(path, stream) as archive:
        status = os.fstat(stream.fileno())
        members = _members(archive, path, status.st_size)

        parent = _models_folder()
        digest = _digest(stream, path, parent)

        def unpack(folder: Path) -> None:
            _check_space(path, members, folder)
            with _errors_of(path):
                _unpack(archive, members, folder)
            # The copy would stand for the content that has the digest.
            _check_unchanged(stream, path, status, digest)

        if parent is None:
            return _in_temporary_folder(path, digest, members, unpack)
        if (digest_folder := _temporary.get(digest)) and _is_complete(digest_folder, members):
            return digest_folder
        try:
            return _in_cache(parent / f"{digest}-v{VERSION}", members, status.st_mode, unpack)
        except OSError as error:
            if error.errno not in UNUSABLE:
                reason = error.strerror or str(error)
                raise ModelFolderError(f"{path}: it cannot be unpacked into {parent.parent}: {reason}") from error
        return _in_temporary_folder(path, digest, members, unpack)


def _models_folder() -> Path | None:
    """Return the folder of unpacked models in the cache folder; None if the user has no home folder."""
    try:
        return cache_root() / KIND
    except OSError:
        return None


def expansion_limit(size: int) -> int:
    """Return how many bytes a packed model of so many bytes may have."""
    return max(LEAST_LIMIT, MOST_EXPANSION * size)


@contextlib.contextmanager
def _opened(path: Path, stream: BufferedReader) -> Iterator[zipfile.ZipFile]:
    """Yield the archive in an open file; ModelFolderError if there is none."""
    # Before the archive moves the position, which both have.
    is_archive = stream.peek().startswith(START)
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(open_archive(os.dup(stream.fileno())))
        except DAMAGE as error:
            # Of a file that was cut off, the list of members at the end is missing.
            if is_archive:
                raise _damaged(path, error) from None
            raise ModelFolderError(
                f"{path}: this is a file, but a model is a folder, or a file that `xmlgp pack` wrote"
            ) from None
        yield archive


@contextlib.contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Raise ModelFolderError for what reading a damaged archive raises."""
    try:
        yield
    except DAMAGE as error:
        raise _damaged(path, error) from None
    except OSError as error:
        # One without a file is of the archive, such as a position before its beginning.
        if error.filename is None:
            raise _damaged(path, error) from None
        raise


def _damaged(path: Path, error: Exception) -> ModelFolderError:
    reason = error.strerror or "" if isinstance(error, OSError) else str(error)
    return ModelFolderError(f"{path}: the packed model is damaged ({escape(reason) or type(error).__name__})")


def _members(archive: zipfile.ZipFile, path: Path, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive that belong to the model, by their names in a model folder.

    All may be in one folder. Arrays that the description does not name are left out. ModelFolderError if another file
    is among them, or the sizes are too large.
    """
    infos = [info for info in archive.infolist() if not LEFT_OUT.fullmatch(info.filename)]
    prefixes = [name.removesuffix(DESCRIPTION) for name in (info.filename for info in infos) if _is_description(name)]
    if len(prefixes) != 1:
        number = "no" if not prefixes else "more than one"
        raise ModelFolderError(f"{path}: not a packed model: this zip archive has {number} {DESCRIPTION}")
    (prefix,) = prefixes
    members: dict[str, zipfile.ZipInfo] = {}
    # Names that differ in case are those of one file on some machines.
    folded: set[str] = set()
    for info in infos:
        if info.is_dir() and (prefix.startswith(info.filename) or info.filename == f"{prefix}{FOLDER}/"):
            continue
        name = info.filename.removeprefix(prefix)
        is_known = name in (DESCRIPTION, CARD) or ARRAY_MEMBER.fullmatch(name)
        if not (info.filename.startswith(prefix) and is_known):
            raise ModelFolderError(f"{path}: not a packed model: this zip archive has {excerpt(info.filename)}")
        if name.casefold() in folded:
            raise ModelFolderError(f"{path}: the packed model is damaged ({excerpt(name)} is in it twice)")
        _check_kind(info, path)
        folded.add(name.casefold())
        members[name] = info
    named = _named_arrays(archive, members[DESCRIPTION], path)
    # Those of an earlier model may be left in a folder that was packed by hand.
    members = {name: info for name, info in members.items() if name in (DESCRIPTION, CARD) or name in named}
    claimed = sum(info.file_size for info in members.values())
    if claimed > expansion_limit(size):
        raise ModelFolderError(f"{path}: the packed model would expand to {claimed / 1e6:.1f} MB, which is too much")
    return members


def _named_arrays(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> set[str]:
    """Return the array files that the description in an archive names; none if that is damaged, which is said later."""
    description = None
    with _errors_of(path), archive.open(info) as stream, contextlib.suppress(ValueError):
        description = read_json(stream)
    arrays = description.get("arrays") if isinstance(description, dict) else None
    entries = arrays.values() if isinstance(arrays, dict) else ()
    files = (entry.get("file") for entry in entries if isinstance(entry, dict))
    return {file for file in files if isinstance(file, str)}


def _is_description(name: str) -> bool:
    """Return whether a member is the description of a model, at the top or in a folder of a plain name."""
    *folders, last = name.split("/")
    return last == DESCRIPTION and all(folder not in ("", ".", "..") for folder in folders)


def _check_kind(info: zipfile.ZipInfo, path: Path) -> None:
    """Raise ModelFolderError for a member that is not a plain file, or that zipfile would not read safely."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    reason = None
    if kind not in (0, stat.S_IFREG):
        reason = "is not a regular file"
    elif info.flag_bits & 1:
        reason = "is encrypted"
    elif info.compress_type not in METHODS:
        reason = "is compressed with a method other than deflate"
    if reason:
        raise ModelFolderError(f"{path}: {excerpt(info.filename)} in this packed model {reason}")


def _digest(stream: BufferedReader, path: Path, parent: Path | None) -> str:
    """Return the SHA-256 of an open file, from the folder of unpacked models if it is known there."""
    status = os.fstat(stream.fileno())
    key = _key(status)
    file = None if parent is None else parent / DIGESTS / key
    if file:
        with contextlib.suppress(OSError, ValueError):
            kept = file.read_text("ascii")
            if DIGEST.fullmatch(kept):
                _mark_used(file, file.parent)
                return kept
    digest = file_digest(stream)
    _check_unchanged(stream, path, status, digest)
    if file and time.time() - max(status.st_mtime, status.st_ctime) > SETTLED_SECONDS:
        # Without a cache folder it is computed each time.
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(file) as output:
                output.write(digest.encode())
    return digest


def _check_unchanged(stream: BufferedReader, path: Path, status: os.stat_result, digest: str) -> None:
    """Raise ModelFolderError if an open file is not as it was when it had this status; it had this digest since."""
    now = os.fstat(stream.fileno())
    if _key(now) == _key(status):
        return
    # Another file that is renamed to this one's name changes a time of this one, but not its content.
    is_replaced = now.st_nlink < status.st_nlink
    if not (is_replaced and file_digest(stream) == digest):
        raise ModelFolderError(f"{path}: the file changed while it was being read")


def _key(status: os.stat_result) -> str:
    """Return a name for a file as it is now: whoever writes it changes its times, and nobody can set the second one."""
    facts = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _is_complete(folder: Path, members: Mapping[str, zipfile.ZipInfo]) -> bool:
    """Return whether a folder has all files; a program that cleans caches removes old ones one by one."""
    try:
        return all((folder / name).stat().st_size == info.file_size for name, info in members.items())
    except OSError:
        return False


def _in_cache(entry: Path, members: Mapping[str, zipfile.ZipInfo], mode: int, unpack: Callable[[Path], None]) -> Path:
    """Return the copy in the cache folder, which is made if it is not there; OSError if it cannot be."""
    parent = entry.parent
    if not _is_complete(entry, members):
        # Many workers may start at once, and one of them unpacks.
        lock = parent / f"{entry.name}.lock"
        with hold_lock(lock / FOLDER_LOCK, contextlib.nullcontext):
            if not _is_complete(entry, members):
                with contextlib.suppress(FileNotFoundError):
                    remove_unused(parent / DIGESTS)
                with folder_for_run(KIND) as folder:
                    copy = folder / "copy"
                    # A copy of what only its owner can read is not for others.
                    copy.mkdir(0o700 | (mode & 0o044) | (mode & 0o044) >> 2)
                    unpack(copy)
                    shutil.rmtree(entry, ignore_errors=True)
                    copy.rename(entry)
        # Left by a process that was killed, or by one that made it for those that waited.
        remove_empty([lock])
    _mark_used(entry)
    remove_abandoned(parent)
    return entry


def _mark_used(*paths: Path) -> None:
    """Let paths have the time of now as that of their last use, if they can be written."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.utime(path)


def _in_temporary_folder(
    path: Path, digest: str, members: Mapping[str, zipfile.ZipInfo], unpack: Callable[[Path], None]
) -> Path:
    """Return a copy in a temporary folder, which is removed when the process ends."""
    if (folder := _temporary.get(digest)) and _is_complete(folder, members):
        return folder
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder(Path(tempfile.gettempdir())))
            unpack(folder)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ModelFolderError(
                f"{path}: it cannot be unpacked, neither into the cache folder nor into a temporary one: {reason}"
            ) from error
        _temporary[digest] = folder
        atexit.register(_close, stack.pop_all(), os.getpid())
    return folder


def _close(stack: contextlib.ExitStack, process: int) -> None:
    # A forked process ends before the one whose folder it is.
    if os.getpid() == process:
        stack.close()


def _check_space(path: Path, members: Mapping[str, zipfile.ZipInfo], folder: Path) -> None:
    """Raise ModelFolderError if the files do not fit on the disk of a folder."""
    needed = sum(info.file_size for info in members.values())
    free = shutil.disk_usage(folder).free
    if needed > free:
        root = folder.parent.parent.parent if folder.name == "copy" else folder.parent
        raise ModelFolderError(
            f"{path}: unpacking it needs {needed / 1e6:.1f} MB, but the disk of {root} has {free / 1e6:.1f} MB left"
        )


def _unpack(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], folder: Path) -> None:
    """Write the members of an archive into a folder, each no longer than it claims and with the right checksum."""
    (folder / FOLDER).mkdir()
    for name, info in members.items():
        written = 0
        # zipfile stops at the size that is claimed, and compares the checksum there.
        with archive.open(info) as content, create_file(folder / name) as output:
            while chunk := content.read(CHUNK):
                written += len(chunk)
                output.write(chunk)
        if written != info.file_size:
            raise zipfile.BadZipFile(f"{name} is shorter than it claims")
