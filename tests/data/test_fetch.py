import gzip
import hashlib
import os
import shutil
import threading
from pathlib import Path

import pytest

from tests.data.loopback import serve, status, truncate
from tests.data.test_archives import PAGE, zipped
from xmlgp.data.catalogue import DataFile, Entry, Propensity, Shape, Source
from xmlgp.data.fetch import fetch
from xmlgp.errors import FetchError
from xmlgp.runtime.atomic_files import temporary_name
from xmlgp.runtime.locks import temporary_folder

TRAIN = b"3 5 4\n0 1:2\n1,2 0:1 4:3\n3 2:1\n"
TEST = b"2 5 4\n0 1:2\n 4:1\n"


@pytest.fixture(autouse=True)
def no_retries(monkeypatch):
    monkeypatch.setattr("xmlgp.data.download.RETRY_DELAYS", ())


def checksum(content):
    return ("sha256", hashlib.sha256(content).hexdigest())


def entry_of(*sources, train_checksums=(), shape=Shape(3, 2, 5, 4)):  # noqa: B008, a frozen value
    files = (DataFile("train", "train.txt", 3, train_checksums), DataFile("test", "test.txt", 2, ()))
    return Entry("small", [], "repository", shape, Propensity(0.55, 1.5), files, sources, 10**6, "", {}, {})


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
def files(server):
    """A source of single files on the server, which has them."""
    server.answers |= {"/small/train.txt": [serve(TRAIN)], "/small/test.txt": [serve(TEST)]}
    return Source("https", f"{server.url}/small/{{file}}")


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def assert_complete(data):
    assert tree(data) == ["small", "small/test.txt", "small/train.txt"]
    assert (data / "small/train.txt").read_bytes() == TRAIN
    assert (data / "small/test.txt").read_bytes() == TEST


def test_mirror_folder(mirror, data):
    fetched = fetch(entry_of(), data, mirror=str(mirror))
    assert fetched.paths == [data / "small/train.txt", data / "small/test.txt"]
    assert fetched.origin == str(mirror)
    assert_complete(data)


def test_mirror_on_the_web(server, data):
    server.answers = {"/all/small/train.txt.gz": [serve(gzip.compress(TRAIN))], "/all/small/test.txt": [serve(TEST)]}
    fetch(entry_of(), data, mirror=f"{server.url}/all/")
    assert_complete(data)


@pytest.mark.parametrize(
    ("mirror", "message"),
    [
        ("none\x1b[2J", r"none\x1b[2J: neither none\x1b[2J/small/train.txt nor train.txt.gz exists"),
        ("SERVER", "SERVER: neither SERVER/small/train.txt nor train.txt.gz exists"),
        ("ftp://a", "ftp://a: 'ftp://a/small/train.txt' is not an address that starts with http:// or https://"),
    ],
)
def test_mirror_without_the_data_set(server, data, mirror, message):
    with pytest.raises(FetchError) as error:
        fetch(entry_of(), data, mirror=mirror.replace("SERVER", server.url))
    assert str(error.value) == f"small could not be fetched from {message.replace('SERVER', server.url)}"
    assert not data.exists()


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir], ids=["pipe", "device", "folder"]
)
def test_endless_files_in_a_mirror_are_not_read(mirror, data, make):
    (mirror / "small/train.txt.gz").unlink()
    make(mirror / "small/train.txt")
    with pytest.raises(FetchError, match=r"neither .*train\.txt nor train\.txt\.gz exists"):
        fetch(entry_of(), data, mirror=str(mirror))


def test_next_source_is_used_if_one_fails(server, files, data, mirror, monkeypatch):
    server.answers["/a.zip"] = [serve(zipped(("a/train", TRAIN), ("a/test", TEST), ("../evil", b"x")))]
    members = {"train": "a/train", "test": "a/test"}
    gone, archive = (Source("archive", f"{server.url}/{name}.zip", members) for name in ("gone", "a"))
    assert fetch(entry_of(gone, archive), data).origin == "127.0.0.1"
    assert_complete(data)
    shutil.rmtree(data)
    monkeypatch.setattr("xmlgp.data.fetch.GOOGLE_DRIVE", server.url + "/drive?id={}")
    server.answers["/drive?id=1a-B_c"] = server.answers["/a.zip"]
    assert fetch(entry_of(gone, Source("drive", "1a-B_c", members)), data).origin == "Google Drive"
    shutil.rmtree(data)
    server.answers["/small/test.txt"] = [serve(PAGE)]
    assert fetch(entry_of(gone, files, Source("mirror", str(mirror))), data).origin == str(mirror)
    assert_complete(data)
    with pytest.raises(FetchError, match=r"from 127\.0\.0\.1: .*gone.zip: .* 404 .*; nor from /nowhere: neither "):
        fetch(entry_of(gone, Source("mirror", "/nowhere")), data, force=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "train.txt has the header '', not '3 5 4'"),
        (TRAIN.replace(b"3 5 4", b"3 5 5"), "train.txt has the header '3 5 5', not '3 5 4'"),
        (b"\x1b]0;gotcha\x07\n" + TRAIN, r"train.txt has the header '\x1b]0;gotcha\x07', not '3 5 4'"),
        (b"3 5 4 " * 10**5, "train.txt has the header '3 5 4 3 5 4"),
        (TRAIN[:-8], "train.txt has 2 points, not 3; the end is missing"),
        (TRAIN + b"1" * 10**6, "is larger than the 1000000 bytes that the catalogue allows"),
        (TRAIN.replace(b"0 1:2", b"0 1:3"), "train.txt has the sha256 checksum "),
        (TRAIN + b"0 1:2\n", "train.txt has the sha256 checksum "),
    ],
)
def test_wrong_content_is_removed(server, files, data, content, message):
    server.answers["/small/train.txt"] = [serve(content)]
    with pytest.raises(FetchError) as error:
        fetch(entry_of(files, train_checksums=(checksum(TRAIN),)), data)
    assert message in str(error.value)
    assert str(error.value).isprintable()
    assert not data.exists()


