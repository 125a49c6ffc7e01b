"""The folder of the user's caches, in which the runs of a cluster have folders of their own."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from xmlgp.runtime.atomic_files import temporary_folder

__all__ = ["cache_root", "folder_for_run"]


def cache_root() -> Path:
    """Return the cache folder of this package: `$XMLGP_CACHE_DIR`, or the folder that the system has for it."""
    return Path(os.environ.get("XMLGP_CACHE_DIR") or platformdirs.user_cache_dir("xmlgp"))


@contextlib.contextmanager
def folder_for_run() -> Iterator[Path]:
    """Yield a new folder in the cache folder, and remove it at the end; all machines of a cluster have to see it."""
    with temporary_folder(cache_root() / "cluster") as folder:
        yield folder
