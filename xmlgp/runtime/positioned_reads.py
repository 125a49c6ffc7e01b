"""Read a part of an open file whose position stays."""

import os
import sys

__all__ = ["read_at"]


def read_at(descriptor: int, count: int, position: int) -> bytes:
    """Return up to `count` bytes of an open file that begin at a position; the position of the file stays."""
    if sys.platform != "win32":
        return os.pread(descriptor, count, position)
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, count)
    finally:
        os.lseek(descriptor, before, os.SEEK_SET)
