"""Unpack a downloaded file: plain, gzipped, or a member of a zip archive.

Archives are untrusted. Content is copied as a stream to a path that the caller chooses, and its bytes are counted, so
the paths and sizes that an archive claims have no effect.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from xmlgp.data.streams import GZIP_MAGIC
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.untrusted_text import escape
from xmlgp.runtime.zip_archives import open_archive

__all__ = ["METHODS", "UNPACKING_ERRORS", "unpack"]

#: Bytes that are copied at once.
CHUNK = 1 << 20

#: The accepted methods of compression. For others, zipfile does not limit the memory that decompression takes.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

#: What gzip and zipfile raise for files that are damaged or encrypted, or that do not have the member.
UNPACKING_ERRORS = (
    EOFError,
    LookupError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    zlib.error,
)


def unpack(source: Path, member: str | None, target: Path, limit: int, progress: Progress = silent) -> None:
    """Create the file `target` with the content of `source`, plain or gzipped, or of a member of that zip archive.

    FetchError is raised if the file is damaged, a web page or larger than `limit` bytes, which stops decompression
    bombs, or if the archive does not have the member.
    """
    size = 0
    with (
        _open_content(source, member, target.name) as content,
        open(target, "xb") as output,
        progress(f"unpacking {target.name}", unit="B") as bar,
    ):
        while chunk := content.read(CHUNK):
            size += len(chunk)
            if size > limit:
                raise FetchError(f"{target.name} is larger than the {limit} bytes that the catalogue allows")
            output.write(chunk)
            bar.update(len(chunk))


class _Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes: ...


@contextlib.contextmanager
def _open_content(source: Path, member: str | None, name: str) -> Iterator[_Readable]:
    """Yield the decompressed content of `source` or of its member; messages call it `name`."""
    with open(source, "rb") as file:
        start = file.peek()
        # Neither data nor archives start with "<"; a web page does, perhaps after a byte order mark.
        if start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<"):
            raise FetchError(
                "the server sent a web page instead of the data (Google Drive does so when a file has been downloaded "
                "too often that day); try again tomorrow"
            )
        try:
            if member is None:
                yield gzip.GzipFile(fileobj=file) if start.startswith(GZIP_MAGIC) else file
                return
            with open_archive(source) as archive, archive.open(member) as content:
                if archive.getinfo(member).compress_type not in METHODS:
                    raise NotImplementedError("compressed with a method other than deflate")
                yield content
        except UNPACKING_ERRORS as error:
            raise FetchError(f"{name} cannot be unpacked ({escape(str(error)) or type(error).__name__})") from error
