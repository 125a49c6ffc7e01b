"""The lock of a model folder: one process at a time is in it, however the others end."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from xmlgp.errors import ModelFolderError
from xmlgp.model_folder import lock
from xmlgp.model_folder.arrays import FOLDER
from xmlgp.model_folder.lock import LOCK, alone_in, writer_in

pytestmark = pytest.mark.skipif(lock.fcntl is None, reason="this system has no such locks")

#: Stays in the folder until its standard input ends.
HOLDING = """if True:
    import sys
    from xmlgp.model_folder.lock import alone_in
    with alone_in(sys.argv[1]):
        print("in it", flush=True)
        sys.stdin.read()
"""

#: Goes in and out until it was in it so many times; in it, makes a file that must not be there.
RACING = """if True:
    import os, random, sys, time
    from pathlib import Path
    from xmlgp.errors import ModelFolderError
    from xmlgp.model_folder.lock import alone_in
    path, rounds = Path(sys.argv[1]), int(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    while rounds:
        try:
            with alone_in(path):
                inside = path / "arrays" / "inside"
                os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                time.sleep(0.0005 * random.random())
                inside.unlink()
            rounds -= 1
        except ModelFolderError:
            time.sleep(0.0005 * random.random())
"""


def started(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    return process


@pytest.fixture
def holder(tmp_path):
    """Another process that is in the folder `model`."""
    with started(HOLDING, tmp_path / "model") as process:
        yield process
        process.kill()


def content(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*"))


def enter(path):
    with alone_in(path):
        raise AssertionError("in it")


def refused(path):
    with pytest.raises(ModelFolderError) as caught:
        enter(path)
    return str(caught.value)


def test_a_second_process_is_refused_with_one_sentence_that_names_the_first(tmp_path, holder):
    path = tmp_path / "model"
    before = content(path)
    told = refused(path)
    assert told.startswith(f"{path}: process {holder.pid} on ")
    assert told.endswith(" is writing this model; wait for its end or name another folder")
    assert told.isprintable()
    # What it is in stays as it is.
    assert content(path) == before == [LOCK, FOLDER]


def test_a_second_one_in_the_same_process_is_refused(tmp_path):
    with alone_in(tmp_path):
        assert refused(tmp_path).startswith(f"{tmp_path}: process {os.getpid()} on ")
    with alone_in(tmp_path):
        assert LOCK in content(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, None], ids=["killed", "ended"])
def test_the_lock_goes_with_its_process(tmp_path, holder, number):
    path = tmp_path / "model"
    if number:
        holder.send_signal(number)
    else:
        holder.stdin.close()
    holder.wait(60)
    assert writer_in(path) is None
    assert path.exists() == bool(number)
    with alone_in(path):
        assert (path / LOCK).read_text().startswith(f"{os.getpid()} on ")
    assert not path.exists() or content(path) == [FOLDER]


@pytest.mark.parametrize("failure", [None, ValueError, KeyboardInterrupt])
def test_the_lock_and_folders_made_for_nothing_are_removed(tmp_path, failure):
    def work():
        with alone_in(tmp_path / "deep" / "model"):
            assert content(tmp_path) == ["deep", "deep/model", f"deep/model/{LOCK}", f"deep/model/{FOLDER}"]
            if failure:
                raise failure

    if failure:
        with pytest.raises(failure):
            work()
    else:
        work()
    assert content(tmp_path) == []


def test_folders_that_were_there_or_in_which_something_is_stay(tmp_path):
    (tmp_path / "before").mkdir()
    with alone_in(tmp_path / "before"):
        pass
    assert content(tmp_path) == ["before"]
    with alone_in(tmp_path / "new" / "model"):
        (tmp_path / "new" / "model" / "something").write_text("")
    assert content(tmp_path / "new") == ["model", "model/something"]


def test_what_an_earlier_lock_said_is_no_longer_there(tmp_path):
    (tmp_path / LOCK).write_text("9" * 5000)
    with alone_in(tmp_path):
        assert writer_in(tmp_path).startswith(f"process {os.getpid()} on ")


@pytest.mark.parametrize(
    "said", [b"", b"\xff\xfe", b"12 on \x1b[2J\n", b"1\n2 on a\n", b"12 on " + b"x" * 5000, b"12 on there"], ids=repr
)
def test_nothing_odd_that_a_lock_says_is_shown(tmp_path, said):
    with alone_in(tmp_path):
        (tmp_path / LOCK).write_bytes(said)
        assert refused(tmp_path).startswith(f"{tmp_path}: another process is writing this model; ")
        assert writer_in(tmp_path) == "another process"


def test_who_is_in_it_is_known_to_those_who_ask(tmp_path, holder):
    path = tmp_path / "model"
    assert writer_in(path).startswith(f"process {holder.pid} on ")
    assert writer_in(tmp_path) is writer_in(tmp_path / "missing") is None
    holder.kill()
    holder.wait(60)
    assert (path / LOCK).exists()
    assert writer_in(path) is None


def test_who_asks_keeps_nobody_out(tmp_path):
    (tmp_path / LOCK).write_text("")
    with open(tmp_path / LOCK, "rb") as stream:
        lock.fcntl.flock(stream, lock.fcntl.LOCK_SH)
        release = threading.Timer(lock.PAUSE / 5, lock.fcntl.flock, [stream, lock.fcntl.LOCK_UN])
        release.start()
        with alone_in(tmp_path):
            assert writer_in(tmp_path)
        release.join()


def put_link(file, elsewhere):
    file.symlink_to(elsewhere)


def put_dangling_link(file, elsewhere):
    file.symlink_to(elsewhere.with_name("nowhere"))


def put_pipe(file, elsewhere):
    os.mkfifo(file)


def put_folder(file, elsewhere):
    file.mkdir()


@pytest.mark.parametrize("put", [put_link, put_dangling_link, put_pipe, put_folder])
def test_what_is_no_file_is_neither_followed_nor_waited_for(tmp_path, put):
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "model"
    elsewhere.write_text("precious")
    path.mkdir()
    put(path / LOCK, elsewhere)
    assert refused(path) == f"{path / LOCK}: this is no lock of a model folder; remove it"
    assert writer_in(path) is None
    assert elsewhere.read_text() == "precious"
    assert content(tmp_path) == ["elsewhere", "model", f"model/{LOCK}"]


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "model").write_text("")
    for path in (tmp_path / "model", tmp_path / "model" / "deep"):
        with pytest.raises(OSError, match="File exists|Not a directory") as caught:
            enter(path)
        assert caught.value.filename


def test_a_disk_that_knows_no_locks_is_done_without(tmp_path, monkeypatch):
    def flock(*arguments):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    with alone_in(tmp_path / "model"):
        assert writer_in(tmp_path / "model") is None
    assert content(tmp_path) == []


def test_a_system_that_knows_no_locks_is_done_without(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    with alone_in(tmp_path / "model"):
        assert content(tmp_path) == ["model", f"model/{FOLDER}"]
        assert writer_in(tmp_path / "model") is None
    assert content(tmp_path) == []


def test_of_many_processes_at_once_never_two_are_in_it(tmp_path):
    # Each makes the folders anew and removes them, under the feet of the others.
    processes = [started(RACING, tmp_path / "deep" / "model", 50) for _ in range(8)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
