"""Lines of the repository's format are parsed as the strict reader reads them, or refused."""

import numpy as np
import pytest

from tests.fuzzing.data_files import points_of
from tests.fuzzing.strict_readers import Malformed, read_data
from xmlgp.data.line_parser import parse_lines
from xmlgp.errors import DataFormatError

D, K = 50, 20


def parsed(text):
    """Return the points of some lines, or None if they are malformed."""
    try:
        return points_of(parse_lines(text, D, K, "x", 1))
    except DataFormatError:
        return None


def expected(text):
    try:
        return read_data(b"%d %d %d\n" % (text.count(b"\n"), D, K) + text)[3]
    except Malformed:
        return None


@pytest.mark.parametrize(
    "text",
    [
        "1\n",
        "\r\n 1:1\r\r\n",
        " 1:.\n",
        " 1:1e-5.3\n",
        " 1:9007199254740993 2:999999999999999 3:1234567890123456 4:.000000000000001\n",
        " 1:3.40282356779733661637539395458142568448e38\n",
        "18446744073709551617 18446744073709551617:1\n",
    ],
)
def test_lines_are_parsed_as_by_the_strict_reader(text):
    assert parsed(text.encode()) == expected(text.encode())


@pytest.mark.parametrize("form", ["%d", "%.6f", "%.12f", "%.17f", "%g", "%e", "%+.3f"])
def test_values_are_the_nearest_numbers(form):
    random = np.random.default_rng(3)
    rows = []
    for _ in range(300):
        labels = random.choice(K, random.integers(4), replace=False)
        columns = random.choice(D, random.integers(9), replace=False)
        pairs = (f" {column}:{form % random.normal()}" for column in columns)
        rows.append(",".join(map(str, labels)) + "".join(pairs) + "\n")
    text = "".join(rows).encode()
    assert expected(text) is not None
    assert parsed(text) == expected(text)


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
