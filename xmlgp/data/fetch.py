"""Fetching a data set of the catalogue into a folder: whole and verified, or not at all."""

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from xmlgp.data.download import PATIENCE, interrupts, shown, sweep
from xmlgp.data.sources import Copy, Order
from xmlgp.data.verify import find_flaw
from xmlgp.errors import FetchError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import silent

try:
    import fcntl
except ImportError:  # not on Windows, where two fetches of one set at once are not kept apart
    fcntl = None

__all__ = ["Fetched", "fetch"]

#: Within the target folder, so that what is done there can be renamed into place.
WORKPLACE = ".partial"


@dataclass(frozen=True)
class Fetched:
    """A data set that is there.

    Parameters
    ----------
    paths : list of Path
        Its files, the training data first.
    origin : str or None
        Where it came from; None if it was there already.
    """

    paths: list[Path]
    origin: str | None


def fetch(entry, into="data", mirror=None, force=False, progress=silent, patience=PATIENCE):
    """Put the files of a data set into the folder `into`/NAME.

    What is there and as the catalogue says stays untouched; only what is missing is fetched. Until all of it has been
    verified it stays in `into`/.partial, where nothing remains but downloads that can be resumed.

    Parameters
    ----------
    entry : Entry
        The data set, from the catalogue.
    into : str or Path
        Folder of data sets. Made if missing.
    mirror : str, optional
        Take the files from this copy instead of the catalogue's sources: a folder or a file:, http: or https: URL
        below which they lie as NAME/train.txt and so on, binary sets as binary/FILE.
    force : bool
        Fetch and replace what is there.
    progress : callable
        Told of bytes.
    patience : Patience
        How long downloads wait.

    Returns
    -------
    Fetched

    Raises
    ------
    FetchError
        If no source gives the files that the catalogue describes, or other files stand in their place.
    OSError
        If the folder cannot be written.
    """
    into = Path(into)
    folder = into / entry.name
    paths = [folder / file.name for file in entry.files]
    sources = entry.sources if mirror is None else (Copy(mirror),)
    for path, fits, kind in [(folder, Path.is_dir, "folder"), *((path, Path.is_file, "file") for path in paths)]:
        if os.path.lexists(path) and not fits(path):
            raise FetchError(f"{path} is in the way, for it is not a {kind}")
    if not force and not _missing(entry, folder):
        return Fetched(paths, None)
    if not sources:
        files = ", ".join(f"{entry.mirror_folder}/{file.name}" for file in entry.files)
        note = f" ({entry.note})" if entry.note else ""
        raise FetchError(f"{entry.name} cannot be downloaded{note}; --mirror takes it from a folder with {files}")
    with _workplace(into, entry.name, progress) as workplace:
        # Another fetch may have brought it while this one waited for the workplace.
        wanted = entry.files if force else _missing(entry, folder)
        if not wanted:
            return Fetched(paths, None)
        staged = workplace / "whole"
        origin = _obtain(entry, wanted, sources, staged, workplace / "downloads", progress, patience)
        _put_in_place(staged, folder)
    return Fetched(paths, origin)


def _missing(entry, folder):
    """Return the files not there yet; complain of those there that are not what the catalogue says."""
    missing = []
    for file in entry.files:
        path = folder / file.name
        if not path.exists():
            missing.append(file)
        elif flaw := find_flaw(path, entry, file):
            raise FetchError(f"{path} is there but {flaw}; --force replaces it")
    return tuple(missing)


def _obtain(entry, wanted, sources, staged, downloads, progress, patience):
    """Let the first source that can put verified files into `staged`; return its origin."""
    failures = []
    for number, source in enumerate(sources, 1):
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir()
        place = downloads / str(number)
        order = Order(wanted, entry.mirror_folder, staged, place, entry.max_bytes, progress, patience)
        try:
            source.obtain(order)
            for file in wanted:
                flaw = find_flaw(staged / file.name, entry, file)
                if flaw:
                    raise FetchError(f"{file.name} {flaw}")
        except BaseException as error:
            if not interrupts(error):
                shutil.rmtree(place, ignore_errors=True)
            if not isinstance(error, FetchError):
                raise
            failures.append(f"{shown(source.origin)}: {error}")
        else:
            shutil.rmtree(downloads, ignore_errors=True)
            return source.origin
    raise FetchError(f"{entry.name} could not be fetched from {'; nor from '.join(failures)}")


def _put_in_place(staged, folder):
    """Move the files to their folder, which appears with all of them if it is new."""
    paths = list(staged.iterdir())
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    if folder.is_dir():
        for path in paths:
            os.replace(path, folder / path.name)
    else:
        os.rename(staged, folder)


@contextlib.contextmanager
def _workplace(into, name, progress):
    """Lend a folder to one fetch at a time; only downloads that can be resumed stay in it."""
    new = not into.exists()
    workplace = into / WORKPLACE / name
    downloads = workplace / "downloads"
    for folder in (workplace.parent, workplace, downloads, *downloads.glob("*")):
        if folder.is_symlink():
            # Files that are none of ours would be replaced and removed where it leads.
            raise FetchError(f"{folder} is in the way, for it is a link")
    try:
        with _alone_in(workplace, progress):
            try:
                yield workplace
            except OSError as error:
                if error.filename is None:
                    error.filename = str(into)  # a full disk comes up without a name
                raise
            finally:
                shutil.rmtree(workplace / "whole", ignore_errors=True)
                for folder in downloads.glob("*"):
                    sweep(folder)
    except Interrupted as error:
        if any(downloads.glob("*/*")):
            error.advice = f"what has arrived stays in {into / WORKPLACE}, the next call goes on from there"
        raise
    finally:
        for folder in (downloads, workplace, workplace.parent, *([into] if new else [])):
            with contextlib.suppress(OSError):
                folder.rmdir()


#: Tries to enter a folder that other fetches make and remove.
ATTEMPTS = 1000


@contextlib.contextmanager
def _alone_in(workplace, progress):
    """Wait until no other fetch works in the folder, and keep others out."""
    lock = workplace / "lock"
    attempts = 0
    while True:
        with contextlib.ExitStack() as stack:
            try:
                workplace.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(open(lock, "wb", opener=_open_no_link))
            except (FileNotFoundError, FileExistsError):
                # The other fetch has just removed a folder: before it was used, or between two looks at it. What is so
                # again and again has another cause.
                attempts += 1
                if attempts == ATTEMPTS:
                    raise
                continue
            _lock(file, progress)
            # The fetch waited for has removed the lock it held; the next to come would not see this one.
            if os.fstat(file.fileno()).st_nlink:
                stack.callback(lock.unlink, missing_ok=True)
                yield
                return


def _open_no_link(path, flags):
    """Open a file, but not the one that a link in its place leads to."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _lock(file, progress):
    if fcntl:
        # Some network disks know no locks; two fetches of one set at once are rare enough to do without there.
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with progress("waiting for another fetch of this set"):
                    fcntl.flock(file, fcntl.LOCK_EX)
