"""The folder of the user's caches."""

import os
from pathlib import Path

__all__ = ["cache_root"]


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
