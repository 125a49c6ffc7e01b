"""Atomic writes: a file is replaced completely or not at all."""

import contextlib
import errno
import os
import subprocess
import sys
import time

import pytest

from xmlgp.runtime import atomic_files
from xmlgp.runtime.atomic_files import (
    FOLDER_LOCK,
    TEMPORARY_NAME,
    atomic_write,
    check_writable,
    remove_abandoned,
    temporary_name,
)

needs_locks = pytest.mark.skipif(atomic_files.fcntl is None, reason="this system has no flock")


class Interruption(BaseException):
    pass


def write(path, content=b"new"):
    with atomic_write(path) as stream:
        stream.write(content)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_old_file_is_replaced_at_the_end_of_the_block(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with atomic_write(file) as stream:
        stream.write(b"new")
        stream.flush()
        assert file.read_bytes() == b"old"
        assert [name for name in names(tmp_path) if TEMPORARY_NAME.fullmatch(name)] == [
            name for name in names(tmp_path) if name != "file"
        ]
    assert file.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Interruption()])
@pytest.mark.parametrize("place", ["block", "fsync", "replace"])
def test_a_failure_leaves_only_the_old_file(tmp_path, monkeypatch, error, place):
    def fail(*arguments):
        raise error

    file = tmp_path / "file"
    file.write_bytes(b"old")
    if place != "block":
        monkeypatch.setattr(os, place, fail)

    def work():
        with atomic_write(file) as stream:
            stream.write(b"new")
            if place == "block":
                fail()

    with pytest.raises(type(error)):
        work()
    monkeypatch.undo()
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_errors_name_the_file_and_not_the_temporary_one(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError) as caught:
        write(tmp_path / "missing" / "file")
    assert caught.value.filename == str(tmp_path / "missing" / "file")

    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path / "file")
    assert caught.value.filename == str(tmp_path / "file")


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_bytes() == b"new"
    assert (tmp_path / "real").read_bytes() == b"old"


def test_file_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "file")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@contextlib.contextmanager
def writing(file):
    """Start a process that is writing a file until it is killed; yield it."""
    program = (
        "import sys, time\nfrom xmlgp.runtime.atomic_files import atomic_write\n"
        "with atomic_write(sys.argv[1]) as stream:\n"
        " stream.write(b'new'); stream.flush(); print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


@needs_locks
def test_what_a_killed_process_leaves_is_removed_by_the_next_one_and_what_is_being_written_is_not(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with writing(file) as process:
        (left,) = (name for name in names(tmp_path) if name != "file")
        assert TEMPORARY_NAME.fullmatch(left)
        write(tmp_path / "other", b"other")
        assert names(tmp_path) == sorted([left, "file", "other"])
        process.kill()
        process.wait()
        assert file.read_bytes() == b"old"
        write(tmp_path / "other", b"other")
        assert names(tmp_path) == ["file", "other"]


def made(folder, kind):
    """Make something that has the name of a temporary file; return its path."""
    path = temporary_name(folder)
    match kind:
        case "link":
            path.symlink_to("precious")
        case "pipe":
            os.mkfifo(path)
        case "link to a folder":
            path.symlink_to("folder")
        case "folder with a link as its lock":
            path.mkdir()
            (path / FOLDER_LOCK).symlink_to("../precious")
        case _:
            path.write_bytes(b"left")
    return path


@needs_locks
@pytest.mark.parametrize(
    "kind",
    ["link", "link to a folder", "folder with a link as its lock", "pipe", "of another user", "of another machine"],
)
def test_nothing_but_what_this_user_left_on_this_machine_is_removed(tmp_path, monkeypatch, kind):
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious").write_bytes(b"precious")
    path = made(tmp_path, kind)
    before = names(tmp_path)
    if kind == "of another user":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    if kind == "of another machine":
        monkeypatch.setattr(atomic_files, "_machine", lambda: "0" * 8)
    remove_abandoned(tmp_path)
    assert names(tmp_path) == before
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert names(tmp_path / "folder") == ["precious"]
    if kind == "of another machine":
        # Its clock may be ahead.
        day = 24 * 60 * 60
        for days, stays in (-8, True), (6, True), (8, False):
            os.utime(path, (time.time() - days * day,) * 2)
            remove_abandoned(tmp_path)
            assert path.exists() == stays


@needs_locks
@pytest.mark.parametrize("when", ["before it is locked", "while another process removes it"])
def test_a_file_that_others_take_for_one_that_is_left_is_created_again(tmp_path, monkeypatch, when):
    def lock(descriptor, kind):
        if not taken:
            taken.extend(tmp_path.iterdir())
            if when == "before it is locked":
                taken[0].unlink()
            else:
                raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        elif when == "while another process removes it":
            # By the name that it has seen.
            taken[0].unlink()
        original(descriptor, kind)

    original, taken = atomic_files.fcntl.flock, []
    monkeypatch.setattr(atomic_files.fcntl, "flock", lock)
    write(tmp_path / "file")
    assert taken
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


@needs_locks
def test_a_file_that_has_got_the_name_of_one_that_was_left_is_not_removed(tmp_path, monkeypatch):
    def lock(descriptor, kind):
        left.unlink()
        left.write_bytes(b"of another process")
        original(descriptor, kind)

    original, left = atomic_files.fcntl.flock, made(tmp_path, "file")
    monkeypatch.setattr(atomic_files.fcntl, "flock", lock)
    remove_abandoned(tmp_path)
    assert left.read_bytes() == b"of another process"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_a_file_system_without_fsync_can_be_used(tmp_path, monkeypatch, code):
    def fail(descriptor):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    if code == errno.EIO:
        with pytest.raises(OSError, match="Input/output error"):
            write(tmp_path / "file")
        assert names(tmp_path) == []
        return
    write(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"new"


@needs_locks
def test_a_look_whether_a_folder_is_writable_removes_what_an_earlier_one_left(tmp_path):
    made(tmp_path, "file")
    check_writable(tmp_path)
    assert names(tmp_path) == []


@needs_locks
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_without_locks_nothing_is_removed(tmp_path, monkeypatch, code):
    def fail(*arguments):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(atomic_files.fcntl, "flock", fail)
    left = made(tmp_path, "file")
    write(tmp_path / "file")
    assert names(tmp_path) == sorted(["file", left.name])
