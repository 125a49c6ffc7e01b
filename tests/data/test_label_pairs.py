"""Pairs of a point and a label that evaluation leaves out."""

import gzip

import pytest

from xmlgp.data.label_pairs import pairs_beside, read_pairs
from xmlgp.runtime.errors import SettingsError


def test_pairs_are_read(tmp_path):
    content = b"0 5\n 2\t17 \r\n\n2 4\n\n"
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    for name in "a.txt", "a.txt.gz":
        assert read_pairs(tmp_path / name, 3).tolist() == [[0, 5], [2, 17], [2, 4]]
    (tmp_path / "a.txt").write_bytes(b"")
    assert read_pairs(tmp_path / "a.txt", 3).tolist() == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"0 1\n1\n", "this is not a list of pairs of a point and a label .*row 2"),
        (b"1 2 3\n", "a line must be a pair of a point and a label"),
        (b"0 1\n-1 2\n", "a line must be a pair of a point and a label, numbers from 0"),
        (b"0 1\n1 2:1\n", "this is not a list of pairs of a point and a label .*'2:1'.* row 1, .*rows count from 0"),
        (b"0 1\n3 1\n", "point 3 is not below 3, the number of points"),
        (b"1 " + b"9" * 50 + b"\n", "this is not a list of pairs"),
    ],
)
def test_other_files_are_refused(tmp_path, content, reason):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(SettingsError, match=f"a.txt: {reason}"):
        read_pairs(tmp_path / "a.txt", 3)


def test_pairs_beside_points(tmp_path):
    for name in "filter_labels_train.txt", "filter_labels_test.txt", "points.txt":
        (tmp_path / name).touch()
    assert pairs_beside(str(tmp_path / "points.txt")) == [str(tmp_path / "filter_labels_test.txt")]
    assert pairs_beside("-") == pairs_beside(str(tmp_path / "no" / "points.txt")) == []
