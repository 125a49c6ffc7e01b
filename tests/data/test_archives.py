import errno
import gzip
import io
import stat
import struct
import warnings
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xmlgp.data.archives import CHUNK, unpack_file, unpack_zip
from xmlgp.errors import FetchError

TEXT = b"3 5 4\n0 1:2\n1,2 0:1 4:3\n3 2:1\n"
PAGE = b"\n <!DOCTYPE html><html>Quota exceeded</html>"


def zipped(*members, compression=zipfile.ZIP_DEFLATED):
    """Return a zip archive of members (name or ZipInfo, content)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about duplicate names
        for name, content in members:
            archive.writestr(name, content, compression)
    return buffer.getvalue()


@pytest.fixture
def unpack(tmp_path):
    def call(content, members=None, limit=10**6):
        source, target = tmp_path / "source", tmp_path / "into" / "train.txt"
        source.write_bytes(content)
        target.parent.mkdir(exist_ok=True)
        for old in target.parent.iterdir():
            old.unlink()
        if members is None:
            unpack_file(source, target, limit)
        else:
            unpack_zip(source, {name: target.with_name(new) for name, new in members.items()}, limit)
        return target.read_bytes()

    return call


@pytest.mark.parametrize("content", [TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:])])
def test_plain_and_gzipped_files(unpack, content):
    assert unpack(content) == TEXT


PACKED = gzip.compress(TEXT)


@pytest.mark.parametrize("damaged", [PACKED[:-9], PACKED[:-8] + bytes(8), b"\x1f\x8bnonsense"])
def test_damaged_gzip(unpack, damaged):
    with pytest.raises(FetchError, match="source: the gzip data are (truncated|damaged)"):
        unpack(damaged)


@pytest.mark.parametrize("content", [PAGE, gzip.compress(PAGE)])
def test_web_page_is_refused(unpack, content):
    with pytest.raises(FetchError, match="the server sent a web page instead of the data .*--mirror"):
        unpack(content)


@pytest.mark.parametrize("content", [b"1" * 1001, gzip.compress(b"1" * 1001)])
def test_file_over_the_limit_is_refused(unpack, content):
    with pytest.raises(FetchError, match=r"train\.txt is larger than the 1000 bytes that the catalogue allows"):
        unpack(content, limit=1000)


@pytest.mark.parametrize("members", [None, {"train": "train.txt"}])
def test_decompression_bomb_is_stopped(unpack, tmp_path, members):
    bomb = bytes(50 * CHUNK)
    content = gzip.compress(bomb) if members is None else zipped(("train", bomb))
    with pytest.raises(FetchError, match=r"train\.txt is larger than the 1500000 bytes"):
        unpack(content, members, limit=1_500_000)
    assert (tmp_path / "into/train.txt").stat().st_size < 1_500_000


def test_only_listed_members_are_extracted(unpack, tmp_path):
    evil = [("../evil", b"x"), (f"{tmp_path}/evil", b"x"), ("a/../../evil", b"x"), ("Set/other.txt", b"x")]
    archive = zipped(*evil, ("Set/set_train.txt", TEXT))
    assert unpack(archive, {"Set/set_train.txt": "train.txt"}) == TEXT
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["into", "source", "train.txt"]
    assert not (tmp_path.parent / "evil").exists()


def test_member_name_has_no_effect_on_the_path(unpack, tmp_path):
    assert unpack(zipped(("../../evil", TEXT)), {"../../evil": "train.txt"}) == TEXT
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["into", "source", "train.txt"]


def of_kind(kind, content=TEXT):
    info = zipfile.ZipInfo("train")
    info.external_attr = (kind | 0o777) << 16
    return info, content


KINDS = [of_kind(kind) for kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFDIR)]


@pytest.mark.parametrize("member", [of_kind(stat.S_IFLNK, "/etc/hostname"), ("train/", b""), *KINDS])
def test_member_of_another_type_is_refused(unpack, member):
    name = getattr(member[0], "filename", member[0])
    with pytest.raises(FetchError, match=f"{name} in the zip archive is not a regular file"):
        unpack(zipped(member), {name: "train.txt"})


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_compression_is_refused(unpack, method):
    with pytest.raises(FetchError, match="train in the zip archive is compressed with a method other than deflate"):
        unpack(zipped(("train", TEXT), compression=method), {"train": "train.txt"})


def test_full_disk_is_not_reported_as_damage(unpack, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("xmlgp.data.archives._copy", full)
    with pytest.raises(OSError, match="No space left"):
        unpack(zipped(("train", TEXT)), {"train": "train.txt"})


def test_ambiguous_member_is_refused(unpack):
    with pytest.raises(FetchError, match="the zip archive has more than one train$"):
        unpack(zipped(("train", TEXT), ("train", TEXT[::-1])), {"train": "train.txt"})


def test_huge_directory_is_refused(unpack):
    archive = zipped(*((f"{i}{'x' * 60_000}", b"") for i in range(18)), ("train", TEXT))
    with pytest.raises(FetchError, match=r"\(its directory is too large\)$"):
        unpack(archive, {"train": "train.txt"})


def test_missing_member_is_reported(unpack):
    with pytest.raises(FetchError, match=r"the zip archive has no Set/train\.txt"):
        unpack(zipped(("train.txt", TEXT)), {"Set/train.txt": "train.txt"})


def test_wrong_declared_size_is_refused(unpack):
    archive = zipped(("train", TEXT * 1000))
    declared = struct.pack("<L", len(TEXT * 1000))
    with pytest.raises(FetchError, match="the zip archive is damaged"):
        unpack(archive.replace(declared, struct.pack("<L", 10)), {"train": "train.txt"})


def test_damaged_archive_is_refused(unpack):
    archive = zipped(("train", TEXT))
    for content in (b"", TEXT, archive[:-30], archive[:-1], gzip.compress(TEXT)):
        with pytest.raises(FetchError, match="the zip archive is damaged, or the file is not a zip archive"):
            unpack(content, {"train": "train.txt"})
    with pytest.raises(FetchError, match="a web page"):
        unpack(PAGE, {"train": "train.txt"})


def patched(*changes):
    """Return an archive with two members and some numbers of the directory entry of `train` changed."""
    archive = bytearray(zipped(("train", TEXT), ("test", TEXT)))
    entry = archive.index(b"PK\x01\x02")
    for place, layout, value in changes:
        struct.pack_into(layout, archive, entry + place, value)
    return bytes(archive)


#: Places in a directory entry (APPNOTE.TXT 4.3.12), relative to the first entry.
FLAGS, START = 8, 42


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (patched((FLAGS, "<H", 1)), "train in the zip archive is encrypted"),
        (patched((START, "<L", 2**31)), "the zip archive is damaged"),
        (patched((START, "<L", patched().index(b"PK\x03\x04", 1))), "the zip archive is damaged"),
        (patched()[:-10] + struct.pack("<L", 2**32 - 2) + patched()[-6:], "the zip archive is damaged"),
        (
            zipped(("trainX.exe", TEXT), ("train", TEXT)).replace(b"trainX", b"train\0"),
            "the zip archive has more than one train$",
        ),
    ],
    ids=["encrypted", "start beyond the end", "start of another member", "huge directory", "zero byte"],
)
def test_manipulated_directory_is_refused(unpack, archive, message):
    with pytest.raises(FetchError, match=message):
        unpack(archive, {"train": "train.txt"})


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_damage_raises_fetch_error(unpack, data):
    kind = data.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    archive = bytearray(zipped(("train", TEXT), ("test", TEXT), compression=kind))
    for _ in range(data.draw(st.integers(1, 3))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    message = ""
    try:
        unpack(bytes(archive), {"train": "train.txt", "test": "test.txt"})
    except FetchError as error:
        message = str(error)
    assert "\n" not in message
