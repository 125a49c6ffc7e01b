"""Atomic writes: a file is replaced completely or not at all."""

import errno
import os
import subprocess
import sys

import pytest

from xmlgp.runtime.atomic_files import TEMPORARY_NAME, atomic_write


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


def test_a_killed_process_leaves_the_old_file_and_a_recognisable_temporary_file(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    program = (
        "import sys, time\nfrom xmlgp.runtime.atomic_files import atomic_write\n"
        "with atomic_write(sys.argv[1]) as stream:\n"
        " stream.write(b'new'); stream.flush(); print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.kill()
        process.wait()
    assert file.read_bytes() == b"old"
    (left,) = (name for name in names(tmp_path) if name != "file")
    assert TEMPORARY_NAME.fullmatch(left)
