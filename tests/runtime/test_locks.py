"""Lock files: only one process holds a lock, and the lock is released when that process ends."""

import errno
import os
import subprocess
import sys
import threading

import filelock
import pytest

from xmlgp.runtime.locks import LockedError, hold_lock

#: Holds the lock until its standard input ends.
HOLDING = """if True:
    import sys
    from pathlib import Path
    from xmlgp.runtime.locks import hold_lock
    with hold_lock(Path(sys.argv[1])):
        print("locked", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "folder" / "lock"


def test_one_process_holds_the_lock_until_it_ends(tmp_path, file):
    command = [sys.executable, "-c", HOLDING, file]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(LockedError), hold_lock(file):
            pass
        assert file.exists()
        taken = []

        def wait():
            with hold_lock(file, wait=True):
                taken.append(True)

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert taken == []
        holder.kill()
        holder.wait()
        waiting.join()
        assert taken == [True]
    assert list(tmp_path.rglob("*")) in ([], [file.parent])


@pytest.mark.parametrize("failure", [False, True])
def test_the_lock_file_and_empty_new_folders_are_removed(tmp_path, file, failure):
    try:
        with hold_lock(file):
            assert file.is_file()
            if failure:
                raise ValueError
    except ValueError:
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "pipe", "content"])
def test_what_is_no_lock_is_neither_followed_nor_changed(tmp_path, file, kind):
    file.parent.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("of the user")
    make = {
        "link": lambda: file.symlink_to(victim),
        "pipe": lambda: os.mkfifo(file),
        "content": lambda: file.write_text("of another program"),
    }
    make[kind]()
    with pytest.raises(OSError, match="not a lock"), hold_lock(file):
        pass
    assert victim.read_text() == "of the user"
    assert os.path.lexists(file)


def test_a_file_system_without_locks_can_be_used(tmp_path, file, monkeypatch):
    def none(self):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "_acquire", none)
    with hold_lock(file):
        (tmp_path / "inside").touch()
    assert (tmp_path / "inside").exists()


def test_a_folder_in_which_no_file_can_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory|File exists"), hold_lock(tmp_path / "file" / "lock"):
        pass
