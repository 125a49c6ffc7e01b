"""The folder of the user's caches, in which the runs of a cluster have folders of their own."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from xmlgp.runtime.atomic_files import temporary_folder

__all__ = ["cache_root", "folder_for_run"]

#: Folders that were not used for longer than this, 60 days, are removed.
UNUSED_SECONDS = 60 * 24 * 60 * 60


def cache_root() -> Path:
    """Return the cache folder of this package: `$XMLGP_CACHE_DIR`, or a folder of `$XDG_CACHE_HOME`."""
    if override := os.environ.get("XMLGP_CACHE_DIR"):
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # ignored according to the XDG Base Directory Specification
        base = os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise OSError("the user has no home folder")
    return Path(base) / "xmlgp"


@contextlib.contextmanager
def folder_for_run() -> Iterator[Path]:
    """Yield a new folder in the cache folder, and remove it at the end.

    All machines of a cluster have to see the cache folder. Folders that killed processes left there are removed when
    they were not used for `UNUSED_SECONDS`.
    """
    parent = cache_root() / "cluster"
    parent.mkdir(parents=True, exist_ok=True)
    for entry in parent.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - entry.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(entry)
    with temporary_folder(parent) as folder:
        yield folder
