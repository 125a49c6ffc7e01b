"""Unpack a downloaded file: plain, gzipped, or a member of a zip archive.

Archives are untrusted. Content is copied as a stream to a name that the caller chooses, and its bytes are counted, so
the paths and sizes in an archive have no effect.
"""

import codecs
import contextlib
import errno
import gzip
import re
import zipfile
import zlib

from xmlgp.data.streams import DAMAGED_GZIP, GZIP_MAGIC, describe_damage
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape

__all__ = ["unpack"]

CHUNK = 1 << 20

#: Exceptions of zipfile for damaged or encrypted archives.
DAMAGED_ZIP = (EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OverflowError)


def unpack(source, member, target, limit, progress=silent):
    """Copy the content of a file, plain or gzipped, or of a member of a zip archive to a new one.

    FetchError is raised if the file is damaged, a web page or larger than `limit` bytes, which stops decompression
    bombs, or if the archive does not have the member.
    """
    size = 0
    with open(source, "rb") as file:
        _refuse_web_page(file)
        with (
            _open_gzip(file) if member is None else _open_member(file, member) as stream,
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
def _open_gzip(file):
    """Yield the decompressed content of a file, or the file if it is not gzipped."""
    try:
        yield gzip.GzipFile(fileobj=file) if file.peek().startswith(GZIP_MAGIC) else file
    except DAMAGED_GZIP as error:
        raise FetchError(f"{file.name}: {describe_damage(error)}") from error


@contextlib.contextmanager
def _open_member(file, name):
    """Yield the content of a member of a zip archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            if name not in archive.namelist():
                raise FetchError(f"the zip archive has no {name}")
            # zipfile does not limit the memory that other methods take.
            if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise FetchError(f"{name} in the zip archive is compressed with a method other than deflate")
            with archive.open(name) as stream:
                yield stream
    except (*DAMAGED_ZIP, OSError) as error:
        # A damaged archive can lead to a seek before the start of the file; other errors are those of the disk.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        reason = escape(str(error)) or type(error).__name__
        raise FetchError(f"the zip archive is damaged, or the file is not a zip archive ({reason})") from error


def _refuse_web_page(file):
    """Raise FetchError if a file is an HTML page, which some servers send instead of the data."""
    start = file.peek().removeprefix(codecs.BOM_UTF8).lstrip()
    # Neither data nor archives start with "<"; a page may start with a comment or an XML declaration.
    if start.startswith(b"<") and re.search(rb"<(!doctype\s+html|html|head|body)\b", start, re.IGNORECASE):
        raise FetchError(
            "the server sent a web page instead of the data (Google Drive does so when a file has been downloaded too "
            "often that day); try again tomorrow or give a copy of the data with --mirror"
        )
