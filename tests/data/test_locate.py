"""The training or test file of a data set."""

import pytest

from xmlgp.data.locate import files_read, locate, other_part, part_of
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
        f"{tmp_path}: this folder contains no train.txt, train.svm, trn_X_Xf.txt, *.train.svm or other *.svm, "
        "with or without .gz, and no documents NAME.txt with labels in NAME.tsv or NAME.key"
    )


def test_labels_alone_lead_to_the_features_beside_them(tmp_path):
    for name in "trn_X_Y.txt", "trn_X_Xf.txt.gz", "tst_X_Y.txt", "a_lbl_mat.txt.gz", "a_ft_mat.txt", "X_Y.txt":
        (tmp_path / name).touch()
    for name, expected in (
        ("trn_X_Y.txt", "trn_X_Xf.txt.gz"),
        ("tst_X_Y.txt", "tst_X_Y.txt"),
        ("a_lbl_mat.txt.gz", "a_ft_mat.txt"),
        ("missing_X_Y.txt", "missing_X_Y.txt"),
        ("X_Y.txt", "X_Y.txt"),
    ):
        assert locate(tmp_path / name, "train") == str(tmp_path / expected)
    assert [part_of(name) for name in ("a/b_X_Xf.txt", "b_X_Y.txt.gz", "b.txt")] == ["features", "labels", None]
    assert other_part(tmp_path / "trn_X_Xf.txt.gz") == str(tmp_path / "trn_X_Y.txt")
    assert other_part(tmp_path / "no_X_Y.txt.gz") is None
    assert other_part("no_X_Y.txt.gz", missing=True) == "no_X_Xf.txt"
    assert other_part("b.txt", missing=True) is None


def test_files_of_two_parts_are_read(tmp_path):
    for name in "trn_X_Y.txt", "trn_X_Xf.txt", "Yf.txt", "filter_labels_test.txt", "results.txt":
        (tmp_path / name).touch()
    assert {file.name for file in files_read(tmp_path)} == {
        "trn_X_Y.txt",
        "trn_X_Xf.txt",
        "Yf.txt",
        "filter_labels_test.txt",
    }


#: The files of a folder, and the expected training and test file.
FOLDERS = [
    ("train.txt test.txt other.txt", "train.txt", "test.txt"),
    ("train.txt.gz", "train.txt.gz", None),
    ("train.txt train.txt.gz", "train.txt", None),
    ("german.svm", "german.svm", None),
    ("a8a.svm a8a.svm.gz", "a8a.svm", None),
    ("magic.train.svm magic.test.svm", "magic.train.svm", "magic.test.svm"),
    ("train.svm test.svm", "train.svm", "test.svm"),
    ("train.svm.gz test.svm.gz magic.train.svm magic.test.svm", "train.svm.gz", "test.svm.gz"),
    ("train.txt.gz train.svm test.svm test.txt", "train.txt.gz", "test.txt"),
    ("some.svm magic.train.svm magic.test.svm", "magic.train.svm", "magic.test.svm"),
    ("some.svm some.test.svm", "some.svm", "some.test.svm"),
    ("latest.svm test.svm", "latest.svm", "test.svm"),
    ("test.svm", None, "test.svm"),
    ("notes.md svm some.svm.zip .some.txt", None, None),
    ("train.txt.gz test.txt", "train.txt.gz", "test.txt"),
    ("a8a.svm.gz a8a.test.svm a8a.test.svm.gz", "a8a.svm.gz", "a8a.test.svm"),
    ("some.txt train.txt.gz", "train.txt.gz", None),
    ("train.txt train.tsv", "train.txt", None),
    ("articles.txt articles.tsv train.txt labels.txt", "train.txt", None),
    ("articles.txt articles.key vectorizer.json", None, None),
    ("a.txt b.txt", None, "."),
    ("trn_X_Xf.txt trn_X_Y.txt tst_X_Xf.txt tst_X_Y.txt Yf.txt", "trn_X_Xf.txt", "tst_X_Xf.txt"),
    ("a_trn_X_Xf.txt.gz a_trn_X_Y.txt.gz test_X_Y.txt", "a_trn_X_Xf.txt.gz", "test_X_Y.txt"),
    ("trn_ft_mat.txt trn_lbl_mat.txt tst_ft_mat.txt", "trn_ft_mat.txt", "tst_ft_mat.txt"),
    ("train.txt trn_X_Xf.txt trn_X_Y.txt", "train.txt", None),
    ("filter_labels_test.txt trn.json.gz", None, None),
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
SEVERAL += ["trn_X_Xf.txt b_trn_X_Xf.txt.gz"]


@pytest.mark.parametrize("names", SEVERAL)
def test_several_candidates_are_reported(tmp_path, names):
    for name in names.split():
        (tmp_path / name).write_text("")
    with pytest.raises(XmlgpError) as caught:
        locate(str(tmp_path), "train")
    found = " or ".join(sorted(name.removesuffix(".gz") for name in names.split() if name != "c.svm"))
    assert str(caught.value) == f"{tmp_path}: the train file may be {found}; name the file"
