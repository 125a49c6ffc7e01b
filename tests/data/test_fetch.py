import gzip
import hashlib
import io
import os
import shutil
import zipfile

import pytest

from tests.data.loopback import serve, status, truncate
from xmlgp.data.catalogue import DataFile, Entry, Propensity, Shape
from xmlgp.data.fetch import fetch
from xmlgp.runtime.errors import FetchError

TRAIN = b"3 5 4\n0 1:2\n1,2 0:1 4:3\n3 2:1\n"
TEST = b"2 5 4\n0 1:2\n 4:1\n"


@pytest.fixture(autouse=True)
def no_retries(monkeypatch):
    monkeypatch.setattr("xmlgp.data.fetch.RETRIES", 0)


def checksum(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def entry_of(source=None, checksums=(), members=(None, None)):
    files = (
        DataFile("train", "train.txt", 3, members[0], list(checksums)),
        DataFile("test", "test.txt", 2, members[1], []),
    )
    shape, propensity = Shape(3, 2, 5, 4), Propensity(0.55, 1.5)
    return Entry("small", "A small set", shape, files, propensity=propensity, source=source)


@pytest.fixture
def mirror(tmp_path):
    folder = tmp_path / "mirror" / "small"
    folder.mkdir(parents=True)
    (folder / "train.txt.gz").write_bytes(gzip.compress(TRAIN))
    (folder / "test.txt").write_bytes(TEST)
    return folder.parent


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def source(server):
    """The source of single files on a server that has them."""
    server.answers |= {"/small/train.txt": [serve(TRAIN)], "/small/test.txt": [serve(TEST)]}
    return f"{server.url}/small/{{file}}"


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def assert_complete(data):
    assert tree(data) == ["small", "small/test.txt", "small/train.txt"]
    assert (data / "small/train.txt").read_bytes() == TRAIN
    assert (data / "small/test.txt").read_bytes() == TEST


def test_mirror_folder(mirror, data):
    fetched = fetch(entry_of("https://unused.invalid/a.zip", members=("train", "test")), data, mirror=str(mirror))
    assert fetched.paths == [data / "small/train.txt", data / "small/test.txt"]
    assert fetched.origin == str(mirror)
    assert_complete(data)


def test_mirror_without_the_data_set(data):
    with pytest.raises(FetchError, match=r"small/train\.txt and .*small/train\.txt\.gz do not exist"):
        fetch(entry_of(), data, mirror="none")
    assert not data.exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_endless_files_in_a_mirror_are_not_read(mirror, data, make):
    (mirror / "small/train.txt.gz").unlink()
    make(mirror / "small/train.txt")
    with pytest.raises(FetchError, match="do not exist"):
        fetch(entry_of(), data, mirror=str(mirror))


def test_archive_is_downloaded_once(server, data):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in (("a/train", TRAIN), ("a/test", TEST), ("../evil", b"x")):
            archive.writestr(name, member)
    server.answers["/a.zip"] = [serve(content.getvalue())]
    entry = entry_of(f"{server.url}/a.zip", members=("a/train", "a/test"))
    assert fetch(entry, data).origin == "127.0.0.1"
    assert len(server.requests) == 1
    assert_complete(data)
    server.answers["/a.zip"] = [serve(b"<!DOCTYPE html>")]
    with pytest.raises(FetchError, match=r"not a zip file; use --mirror with a folder that"):
        fetch(entry, data, force=True)
    assert_complete(data)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has the header '', not 3 5 4"),
        (b"\x1b]0;gotcha\x07\n" + TRAIN, r"has the header '\x1b]0;gotcha\x07', not 3 5 4"),
        (b"3 5 4 " * 10**5, "has the header '3 5 4 3 5 4"),
        (TRAIN.replace(b"0 1:2", b"0 1:3"), "has the SHA-256 "),
    ],
)
def test_wrong_content_is_removed(server, source, data, content, message):
    server.answers["/small/train.txt"] = [serve(content)]
    with pytest.raises(FetchError) as error:
        fetch(entry_of(source, [checksum(TRAIN)]), data)
    assert message in str(error.value)
    assert str(error.value).isprintable()
    assert not data.exists()


