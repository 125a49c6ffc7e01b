"""Pairs of a point and a label that evaluation leaves out."""

import gzip

import pytest

from xmlgp.data import lines
from xmlgp.data.label_pairs import pairs_beside, read_pairs
from xmlgp.runtime.errors import DataFormatError


@pytest.mark.parametrize("block", [8, 1 << 20])
def test_pairs_are_read(tmp_path, monkeypatch, block):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    content = b"\xef\xbb\xbf0 5\n 2\t17 \r\n\n2 4\n\n"
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    for name in "a.txt", "a.txt.gz":
        assert read_pairs(tmp_path / name, 3).tolist() == [[0, 5], [2, 17], [2, 4]]
    (tmp_path / "a.txt").write_bytes(b"")
    assert read_pairs(tmp_path / "a.txt", 3).tolist() == []


@pytest.mark.parametrize("block", [8, 1 << 20])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1", "'1' is not a pair of a point and a label, numbers from 0"),
        (b"1 2 3", "'1 2 3' is not"),
        (b"-1 2", "'-1 2' is not"),
        (b"1 a", "'1 a' is not"),
        (b"1 2:1", "'1 2:1' is not"),
        (b"3 1", "point 3 is not below 3, the number of points"),
        (b"1 " + b"9" * 5000, "'1 99"),
        (b"1 2\x00", "'1 2.*' is not a pair"),
    ],
)
def test_malformed_line_is_reported(tmp_path, monkeypatch, block, line, reason):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    (tmp_path / "a.txt").write_bytes(b"0 1\n1 2\n" + line + b"\n1 2\n")
    with pytest.raises(DataFormatError, match=f"a.txt:3: {reason}"):
        read_pairs(tmp_path / "a.txt", 3)


def test_pairs_beside_points(tmp_path):
    for name in (
        "filter_labels_train.txt",
        "trn_filter_labels.txt",
        "filter_labels_test.txt",
        "a_filter_labels.txt",
        "points.txt",
    ):
        (tmp_path / name).touch()
    path = str(tmp_path / "points.txt")
    found = {part: [name[len(str(tmp_path)) + 1 :] for name in pairs_beside(path, part)] for part in ("train", "test")}
    assert found == {
        "train": ["a_filter_labels.txt", "filter_labels_train.txt", "trn_filter_labels.txt"],
        "test": ["a_filter_labels.txt", "filter_labels_test.txt"],
    }
    assert pairs_beside("-", "test") == pairs_beside(str(tmp_path / "no" / "points.txt"), "test") == []
