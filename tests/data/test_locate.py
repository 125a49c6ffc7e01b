"""The training or test file of a data set."""

import pytest

from xmlgp.data.locate import locate
from xmlgp.runtime.errors import XmlgpError


def test_path_that_is_not_a_folder_is_returned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.txt").write_text("")
    (tmp_path / "train.txt").write_text("")
    (tmp_path / "-").mkdir()
    (tmp_path / "-" / "train.txt").write_text("")
    for name in ("-", "points.txt", "no/such/file", "missing", ""):
        assert locate(name, "train") == name
    assert locate("./-", "train") == "-/train.txt"
    assert locate(".", "train") == "train.txt"


def test_folder_without_the_file_is_reported(tmp_path):
    (tmp_path / "a.test.svm").write_text("")
    with pytest.raises(XmlgpError) as caught:
        locate(str(tmp_path), "train")
    assert str(caught.value) == (
        f"{tmp_path}: this folder contains no train file such as train.txt, train.svm or train.csv, "
        "and no documents NAME.txt with labels in NAME.tsv or NAME.key; name the file"
    )


#: The files of a folder, and the expected training and test file.
FOLDERS = [
    ("train.txt test.txt other.txt", "train.txt", "test.txt"),
    ("train.txt.gz", "train.txt.gz", None),
    ("german.svm", "german.svm", None),
    ("magic.train.svm magic.test.svm", "magic.train.svm", "magic.test.svm"),
    ("train.svm test.svm", "train.svm", "test.svm"),
    ("train.svm.gz test.svm.gz magic.train.svm magic.test.svm", "train.svm.gz", "test.svm.gz"),
    ("some.svm magic.train.svm magic.test.svm", "magic.train.svm", "magic.test.svm"),
    ("some.svm some.test.svm", "some.svm", "some.test.svm"),
    ("latest.svm test.svm", "latest.svm", "test.svm"),
    ("test.svm", None, "test.svm"),
    ("notes.md svm some.svm.zip .some.txt", None, None),
    ("train.txt.gz test.txt", "train.txt.gz", "test.txt"),
    ("a8a.svm.gz a8a.test.svm", "a8a.svm.gz", "a8a.test.svm"),
    ("some.txt train.txt.gz", "train.txt.gz", None),
    ("articles.txt articles.tsv train.txt labels.txt", "train.txt", None),
    ("articles.txt articles.key vectorizer.json", None, None),
    ("a.txt b.txt", None, "."),
    ("train.txt train.json notes.json", "train.txt", None),
    ("some.svm notes.json", "some.svm", None),
    ("vectorizer.json notes.json", None, None),
    ("model.json notes.json", None, None),
    ("a.txt b.txt b.tsv train.txt train.key labels.txt", ".", "."),
]


@pytest.mark.parametrize(("names", "train", "test"), FOLDERS, ids=[names for names, *_ in FOLDERS])
def test_files_of_binary_data_sets(tmp_path, names, train, test):
    for name in names.split():
        (tmp_path / name).write_text("")
    for part, expected in ("train", train), ("test", test):
        if expected is None:
            with pytest.raises(XmlgpError, match="this folder contains no "):
                locate(str(tmp_path), part)
        else:
            assert locate(str(tmp_path), part) == str(tmp_path / expected)


SEVERAL = ["b.svm a.svm.gz", "b.train.svm a.train.svm", "a.train.svm.gz b.train.svm c.svm"]
SEVERAL += ["train.txt train.txt.gz", "train.svm train.txt", "train.txt train.tsv"]


@pytest.mark.parametrize("names", SEVERAL)
def test_several_candidates_are_reported(tmp_path, names):
    for name in names.split():
        (tmp_path / name).write_text("")
    with pytest.raises(XmlgpError) as caught:
        locate(str(tmp_path), "train")
    found = " or ".join(sorted(name for name in names.split() if name != "c.svm"))
    assert str(caught.value) == f"{tmp_path}: the train file may be {found}; name the file"
