"""Which file a user means."""

import pytest

from xmlgp.data.locate import locate
from xmlgp.errors import XmlgpError


@pytest.mark.parametrize("name", ["-", "points.txt", "no/such/file", "missing"])
def test_what_is_no_folder_stands_for_itself(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.txt").write_text("")
    assert locate(name, "train") == name


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_folder_stands_for_its_part(tmp_path, part):
    for name in ("train.txt", "test.txt", "other.txt"):
        (tmp_path / name).write_text("")
    assert locate(str(tmp_path), part) == str(tmp_path / f"{part}.txt")
    assert locate(f"{tmp_path}/", part) == str(tmp_path / f"{part}.txt")
    assert locate(tmp_path, part) == str(tmp_path / f"{part}.txt")


def test_a_compressed_part_is_found_where_there_is_no_plain_one(tmp_path):
    (tmp_path / "train.txt.gz").write_text("")
    (tmp_path / "train.txt").mkdir()
    assert locate(str(tmp_path), "train") == str(tmp_path / "train.txt.gz")
    (tmp_path / "train.txt").rmdir()
    (tmp_path / "train.txt").write_text("")
    assert locate(str(tmp_path), "train") == str(tmp_path / "train.txt")


def test_a_folder_without_the_part_is_refused(tmp_path):
    (tmp_path / "train.txt").write_text("")
    with pytest.raises(XmlgpError) as caught:
        locate(str(tmp_path), "test")
    assert str(caught.value) == f"{tmp_path}: there is no test.txt or test.txt.gz in this folder"


def test_a_folder_called_dash_is_named_with_its_place(tmp_path, monkeypatch):
    (tmp_path / "-").mkdir()
    (tmp_path / "-" / "train.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    assert locate("-", "train") == "-"
    assert locate("./-", "train") == "-/train.txt"


def test_no_name_is_not_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    assert locate("", "train") == ""
    assert locate(".", "train") == "train.txt"
