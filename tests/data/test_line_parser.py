"""The error messages of the strict parser; test_repository_format compares what it accepts with a slow reader."""

import numpy as np
import pytest

from xmlgp.data.line_parser import parse_lines
from xmlgp.errors import DataFormatError


def test_points_are_sorted_and_without_zeros():
    dataset = parse_lines(b"3,1 5:2 2:0 0:-.5\n\n 1:1e-3\r\n", 6, 4, "x", 2)
    assert dataset.labels.toarray().tolist() == [[False, True, False, True], [False] * 4, [False] * 4]
    assert dataset.features.toarray().tolist() == [[-0.5, 0, 0, 0, 0, 2], [0] * 6, [0, np.float32(0.001), 0, 0, 0, 0]]
    assert dataset.features.indices.tolist() == [0, 5, 1]
    assert dataset.features.indices.dtype == np.int32


def test_error_names_the_first_malformed_line():
    with pytest.raises(DataFormatError, match=r"^file.txt:13: label '4' is not below 4, the number of labels in the"):
        parse_lines(b"1 1:1\n\n4 1:1\n5 x\n", 6, 4, "file.txt", 11)


def test_long_invalid_value_takes_linear_time():
    # A pattern that backtracks would take hours.
    with pytest.raises(DataFormatError, match="not a finite decimal"):
        parse_lines(b" 1:" + b"1" * 1_000_000 + b"x\n", 6, 4, "x", 1)
