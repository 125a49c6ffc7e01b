"""Unpacking what was fetched: gzip files, and the listed members of zip archives.

Nothing is trusted: content is copied as a stream to names of our own, its bytes counted, so that neither paths within
an archive nor sizes that it declares lead anywhere.
"""

import codecs
import errno
import gzip
import re
import stat
import zipfile
import zlib

from xmlgp.data.download import shown
from xmlgp.data.streams import DAMAGED_GZIP, GZIP_MAGIC, describe_damage
from xmlgp.data.zip_lists import SparingReader
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent

__all__ = ["unpack_file", "unpack_zip"]

CHUNK = 1 << 20

#: Sparse text packs about 4:1 and never near this; deflate reaches 1032:1 on a bomb.
GREATEST_RATIO = 100

#: What zipfile raises on archives that are damaged.
DAMAGED_ZIP = (EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OverflowError)

ENCRYPTED = 1


def unpack_file(source, target, limit, progress=silent):
    """Copy a file, decompressing it if it is gzipped, whatever its name.

    Parameters
    ----------
    source, target : Path
        From where to where.
    limit : int
        Bytes that the result must not exceed.
    progress : callable
        Told of the bytes of the result.

    Raises
    ------
    FetchError
        If gzip data are damaged, or the content is a web page or too large.
    """
    with open(source, "rb") as stream:
        packed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        stream.seek(0)
        if not packed:
            return _copy(stream, target, limit, progress)
        try:
            with gzip.GzipFile(fileobj=stream) as text:
                return _copy(text, target, min(limit, _most_from(source.stat().st_size)), progress)
        except DAMAGED_GZIP as error:
            raise FetchError(f"{source.name}: {describe_damage(error)}") from error


def unpack_zip(source, members, limit, progress=silent):
    """Extract the listed members of a zip archive.

    Parameters
    ----------
    source : Path
        The archive.
    members : dict of str to Path
        The members wanted, by their names within the archive, and where each goes.
    limit : int
        Bytes that no member may exceed.
    progress : callable
        Told of the bytes of the members.

    Raises
    ------
    FetchError
        If this is no archive or a damaged one, or a member is missing, ambiguous, no plain file, or too large.
    """
    with open(source, "rb") as file:
        _refuse_web_page(file.read(CHUNK))
    try:
        with open(source, "rb", buffering=0) as file, zipfile.ZipFile(SparingReader(file)) as archive:
            for name, target in members.items():
                member = _only_member(archive, name)
                most = min(limit, _most_from(member.compress_size))
                if member.file_size > most:
                    raise _too_large(target, most)
                with archive.open(member) as stream:
                    _copy(stream, target, most, progress)
    except (*DAMAGED_ZIP, OSError) as error:
        # The disk's own errors are none of the archive's; it leads to seeking before the start of the file at worst.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        reason = shown(str(error)) or type(error).__name__
        raise FetchError(f"the zip archive is damaged or none at all ({reason})") from error


def _only_member(archive, name):
    """Return the member of that name, if it is one that can be read without surprise."""
    found = [member for member in archive.infolist() if member.filename == name]
    if not found:
        raise FetchError(f"the zip archive has no {name}")
    if len(found) > 1:
        raise FetchError(f"the zip archive has more than one {name}")
    (member,) = found
    # Archives made elsewhere than on Unix tell no kind of file.
    if member.is_dir() or stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
        raise FetchError(f"{name} in the zip archive is not a plain file")
    if member.flag_bits & ENCRYPTED:
        raise FetchError(f"{name} in the zip archive is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FetchError(f"{name} in the zip archive is not packed by the usual method, deflate")
    return member


def _most_from(packed_size):
    """Return how many bytes may come out of so many packed ones."""
    return GREATEST_RATIO * packed_size + CHUNK


def _copy(stream, target, limit, progress):
    """Copy a stream of data to a new file, but not a web page and not more than `limit` bytes."""
    size = 0
    with progress(f"unpacking {target.name}", unit="B") as bar, open(target, "xb") as output:
        while chunk := stream.read(CHUNK):
            if not size:
                _refuse_web_page(chunk)
            size += len(chunk)
            if size > limit:
                raise _too_large(target, limit)
            output.write(chunk)
            bar.update(len(chunk))


def _too_large(target, limit):
    return FetchError(f"{target.name} has over {limit} bytes, too many for the catalogue or its packed size")


def _refuse_web_page(start):
    """Complain if the first bytes are those of an HTML page, which servers send in place of what they cannot give."""
    start = start.removeprefix(codecs.BOM_UTF8).lstrip()
    # Neither data nor archives start with "<"; pages may with a comment or an XML declaration.
    if start.startswith(b"<") and re.search(rb"<(!doctype\s+html|html|head|body)\b", start, re.IGNORECASE):
        raise FetchError(
            "a web page came in place of the data (Google Drive sends one when a file has been downloaded too often "
            "that day); try again tomorrow or give a copy of the data with --mirror"
        )
