"""Lock files: only one process holds a lock, and the lock is released when that process ends."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from xmlgp.runtime import locks
from xmlgp.runtime.atomic_files import TEMPORARY_NAME, remove_abandoned
from xmlgp.runtime.locks import LockedError, NotALockError, hold_lock, lock_holder, temporary_folder

fcntl = pytest.importorskip("fcntl")

#: Holds the lock until its standard input ends.
HOLDING = """if True:
    import sys
    from xmlgp.runtime.locks import hold_lock
    with hold_lock(sys.argv[1]):
        print("locked", flush=True)
        sys.stdin.read()
"""

#: Takes the lock many times, and each time creates a file that must not exist yet.
RACING = """if True:
    import contextlib, os, random, sys, time
    from pathlib import Path
    from xmlgp.runtime.locks import LockedError, hold_lock
    file, rounds = Path(sys.argv[1]), int(sys.argv[2])
    waiting = contextlib.nullcontext if sys.argv[3] == "wait" else None
    print("ready", flush=True)
    sys.stdin.readline()
    while rounds:
        try:
            with hold_lock(file, waiting):
                inside = file.parent / "inside"
                os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                time.sleep(0.0005 * random.random())
                inside.unlink()
            rounds -= 1
        except LockedError:
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
def file(tmp_path):
    return tmp_path / "folder" / "lock"


@pytest.fixture
def holder(file):
    """Another process that holds the lock."""
    with started(HOLDING, file) as process:
        yield process
        process.kill()


def content(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*"))


def hold(file, waiting=None):
    with hold_lock(file, waiting):
        pass


def rejected(file):
    with pytest.raises(LockedError) as caught:
        hold(file)
    return caught.value.holder


def test_a_second_process_is_rejected_with_the_name_of_the_first(tmp_path, file, holder):
    message = rejected(file)
    assert message.startswith(f"process {holder.pid} on ")
    assert message.isprintable()
    assert content(tmp_path) == ["folder", "folder/lock"]


@pytest.mark.parametrize("number", [signal.SIGKILL, None], ids=["killed", "ended"])
def test_the_lock_is_released_when_its_process_ends(file, holder, number):
    if number:
        holder.send_signal(number)
    else:
        holder.stdin.close()
    holder.wait(60)
    assert file.exists() == bool(number)
    assert lock_holder(file) is None
    with hold_lock(file):
        assert file.read_text().startswith(f"{os.getpid()} on ")


def test_waiting_processes_get_the_lock_when_it_is_released(file, holder):
    @contextlib.contextmanager
    def waiting():
        waited.append(lock_holder(file))
        holder.stdin.close()
        yield

    waited = []
    hold(file, waiting)
    assert len(waited) == 1
    assert waited[0].startswith(f"process {holder.pid} on ")
    hold(file, waiting)
    assert len(waited) == 1


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt])
def test_the_lock_file_and_empty_new_folders_are_removed(tmp_path, failure):
    (tmp_path / "before").mkdir()
    hold(tmp_path / "before" / "lock")
    with contextlib.suppress(KeyboardInterrupt), hold_lock(tmp_path / "deep" / "folder" / "lock"):
        assert content(tmp_path) == ["before", "deep", "deep/folder", "deep/folder/lock"]
        if failure:
            raise failure
        (tmp_path / "deep" / "something").write_text("")
    assert content(tmp_path) == (["before"] if failure else ["before", "deep", "deep/something"])


def test_other_content_of_a_lock_file_is_not_shown(file):
    with hold_lock(file):
        for text in (b"\xff\xfe", b"12 on \x1b[2J\n", b"12 on " + b"x" * 5000):
            file.write_bytes(text)
            assert lock_holder(file) == "another process"
    assert lock_holder(file) is None


def test_a_query_for_the_holder_does_not_refuse_others(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 60)
    (tmp_path / "lock").write_text("")
    with open(tmp_path / "lock", "rb") as stream:
        # As if one query followed another.
        fcntl.flock(stream, fcntl.LOCK_SH)
        release = threading.Timer(0.1, fcntl.flock, [stream, fcntl.LOCK_UN])
        release.start()
        hold(tmp_path / "lock")
        release.join()


