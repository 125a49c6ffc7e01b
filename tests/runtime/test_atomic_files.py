"""Files that are complete or not there at all."""

import errno
import os

import pytest

from xmlgp.runtime.atomic_files import atomic_write, remove_abandoned, temporary_folder


def names(folder):
    return sorted(os.listdir(folder))


def test_the_old_file_is_replaced_at_the_end_of_the_block(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    with atomic_write(file) as stream:
        stream.write(b"new")
        (other,) = set(names(tmp_path)) - {"file"}
        assert other.startswith(".xmlgp-")
        assert file.read_text() == "old"
    assert (file.read_text(), names(tmp_path)) == ("new", ["file"])


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "full")])
def test_a_failure_leaves_only_the_old_file(tmp_path, error):
    file = tmp_path / "file"
    file.write_text("old")

    def fail():
        with atomic_write(file) as stream:
            stream.write(b"new")
            raise error

    with pytest.raises((KeyboardInterrupt, OSError)):
        fail()
    assert (file.read_text(), names(tmp_path)) == ("old", ["file"])


def test_errors_name_the_file_and_not_the_temporary_one(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "none" / "file"):
        pass
    assert caught.value.filename == str(tmp_path / "none" / "file")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught, atomic_write(tmp_path / "file"):
        pass
    assert caught.value.filename == str(tmp_path / "file")


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "other").write_text("of the user")
    (tmp_path / "file").symlink_to(tmp_path / "other")
    with atomic_write(tmp_path / "file") as stream:
        stream.write(b"new")
    assert (tmp_path / "other").read_text() == "of the user"
    assert not (tmp_path / "file").is_symlink()


def test_a_temporary_folder_is_this_users_and_is_removed_with_its_content(tmp_path):
    with temporary_folder(tmp_path) as folder:
        (folder / "file").touch()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert names(tmp_path) == []


def test_what_killed_processes_left_is_removed(tmp_path):
    file, link = (tmp_path / f".xmlgp-{digit * 16}.tmp" for digit in "ab")
    file.touch()
    (tmp_path / "of the user").mkdir()
    link.symlink_to(tmp_path / "of the user")
    (tmp_path / "of the user" / "file").touch()
    remove_abandoned(tmp_path)
    assert names(tmp_path) == ["of the user"]
    assert names(tmp_path / "of the user") == ["file"]


def test_a_file_system_without_fsync_can_be_used(tmp_path, monkeypatch):
    def none(descriptor):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", none)
    with atomic_write(tmp_path / "file") as stream:
        stream.write(b"new")
    assert names(tmp_path) == ["file"]