def test_any_accepted_checksum_is_enough(files, data):
    git = ("git", hashlib.sha1(b"blob %d\0%s" % (len(TRAIN), TRAIN)).hexdigest())
    fetch(entry_of(files, train_checksums=(checksum(b"other"), git)), data)
    assert_complete(data)


def test_line_ends_may_differ(server, files, data):
    server.answers["/small/train.txt"] = [serve(TRAIN.rstrip(b"\n").replace(b"\n", b"\r\n"))]
    fetch(entry_of(files), data)
    assert fetch(entry_of(files), data).origin is None


def test_existing_files_are_kept(server, files, data, mirror, monkeypatch):
    (data / "small").mkdir(parents=True)
    (data / "small/train.txt").write_bytes(TRAIN)
    fetch(entry_of(files), data)
    assert [path for path, _ in server.requests] == ["/small/test.txt"]
    assert_complete(data)
    before = (data / "small/train.txt").stat()
    # The disk may be read-only.
    monkeypatch.setattr("os.mkdir", lambda *args: pytest.fail("writes"))
    assert fetch(entry_of(files), data).origin is None
    assert fetch(entry_of(files), data, mirror=str(mirror)).origin is None
    assert len(server.requests) == 1
    assert (data / "small/train.txt").stat() == before


def test_existing_wrong_files_are_replaced_only_by_force(files, data):
    (data / "small").mkdir(parents=True)
    (data / "small/train.txt").write_bytes(TRAIN[:-8])
    (data / "small/notes").write_text("mine")
    with pytest.raises(FetchError, match=r"train\.txt exists but has 2 points, not 3; .*; use --force to replace it"):
        fetch(entry_of(files), data)
    assert tree(data) == ["small", "small/notes", "small/train.txt"]
    fetch(entry_of(files), data, force=True)
    assert (data / "small/train.txt").read_bytes() == TRAIN
    assert tree(data) == ["small", "small/notes", "small/test.txt", "small/train.txt"]


def test_failed_force_keeps_existing_files(server, files, data):
    fetch(entry_of(files), data)
    server.answers["/small/test.txt"] = [status(404)]
    with pytest.raises(FetchError):
        fetch(entry_of(files), data, force=True)
    assert_complete(data)


@pytest.mark.parametrize("force", [False, True])
def test_file_in_place_of_the_folder_is_reported(files, data, force):
    data.mkdir()
    (data / "small").write_text("a file")
    with pytest.raises(FetchError, match="data/small exists and is not a folder"):
        fetch(entry_of(files), data, force=force)
    assert (data / "small").read_text() == "a file"


@pytest.mark.parametrize("answer", [truncate(TEST, 5), status(404)], ids=["truncated", "missing"])
def test_failed_download_leaves_nothing(server, files, data, answer):
    server.answers["/small/test.txt"] = [answer]
    with pytest.raises(FetchError, match=r"^small could not be fetched from 127\.0\.0\.1: http://"):
        fetch(entry_of(files), data)
    assert not data.exists()


def test_what_a_killed_process_left_is_removed_unless_another_one_uses_it(files, data):
    left = temporary_name(data)
    (left / "complete").mkdir(parents=True)
    (left / "complete/junk").write_text("junk")
    (data / ".small.lock").touch()
    with temporary_folder(data) as used:
        # Once to fetch, and once with nothing to fetch.
        for _ in range(2):
            fetch(entry_of(files), data)
            assert not left.exists()
            assert used.exists()
            left.mkdir()
    fetch(entry_of(files), data)
    assert_complete(data)


def test_a_hidden_folder_of_the_user_stays(files, data):
    (data / ".small").mkdir(parents=True)
    (data / ".small/mine").write_text("mine")
    fetch(entry_of(files), data)
    fetch(entry_of(files), data)
    assert (data / ".small/mine").read_text() == "mine"


def test_concurrent_fetches_wait_for_each_other(server, files, data):
    results = []
    threads = [threading.Thread(target=lambda: results.append(fetch(entry_of(files), data))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(str(fetched.origin) for fetched in results) == ["127.0.0.1", "None", "None", "None"]
    assert len(server.requests) == 2
    assert_complete(data)


def test_binary_data_set_in_a_mirror(tmp_path, data):
    content = b"+1 1:2\n-1 5:1\n+1 1:1\n"
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary/pair.svm").write_bytes(content)
    file = DataFile("train", "pair.svm", 3, (checksum(content),))
    entry = entry_of()._replace(name="pair", format="libsvm", files=(file,))
    assert fetch(entry, data, mirror=str(tmp_path)).paths == [data / "pair/pair.svm"]
    assert (data / "pair/pair.svm").read_bytes() == content
    too_many = entry._replace(files=(file._replace(points=4),))
    with pytest.raises(FetchError, match="has 3 points, not 4"):
        fetch(too_many, data, mirror=str(tmp_path), force=True)


def test_a_pipe_in_the_place_of_a_file_is_refused_or_replaced(files, data):
    (data / "small").mkdir(parents=True)
    os.mkfifo(data / "small/train.txt")
    with pytest.raises(FetchError, match="exists but is not a regular file; use --force"):
        fetch(entry_of(files), data)
    fetch(entry_of(files), data, force=True)
    assert_complete(data)
