import gzip
import io
import stat
import struct
import zipfile

import pytest

from xmlgp.data.archives import CHUNK, unpack
from xmlgp.errors import FetchError

TEXT = b"3 5 4\n0 1:2\n1,2 0:1 4:3\n3 2:1\n"
PAGE = b"\n <!DOCTYPE html><html>Quota exceeded</html>"


def zipped(*members, compression=zipfile.ZIP_DEFLATED):
    """Return a zip archive of members (name or ZipInfo, content)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content, compression)
    return buffer.getvalue()


@pytest.fixture
def unpacked(tmp_path):
    """Return a function that unpacks some bytes and returns the new file."""

    def call(content, member=None, limit=10**6):
        source, target = tmp_path / "source", tmp_path / "into" / "train.txt"
        source.write_bytes(content)
        target.parent.mkdir(exist_ok=True)
        target.unlink(missing_ok=True)
        unpack(source, member, target, limit)
        return target.read_bytes()

    return call


@pytest.mark.parametrize("content", [TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:])])
def test_plain_and_gzipped_files(unpacked, content):
    assert unpacked(content) == TEXT


@pytest.mark.parametrize(("page", "member"), [(PAGE, None), (b"\xef\xbb\xbf<!-- -->\n<HTML lang=en>", "train")])
def test_web_page_is_refused(unpacked, page, member):
    with pytest.raises(FetchError, match="the server sent a web page instead of the data"):
        unpacked(page, member)


@pytest.mark.parametrize("size", [1_500_001, 50 * CHUNK], ids=["one byte", "bomb"])
@pytest.mark.parametrize("packed", ["plain", "gzip", "zip"])
def test_content_over_the_limit_is_refused(unpacked, tmp_path, packed, size):
    content = bytes(size)
    content = {"plain": content, "gzip": gzip.compress(content), "zip": zipped(("train", content))}[packed]
    with pytest.raises(FetchError, match=r"train\.txt is larger than the 1500000 bytes that the catalogue allows"):
        unpacked(content, "train" if packed == "zip" else None, limit=1_500_000)
    assert (tmp_path / "into/train.txt").stat().st_size <= 1_500_000


def test_members_cannot_escape_the_folder(unpacked, tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    paths = ["../evil", f"{tmp_path}/evil", "a/../../evil", "..\\evil", "C:\\evil", "\u202eevil"]
    archive = zipped(*((path, b"x") for path in paths), (link, "/etc/hostname"), ("Set/train", TEXT))
    assert unpacked(archive, "Set/train") == TEXT
    assert unpacked(archive, "../evil") == b"x"
    assert unpacked(archive, "link") == b"/etc/hostname"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["into", "source", "train.txt"]
    assert not (tmp_path / "into/train.txt").is_symlink()


#: Places in a directory entry (APPNOTE.TXT 4.3.12), and the size of the content in the end record.
FLAGS = 8
START = 42


def patched(place, layout, value):
    """Return an archive with a number of the directory entry of `train` changed."""
    archive = bytearray(zipped(("train", TEXT), ("test", TEXT)))
    struct.pack_into(layout, archive, archive.index(b"PK\x01\x02") + place, value)
    return bytes(archive)


WHOLE = zipped(("train", TEXT), ("test", TEXT))


PACKED = gzip.compress(TEXT)

#: A file, the member to unpack, and the reason of the refusal.
DAMAGED = {
    "truncated gzip": (PACKED[:-9], None, "Compressed file ended before the end-of-stream marker was reached"),
    "gzip with a wrong checksum": (PACKED[:-8] + bytes(8), None, "CRC check failed"),
    "gzip of nonsense": (b"\x1f\x8bnonsense", None, "Unknown compression method"),
    "text": (TEXT, "train", "File is not a zip file"),
    "truncated": (WHOLE[:-30], "train", ""),
    "huge directory": (WHOLE[:-10] + struct.pack("<L", 2**32 - 2) + WHOLE[-6:], "train", ""),
    "many members": (
        zipped(*((f"{number:0200}", b"") for number in range(5000)), ("train", TEXT)),
        "train",
        "the list of its members is larger than 1048576 bytes",
    ),
    "encrypted": (patched(FLAGS, "<H", 1), "train", ".*is encrypted"),
    "start beyond the end": (patched(START, "<L", 2**31), "train", ""),
    # The place of the list, before the length of the comment: positions are relative to where the list should begin.
    "start before the beginning": (WHOLE[:-6] + struct.pack("<L", 2**31) + WHOLE[-2:], "train", ""),
    "missing": (zipped(("Set/train", TEXT)), "train", ".There is no item named 'train' in the archive"),
    "bzip2": (zipped(("train", TEXT), compression=zipfile.ZIP_BZIP2), "train", "compressed with a method other than"),
}


@pytest.mark.parametrize(("content", "member", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_file_is_refused(unpacked, content, member, reason):
    with pytest.raises(FetchError, match=rf"^train\.txt cannot be unpacked \({reason}"):
        unpacked(content, member)
