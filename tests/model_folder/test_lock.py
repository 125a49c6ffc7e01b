"""The lock of a model folder: one writer at a time."""

import errno

import pytest

from xmlgp.model_folder.arrays import FOLDER
from xmlgp.model_folder.folder import LOCK, lock_model_folder
from xmlgp.runtime.errors import ModelFolderError

pytest.importorskip("fcntl")


def content(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*"))


def rejected(path):
    with pytest.raises(ModelFolderError) as caught, lock_model_folder(path):
        pass
    return str(caught.value)


def test_a_second_writer_is_rejected(tmp_path):
    path = tmp_path / "model"
    with lock_model_folder(path):
        told = rejected(path)
        assert content(path) == [LOCK, FOLDER]
    assert told == f"{path}: another process is writing this model; wait until it ends, or choose another folder"
    with lock_model_folder(path):
        pass


def test_what_a_killed_writer_left_is_removed(tmp_path):
    left = tmp_path / FOLDER / f".xmlgp-{'a' * 16}.tmp"
    left.parent.mkdir()
    left.touch()
    with lock_model_folder(tmp_path):
        assert not left.exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    def read_only(file, *arguments):
        raise OSError(errno.EROFS, "Read-only file system", file)

    monkeypatch.setattr("os.open", read_only)
    with pytest.raises(OSError, match="Read-only") as caught, lock_model_folder(tmp_path / "model"):
        pass
    assert caught.value.filename == str(tmp_path / "model")
    assert content(tmp_path) == []


def test_a_file_in_place_of_the_folder_is_rejected(tmp_path):
    (tmp_path / "model").write_text("mine")
    assert rejected(tmp_path / "model") == f"{tmp_path / 'model'}: this is a file, but a model is a folder"
    assert content(tmp_path) == ["model"]


def test_other_file_in_place_of_the_lock_is_rejected(tmp_path):
    (tmp_path / LOCK).mkdir()
    with pytest.raises(OSError, match="this is not a lock file; remove it"), lock_model_folder(tmp_path):
        pass
