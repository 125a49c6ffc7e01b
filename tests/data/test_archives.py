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
        warnings.simplefilter("ignore", UserWarning)  # of names that stand twice
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
            unpack_zip(source, {name: target.with_name(own) for name, own in members.items()}, limit)
        return target.read_bytes()

    return call


@pytest.mark.parametrize("content", [TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:])])
def test_files_plain_and_gzipped(unpack, content):
    assert unpack(content) == TEXT


PACKED = gzip.compress(TEXT)


@pytest.mark.parametrize("damaged", [PACKED[:-9], PACKED[:-8] + bytes(8), b"\x1f\x8bnonsense"])
def test_damaged_gzip(unpack, damaged):
    with pytest.raises(FetchError, match="source: the gzip data are (truncated|damaged)"):
        unpack(damaged)


@pytest.mark.parametrize("content", [PAGE, gzip.compress(PAGE)])
def test_a_web_page_is_no_data(unpack, content):
    with pytest.raises(FetchError, match="a web page came in place of the data .*--mirror"):
        unpack(content)


@pytest.mark.parametrize("content", [b"1" * 1001, gzip.compress(b"1" * 1001)])
def test_files_too_large(unpack, content):
    with pytest.raises(FetchError, match=r"train\.txt has over 1000 bytes"):
        unpack(content, limit=1000)


def test_gzip_bomb(unpack):
    with pytest.raises(FetchError, match=r"train\.txt has over \d+ bytes"):
        unpack(gzip.compress(bytes(5 * CHUNK)), limit=10**12)


def test_listed_members_and_nothing_else(unpack, tmp_path):
    evil = [("../evil", b"x"), (f"{tmp_path}/evil", b"x"), ("a/../../evil", b"x"), ("Set/other.txt", b"x")]
    archive = zipped(*evil, ("Set/set_train.txt", TEXT))
    assert unpack(archive, {"Set/set_train.txt": "train.txt"}) == TEXT
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["into", "source", "train.txt"]
    assert not (tmp_path.parent / "evil").exists()


def test_a_listed_member_goes_to_our_name_whatever_its_own(unpack, tmp_path):
    assert unpack(zipped(("../../evil", TEXT)), {"../../evil": "train.txt"}) == TEXT
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["into", "source", "train.txt"]


def of_kind(kind, content=TEXT):
    info = zipfile.ZipInfo("train")
    info.external_attr = (kind | 0o777) << 16
    return info, content


KINDS = [of_kind(kind) for kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFDIR)]


@pytest.mark.parametrize("member", [of_kind(stat.S_IFLNK, "/etc/hostname"), ("train/", b""), *KINDS])
def test_members_that_are_no_files(unpack, member):
    name = getattr(member[0], "filename", member[0])
    with pytest.raises(FetchError, match=f"{name} in the zip archive is not a plain file"):
        unpack(zipped(member), {name: "train.txt"})


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_packing(unpack, method):
    with pytest.raises(FetchError, match="train in the zip archive is not packed by the usual method"):
        unpack(zipped(("train", TEXT), compression=method), {"train": "train.txt"})


def test_a_full_disk_is_not_blamed_on_the_archive(unpack, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("xmlgp.data.archives._copy", full)
    with pytest.raises(OSError, match="No space left"):
        unpack(zipped(("train", TEXT)), {"train": "train.txt"})


def test_an_ambiguous_member(unpack):
    with pytest.raises(FetchError, match="the zip archive has more than one train$"):
        unpack(zipped(("train", TEXT), ("train", TEXT[::-1])), {"train": "train.txt"})


def test_a_list_of_members_that_would_take_much_memory(unpack):
    archive = zipped(*((f"{i}{'x' * 60_000}", b"") for i in range(18)), ("train", TEXT))
    with pytest.raises(FetchError, match=r"\(its list of members is too long\)$"):
        unpack(archive, {"train": "train.txt"})


def test_a_missing_member(unpack):
    with pytest.raises(FetchError, match=r"the zip archive has no Set/train\.txt"):
        unpack(zipped(("train.txt", TEXT)), {"Set/train.txt": "train.txt"})


def test_members_too_large_and_bombs(unpack):
    archive = zipped(("train", bytes(5 * CHUNK)))
    with pytest.raises(FetchError, match=r"train\.txt has over 1000 bytes"):
        unpack(archive, {"train": "train.txt"}, limit=1000)
    with pytest.raises(FetchError, match=r"train\.txt has over \d{7} bytes, too many"):
        unpack(archive, {"train": "train.txt"}, limit=10**12)


def test_a_size_that_lies(unpack):
    archive = zipped(("train", TEXT * 1000))
    declared = struct.pack("<L", len(TEXT * 1000))
    with pytest.raises(FetchError, match="the zip archive is damaged"):
        unpack(archive.replace(declared, struct.pack("<L", 10)), {"train": "train.txt"})


def test_archives_damaged_or_none_at_all(unpack):
    archive = zipped(("train", TEXT))
    for content in (b"", TEXT, archive[:-30], archive[:-1], gzip.compress(TEXT)):
        with pytest.raises(FetchError, match="the zip archive is damaged or none at all"):
            unpack(content, {"train": "train.txt"})
    with pytest.raises(FetchError, match="a web page came"):
        unpack(PAGE, {"train": "train.txt"})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_escapes_as_another_error(unpack, data):
    kind = data.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    archive = bytearray(zipped(("train", TEXT), ("test", TEXT), compression=kind))
    for _ in range(data.draw(st.integers(1, 3))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    complaint = ""
    try:
        unpack(bytes(archive), {"train": "train.txt", "test": "test.txt"})
    except FetchError as error:
        complaint = str(error)
    assert "\n" not in complaint
