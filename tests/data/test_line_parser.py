"""The strict parser's messages; what it accepts is tested against a slow reader in test_repository_format."""

import numpy as np
import pytest

from xmlgp.data.line_parser import parse_lines, quoted
from xmlgp.errors import DataFormatError


def test_points_are_read_sorted_and_without_zeros():
    dataset = parse_lines(b"3,1 5:2 2:0 0:-.5\n\n 1:1e-3\r\n", 6, 4, "x", 2)
    assert dataset.labels.toarray().tolist() == [[False, True, False, True], [False] * 4, [False] * 4]
    assert dataset.features.toarray().tolist() == [[-0.5, 0, 0, 0, 0, 2], [0] * 6, [0, np.float32(0.001), 0, 0, 0, 0]]
    assert dataset.features.indices.tolist() == [0, 5, 1]
    assert dataset.features.indices.dtype == np.int32


def test_the_first_bad_line_is_named():
    with pytest.raises(DataFormatError, match=r"^file.txt:13: label '4' is not below 4, the number of labels in the"):
        parse_lines(b"1 1:1\n\n4 1:1\n5 x\n", 6, 4, "file.txt", 11)


def test_a_failing_value_takes_time_linear_in_its_length():
    # A pattern that backtracks would not come back from this.
    with pytest.raises(DataFormatError, match="not a finite decimal"):
        parse_lines(b" 1:" + b"1" * 1_000_000 + b"x\n", 6, 4, "x", 1)


def test_quoted_shortens_and_escapes():
    assert quoted(b"abc") == "'abc'"
    assert quoted(b"x" * 100) == "'" + "x" * 30 + "...'"
    assert quoted(b"\xff") == r"'\\xff'"