#: Fills a temporary folder, prints its name and waits.
FILLING = """if True:
    import sys
    from pathlib import Path
    from xmlgp.runtime.locks import temporary_folder
    with temporary_folder(Path(sys.argv[1])) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("content")
        (folder / "link").symlink_to(sys.argv[2])
        print("ready", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def filled(tmp_path):
    """A process with a temporary folder that has a link to another folder, and both folders."""
    (tmp_path / "parent").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("precious")
    with started(FILLING, tmp_path / "parent", tmp_path / "elsewhere") as process:
        yield process, tmp_path / "parent", tmp_path / "elsewhere"
        process.kill()


def test_a_temporary_folder_is_this_users_and_is_removed_with_its_content(tmp_path):
    with temporary_folder(tmp_path) as folder:
        (folder / "file").write_text("")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert TEMPORARY_NAME.fullmatch(folder.name)
    assert content(tmp_path) == []


def test_the_temporary_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(filled):
    process, parent, elsewhere = filled
    (other,) = parent.iterdir()
    with temporary_folder(parent) as own:
        assert sorted(parent.iterdir()) == sorted([own, other])
    process.kill()
    process.wait()
    assert (other / "deep" / "file").exists()
    with temporary_folder(parent) as own:
        assert list(parent.iterdir()) == [own]
    assert content(elsewhere) == ["precious"]


def test_a_temporary_folder_that_others_take_for_one_that_is_left_is_made_again(tmp_path, monkeypatch):
    def create(*arguments):
        if not removed:
            removed.append(1)
            remove_abandoned(tmp_path)
        return original(*arguments)

    original, removed = locks._acquire, []
    monkeypatch.setattr(locks, "_acquire", create)
    with temporary_folder(tmp_path) as folder:
        (folder / "file").write_text("")
        remove_abandoned(tmp_path)
        assert content(tmp_path) == [folder.name, f"{folder.name}/.lock", f"{folder.name}/file"]
    assert removed
    assert content(tmp_path) == []


OBSTACLES = {
    "link": lambda file, elsewhere: file.symlink_to(elsewhere),
    "pipe": lambda file, elsewhere: os.mkfifo(file),
    "folder": lambda file, elsewhere: file.mkdir(),
}


@pytest.mark.parametrize("make", OBSTACLES.values(), ids=OBSTACLES)
def test_other_kinds_of_files_are_neither_followed_nor_opened(tmp_path, make):
    (tmp_path / "elsewhere").write_text("precious")
    make(tmp_path / "lock", tmp_path / "elsewhere")
    with pytest.raises(NotALockError):
        hold(tmp_path / "lock")
    assert lock_holder(tmp_path / "lock") is None
    assert (tmp_path / "elsewhere").read_text() == "precious"
    assert content(tmp_path) == ["elsewhere", "lock"]


def test_a_file_system_without_locks_can_be_used(tmp_path, file, monkeypatch):
    def unsupported(*arguments):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with hold_lock(file):
        assert lock_holder(file) is None
    assert content(tmp_path) == []


@pytest.mark.parametrize("waiting", [contextlib.nullcontext, None])
def test_a_folder_in_which_no_file_can_be_made_is_an_error_and_no_wait_without_end(tmp_path, monkeypatch, waiting):
    original = os.open

    def refuse(path, *arguments, **options):
        # As in /proc.
        if os.path.basename(path) == "lock":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return original(path, *arguments, **options)

    waits = []
    sleep = time.sleep

    def wait(seconds):
        waits.append(seconds)
        assert len(waits) < 1000, "it waits without end"
        sleep(seconds)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr("time.sleep", wait)
    with pytest.raises(FileNotFoundError) as caught:
        hold(tmp_path / "lock", waiting)
    assert caught.value.filename == str(tmp_path)
    assert content(tmp_path) == []


@pytest.mark.parametrize("waiting", ["wait", "try"])
def test_at_most_one_of_many_processes_holds_the_lock(tmp_path, waiting):
    # Each process creates and removes the folders concurrently.
    processes = [started(RACING, tmp_path / "deep" / "folder" / "lock", 30, waiting) for _ in range(3)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("content", ["a thesis", "", "12 on vm\n"], ids=["text", "empty", "like a lock"])
def test_a_second_name_of_a_file_of_the_user_is_no_lock(tmp_path, file, content):
    thesis = tmp_path / "thesis"
    thesis.write_text(content)
    file.parent.mkdir(parents=True, exist_ok=True)
    os.link(thesis, file)
    with pytest.raises(NotALockError), hold_lock(file):
        pass
    assert thesis.read_text() == content
    assert file.exists()


def test_a_file_of_another_program_is_no_lock(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("1234\n")
    with pytest.raises(NotALockError), hold_lock(file):
        pass
    assert file.read_text() == "1234\n"
