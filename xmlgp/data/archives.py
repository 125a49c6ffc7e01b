"""Unpack downloaded gzip files, and the listed members of zip archives.

Archives are untrusted. Content is copied as a stream to names that the caller chooses, and its bytes are counted, so
the paths and sizes in an archive have no effect.
"""

import codecs
import errno
import gzip
import io
import re
import stat
import zipfile
import zlib

from xmlgp.data.streams import DAMAGED_GZIP, GZIP_MAGIC, describe_damage
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape

__all__ = ["unpack_file", "unpack_zip"]

CHUNK = 1 << 20

#: Exceptions of zipfile for damaged archives.
DAMAGED_ZIP = (EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OverflowError)

#: Maximum size of an archive's directory in bytes. Archives of data sets have ten to fifty members.
MAX_DIRECTORY = 1 << 20

ENCRYPTED = 1


def unpack_file(source, target, limit, progress=silent):
    """Copy a file and decompress it if it is gzipped, regardless of its name.

    Parameters
    ----------
    source, target : Path
        The file, and the new file to write.
    limit : int
        Maximum size of the result in bytes; stops decompression bombs.
    progress : callable
        Reports the bytes of the result; see `xmlgp.runtime.progress`.

    Raises
    ------
    FetchError
        If gzip data are damaged, or the content is a web page or too large.
    """
    with open(source, "rb") as stream:
        compressed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        stream.seek(0)
        if not compressed:
            return _copy(stream, target, limit, progress)
        try:
            with gzip.GzipFile(fileobj=stream) as text:
                return _copy(text, target, limit, progress)
        except DAMAGED_GZIP as error:
            raise FetchError(f"{source.name}: {describe_damage(error)}") from error


def unpack_zip(source, members, limit, progress=silent):
    """Extract the listed members of a zip archive.

    Parameters
    ----------
    source : Path
        The archive.
    members : dict of str to Path
        The new file to write for each member.
    limit : int
        Maximum size of each member in bytes; stops decompression bombs.
    progress : callable
        Reports the bytes of the members; see `xmlgp.runtime.progress`.

    Raises
    ------
    FetchError
        If the archive is damaged, or a member is missing, ambiguous, not a regular file, or too large.
    """
    with open(source, "rb") as file:
        _refuse_web_page(file.read(CHUNK))
    try:
        with open(source, "rb", buffering=0) as file, zipfile.ZipFile(_BoundedReader(file)) as archive:
            for name, target in members.items():
                with archive.open(_find_member(archive, name)) as stream:
                    _copy(stream, target, limit, progress)
    except (*DAMAGED_ZIP, OSError) as error:
        # A damaged archive can lead to a seek before the start of the file; other errors are those of the disk.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        reason = escape(str(error)) or type(error).__name__
        raise FetchError(f"the zip archive is damaged, or the file is not a zip archive ({reason})") from error


class _BoundedReader(io.BufferedReader):
    """A file that refuses large reads: zipfile reads the whole directory of an archive into memory, even a huge one.

    Members are read in small pieces.
    """

    def read(self, size=-1):
        # zipfile reads without a size only after the directory, where a comment of up to 64 KiB can follow.
        if size is None or size < 0:
            size = MAX_DIRECTORY
        if size > MAX_DIRECTORY:
            raise ValueError("its directory is too large")
        return super().read(size)


def _find_member(archive, name):
    """Return the member of that name, if it is unique and an ordinary compressed file."""
    found = [member for member in archive.infolist() if member.filename == name]
    if not found:
        raise FetchError(f"the zip archive has no {name}")
    if len(found) > 1:
        raise FetchError(f"the zip archive has more than one {name}")
    (member,) = found
    # Archives made on systems other than Unix have no file types.
    if member.is_dir() or stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
        raise FetchError(f"{name} in the zip archive is not a regular file")
    if member.flag_bits & ENCRYPTED:
        raise FetchError(f"{name} in the zip archive is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FetchError(f"{name} in the zip archive is compressed with a method other than deflate")
    return member


def _copy(stream, target, limit, progress):
    """Copy a stream to a new file; refuse a web page, or more than `limit` bytes."""
    size = 0
    with progress(f"unpacking {target.name}", unit="B") as bar, open(target, "xb") as output:
        while chunk := stream.read(CHUNK):
            if not size:
                _refuse_web_page(chunk)
            size += len(chunk)
            if size > limit:
                raise FetchError(f"{target.name} is larger than the {limit} bytes that the catalogue allows")
            output.write(chunk)
            bar.update(len(chunk))


def _refuse_web_page(start):
    """Raise FetchError if the first bytes are an HTML page, which some servers send instead of the file."""
    start = start.removeprefix(codecs.BOM_UTF8).lstrip()
    # Neither data nor archives start with "<"; a page may start with a comment or an XML declaration.
    if start.startswith(b"<") and re.search(rb"<(!doctype\s+html|html|head|body)\b", start, re.IGNORECASE):
        raise FetchError(
            "the server sent a web page instead of the data (Google Drive does so when a file has been downloaded too "
            "often that day); try again tomorrow or give a copy of the data with --mirror"
        )