@pytest.mark.parametrize("header", [b"3 5 4", b"3 7 4"])
def test_unknown_number_of_features_is_not_checked(server, source, data, header):
    entry = entry_of(source)
    entry = entry._replace(shape=entry.shape._replace(D=0))
    server.answers["/small/train.txt"] = [serve(TRAIN.replace(b"3 5 4", header))]
    fetch(entry, data)
    server.answers["/small/train.txt"] = [serve(TRAIN.replace(b"3 5 4", b"3 5 9"))]
    with pytest.raises(FetchError, match="has the header '3 5 9', not 3 D 4"):
        fetch(entry, data, force=True)


def test_any_accepted_checksum_is_enough(source, data):
    git = f"git:{hashlib.sha1(b'blob %d' % len(TRAIN) + bytes(1) + TRAIN).hexdigest()}"
    fetch(entry_of(source, [checksum(b"other"), git]), data)
    assert_complete(data)


def test_existing_files_are_kept(server, source, data, mirror, monkeypatch):
    (data / "small").mkdir(parents=True)
    (data / "small/train.txt").write_bytes(TRAIN)
    fetch(entry_of(source), data)
    assert [path for path, _ in server.requests] == ["/small/test.txt"]
    assert_complete(data)
    # The disk may be read-only.
    monkeypatch.setattr("os.mkdir", lambda *args: pytest.fail("writes"))
    assert fetch(entry_of(source), data).origin is None
    assert fetch(entry_of(source), data, mirror=str(mirror)).origin is None
    assert len(server.requests) == 1


@pytest.mark.parametrize("make", [lambda path: path.write_text("mine"), lambda path: path.symlink_to("nowhere")])
@pytest.mark.parametrize("force", [False, True])
def test_a_file_in_the_place_of_the_folder_is_named_and_nothing_is_fetched(server, source, data, make, force):
    data.mkdir()
    make(data / "small")
    with pytest.raises(FileExistsError) as caught:
        fetch(entry_of(source), data, force=force)
    assert caught.value.filename == str(data / "small")
    assert server.requests == []
    assert os.listdir(data) == ["small"]


def test_a_file_that_cannot_be_replaced_is_named(source, data):
    (data / "small/train.txt").mkdir(parents=True)
    with pytest.raises(IsADirectoryError) as caught:
        fetch(entry_of(source), data, force=True)
    assert caught.value.filename == str(data / "small/train.txt")


def test_existing_wrong_files_are_replaced_only_by_force(source, data):
    (data / "small").mkdir(parents=True)
    os.mkfifo(data / "small/train.txt")
    with pytest.raises(FetchError, match=r"train\.txt exists but is not a regular file; use --force to replace it"):
        fetch(entry_of(source), data)
    (data / "small/train.txt").unlink()
    (data / "small/train.txt").write_bytes(TEST)
    (data / "small/notes").write_text("mine")
    with pytest.raises(FetchError, match=r"train\.txt exists but has the header '2 5 4'.*; use --force to replace it"):
        fetch(entry_of(source), data)
    fetch(entry_of(source), data, force=True)
    assert (data / "small/train.txt").read_bytes() == TRAIN
    assert tree(data) == ["small", "small/notes", "small/test.txt", "small/train.txt"]


@pytest.mark.parametrize("answer", [truncate(TEST, 5), status(404)], ids=["truncated", "missing"])
def test_failed_download_changes_nothing(server, source, data, answer):
    good = server.answers["/small/test.txt"]
    server.answers["/small/test.txt"] = [answer]
    with pytest.raises(FetchError, match=r"http://.*/small/test\.txt"):
        fetch(entry_of(source), data)
    assert not data.exists()
    server.answers["/small/test.txt"] = good
    fetch(entry_of(source), data)
    server.answers["/small/test.txt"] = [answer]
    with pytest.raises(FetchError):
        fetch(entry_of(source), data, force=True)
    assert_complete(data)


def test_binary_data_set_in_a_mirror(tmp_path, data):
    content = b"+1 1:2\n-1 5:1\n+1 1:1\n"
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary/pair.svm").write_bytes(content)
    file = DataFile("train", "pair.svm", 3, None, [checksum(content)])
    entry = entry_of()._replace(name="pair", format="libsvm", files=(file,))
    assert fetch(entry, data, mirror=str(tmp_path)).paths == [data / "pair/pair.svm"]
    assert (data / "pair/pair.svm").read_bytes() == content
    shutil.rmtree(data)
    with pytest.raises(FetchError, match="pair cannot be downloaded; use --mirror with .* binary/pair.svm"):
        fetch(entry, data)
