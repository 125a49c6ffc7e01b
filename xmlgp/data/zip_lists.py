"""Zip archives of strangers, whose list of members zipfile would take into memory however long it is."""

import io
import math

__all__ = ["LARGEST_LIST", "SparingReader"]

#: Bytes of the list of members, which takes many times as many in memory; the archives that are read have ten to fifty.
LARGEST_LIST = 1 << 20

#: Bytes that there are behind it at most: a comment of 64 KiB and its end.
BEHIND = 1 << 17


class SparingReader(io.BufferedReader):
    """Reads the file of an archive for zipfile, but no list of members of any size.

    Parameters
    ----------
    raw : raw binary file
    """

    def __init__(self, raw):
        super().__init__(raw)
        self._most = LARGEST_LIST

    def trust(self):
        """Read as much as is asked for from now on: the list has been read, and found short."""
        self._most = math.inf

    def read(self, size=-1):
        """Return `size` bytes; without it, only as many as there may be behind the list.

        Raises
        ------
        ValueError
            Where that is more than a list has.
        """
        if size is None or size < 0:
            size = BEHIND
        if size > self._most:
            raise ValueError("its list of members is too long")
        return super().read(size)
