"""Unpack a downloaded file: plain, gzipped, or a member of a zip archive.

Archives are untrusted. Content is copied as a stream to a name that the caller chooses, and its bytes are counted, so
the paths and sizes in an archive have no effect.
"""

import contextlib
import errno
import gzip
import re
import zipfile
import zlib

from xmlgp.data.streams import GZIP_MAGIC
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape
from xmlgp.runtime.zip_archives import open_archive

__all__ = ["unpack"]

CHUNK = 1 << 20

#: Exceptions of gzip and zipfile for files that are damaged, encrypted or without the member.
DAMAGED = (EOFError, LookupError, NotImplementedError, OverflowError, RuntimeError, ValueError)
DAMAGED += (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error)


def unpack(source, member, target, limit, progress=silent):
    """Copy the content of a file, plain or gzipped, or of a member of a zip archive to a new one.

    FetchError is raised if the file is damaged, a web page or larger than `limit` bytes, which stops decompression
    bombs, or if the archive does not have the member.
    """
    size = 0
    with (
        open(source, "rb") as file,
        _open_content(file, member, target.name) as stream,
        open(target, "xb") as output,
        progress(f"unpacking {target.name}", unit="B") as bar,
    ):
        while chunk := stream.read(CHUNK):
            size += len(chunk)
            if size > limit:
                raise FetchError(f"{target.name} is larger than the {limit} bytes that the catalogue allows")
            output.write(chunk)
            bar.update(len(chunk))


@contextlib.contextmanager
def _open_content(file, member, name):
    """Yield the decompressed content of a file, which errors call `name`."""
    _refuse_web_page(file)
    try:
        if member is not None:
            with open_archive(file.name) as archive:
                # zipfile does not limit the memory that other methods take.
                if archive.getinfo(member).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise NotImplementedError("compressed with a method other than deflate")
                with archive.open(member) as stream:
                    yield stream
        else:
            yield gzip.GzipFile(fileobj=file) if file.peek().startswith(GZIP_MAGIC) else file
    except (*DAMAGED, OSError) as error:
        # A damaged archive can lead to a seek before the start of the file; other errors are those of the disk.
        if isinstance(error, OSError) and not isinstance(error, DAMAGED) and error.errno != errno.EINVAL:
            raise
        raise FetchError(f"{name} cannot be unpacked ({escape(str(error)) or type(error).__name__})") from error


def _refuse_web_page(file):
    """Raise FetchError if a file is an HTML page, which some servers send instead of the data."""
    # Neither data nor archives start with "<"; a page may start with a comment or an XML declaration.
    if re.match(
        rb"(\xef\xbb\xbf)?\s*<(.*<)?(!doctype\s+html|html|head|body)\b", file.peek(), re.IGNORECASE | re.DOTALL
    ):
        raise FetchError(
            "the server sent a web page instead of the data (Google Drive does so when a file has been downloaded too "
            "often that day); try again tomorrow or give a copy of the data with --mirror"
        )
