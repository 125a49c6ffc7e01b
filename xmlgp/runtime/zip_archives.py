"""Open zip archives of strangers, whose lists of members could fill the memory."""

import contextlib
import io
import zipfile
from collections.abc import Iterator
from os import PathLike

__all__ = ["open_archive"]

#: Most bytes that are read at once. zipfile reads the whole list of members, into ten times as much memory; those of
#: data sets and checkpoints have some hundred bytes.
MOST_AT_ONCE = 1 << 20


class _Pieces(io.FileIO):
    """A file that is read in pieces: a list of members that claims to be long is refused before it is read."""

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes; BadZipFile if there are too many."""
        if size is not None and size > MOST_AT_ONCE:
            raise zipfile.BadZipFile(f"the list of its members is larger than {MOST_AT_ONCE} bytes")
        return super().read(MOST_AT_ONCE if size is None or size < 0 else size)


@contextlib.contextmanager
def open_archive(path: str | PathLike[str] | int) -> Iterator[zipfile.ZipFile]:
    """Open an archive to read members in pieces of at most `MOST_AT_ONCE` bytes; BadZipFile if it is none.

    A descriptor in place of a path is closed at the end.
    """
    with _Pieces(path) as stream, zipfile.ZipFile(stream) as archive:
        yield archive
