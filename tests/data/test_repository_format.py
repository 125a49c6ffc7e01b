"""Files in the repository's format are read as scikit-learn and a strict second reader read them."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.fuzzing.data_files import points_of
from tests.fuzzing.strict_readers import Malformed, read_data
from xmlgp.data import lines
from xmlgp.data.dataset import Dataset, Features
from xmlgp.data.files import open_input
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import read_blocks, read_points, write_dataset
from xmlgp.runtime.errors import DataFormatError, XmlgpError

SMALL = b"""6 9 5
0,3 1:1.000000 4:0.5 8:-2.5e-3
 0:1 2:.25
4

2,1,0 7:3 5:12.125 6:+1
1 3:0.333333 8:7
"""


def read_file(path):
    with open_input(path) as stream:
        return read_points(LineReader(stream, str(path)))


def same_arrays(left, right):
    return left.shape == right.shape and all(
        getattr(left, name).dtype == getattr(right, name).dtype
        and getattr(left, name).tobytes() == getattr(right, name).tobytes()
        for name in ("data", "indices", "indptr")
    )


def same(left, right):
    return same_arrays(left.features.sparse, right.features.sparse) and same_arrays(left.labels, right.labels)


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a file and returns its path."""

    def write(content, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


@st.composite
def datasets(draw):
    D, K = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    numbers = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool)
    value = draw(st.sampled_from([numbers, st.integers(1, 1 << 24).map(np.float32)]))
    point = st.tuples(st.sets(st.integers(0, K - 1)), st.dictionaries(st.integers(0, D - 1), value, max_size=8))
    points = draw(st.lists(point, max_size=8))
    X, Y = np.zeros((len(points), D), np.float32), np.zeros((len(points), K), bool)
    for row, (labels, features) in enumerate(points):
        Y[row, list(labels)] = True
        X[row, list(features)] = list(features.values())
    return Dataset(Features(csr_array(X)), csr_array(Y))


@settings(max_examples=40, deadline=None)
@given(dataset=datasets(), compressed=st.booleans())
def test_round_trip_is_exact(tmp_path_factory, dataset, compressed):
    path = tmp_path_factory.mktemp("round") / ("data.txt.gz" if compressed else "data.txt")
    write_dataset(path, dataset)
    assert same(dataset, read_file(path))


def test_values_are_written_with_digits_that_read_back_as_the_same_numbers(tmp_path):
    # The shortest decimal of the last, 7.038531e-26, is nearest to it, but as a double it rounds to another float32.
    misread = float.fromhex("0x1.5c87fap-84")
    values = np.array([[1, 0.1, -2.5, 1e-5, 3.4028235e38, 1e-45, misread], [0, 0, 0, 0, 10, 255, 1 << 24]])
    dataset = Dataset(Features(csr_array(values.astype(np.float32))), csr_array(np.ones((2, 1), bool)))
    write_dataset(tmp_path / "x", dataset)
    header, first, second = (tmp_path / "x").read_text().splitlines()
    assert header == "2 7 1"
    assert first.startswith("0 0:1 1:0.100000001 2:-2.5 3:9.99999975e-06 4:3.40282347e+38 5:1.40129846e-45 6:7.0385")
    assert second == "0 4:10 5:255 6:16777216"
    assert same(dataset, read_file(tmp_path / "x"))


def test_lines_without_labels_or_features_are_those_that_other_tools_read(tmp_path):
    X = np.array([[1, 0], [0, 0], [0, 2], [0, 0]], np.float32)
    Y = np.array([[1, 0], [1, 1], [0, 0], [0, 0]], bool)
    dataset = Dataset(Features(csr_array(X)), csr_array(Y))
    write_dataset(tmp_path / "x", dataset)
    assert (tmp_path / "x").read_bytes() == b"4 2 2\n0 0:1\n0,1\n 1:2\n\n"
    assert same(dataset, read_file(tmp_path / "x"))


def test_nonfinite_value_is_not_written(tmp_path):
    dataset = Dataset(Features(csr_array(np.array([[np.nan]], np.float32))), csr_array(np.ones((1, 1), bool)))
    with pytest.raises(XmlgpError, match="not finite"):
        write_dataset(tmp_path / "x", dataset)
    assert not list(tmp_path.iterdir())


LEGAL = {
    "no points": (b"0 5 5\n", []),
    "byte order mark": (b"\xef\xbb\xbf1 9 9\n1 7:1\n", [({1}, {7: 1})]),
    "blank lines at the end": (b"2 9 9\n1 7:1\n\n\n \t\r\n  ", [({1}, {7: 1}), (set(), {})]),
    "neither labels nor features": (b"3 1 1\n\n \n\r\n", [(set(), {})] * 3),
    "labels only": (b"1 9 9\n4,2,7\n", [({2, 4, 7}, {})]),
    "an empty line between points and at the end": (b"3 9 9\n\n4,2\n\n", [(set(), {}), ({2, 4}, {}), (set(), {})]),
    "features only": (b"1 9 9\n 4:2\n", [(set(), {4: 2})]),
    "unsorted features": (b"1 9 9\n1 7:1 3:2\n", [({1}, {3: 2, 7: 1})]),
    "trailing spaces": (b"2 9 9 \n1 7:1  \n1\t\n", [({1}, {7: 1}), ({1}, {})]),
    "Windows line ends": (b"2 9 9\r\n1 7:1\r\n1,2\r\n", [({1}, {7: 1}), ({1, 2}, {})]),
    "notations of one": (
        b"1 9 1\n 0:1 1:1. 2:1.0 3:+1 4:01 5:1e0 6:10E-1 7:.1e+1\n",
        [(set(), dict.fromkeys(range(8), 1))],
    ),
    "negative values": (b"1 9 1\n 0:-1 1:-1. 2:-.5 3:-1.5\n", [(set(), {0: -1, 1: -1, 2: -0.5, 3: -1.5})]),
    "zeros are dropped": (b"1 9 1\n 0:0 1:0.00 2:-0 3:1e-99 4:1\n", [(set(), {4: 1})]),
    "leading zeros": (b"1 9 9\n007 0000000000000000000003:1\n", [({7}, {3: 1})]),
    "many digits": (
        b"1 9 1\n 0:0.1000000000000000055511151231257827 1:123456789.123456789 2:00000000000000000000001\n",
        [(set(), {0: 0.1, 1: 123456789.123456789, 2: 1})],
    ),
    "rounding to even": (
        b"1 9 1\n 1:9007199254740993 2:999999999999999 3:1234567890123456 4:.000000000000001\n",
        [(set(), {1: 9007199254740993, 2: 999999999999999, 3: 1234567890123456, 4: 1e-15})],
    ),
    "largest and smallest": (
        b"1 9 1\n 0:340282346638528859811704183484516925440 1:3.4028235677973362e38 2:1e-45\n",
        [(set(), {0: 3.4028235e38, 1: 3.4028235e38, 2: 1e-45})],
    ),
    "largest indices": (b"1 2147483647 2147483647\n2147483646 2147483646:1\n", [({2147483646}, {2147483646: 1})]),
}


@pytest.mark.parametrize("name", LEGAL)
def test_unusual_files_are_read(written, name):
    content, expected = LEGAL[name]
    expected = [(labels, {i: np.float32(value) for i, value in features.items()}) for labels, features in expected]
    path = written(content)
    dataset = read_file(path)
    assert points_of(dataset) == expected
    assert read_data(content)[3] == expected


MALFORMED = {
    "empty file": (b"", 1, "empty"),
    "two numbers": (b"1 2\n\n", 1, "N D K"),
    "negative header": (b"1 -2 3\n\n", 1, "N D K"),
    "form feed in the header": (b"1\x0c2 3\n\n", 1, "N D K"),
    "long header": (b"1 2 " + b"0" * 10**6 + b"3\n\n", 1, "N D K"),
    "too many features": (b"1 2147483648 3\n\n", 1, "2147483648 columns"),
    "fewer rows": (b"3 9 9\n1 1:1\n\n", 4, "ends after 2 of "),
    "point after blank lines": (b"1 9 9\n1 1:1\n\n \n1\n", 5, "the file has more points than the 1 that"),
    "blank end of a point too few": (b"2 9 9\n1 1:1\n ", 3, "the file ends within this line"),
    "label out of range": (
        b"2 9 9\n1 1:1\n2,9 1:1\n",
        3,
        "label '9' is not below 9, the number of labels in the first line",
    ),
    "feature far out of range": (b"1 9 9\n 18446744073709551617:1\n", 2, "feature '18446744073709551617'"),
    "negative label": (b"1 9 9\n-1 1:1\n", 2, "'-1' is not a list of labels"),
    "decimal feature": (b"1 9 9\n1 1.0:1\n", 2, "'1.0:1' is not a feature:value pair"),
    "gap in labels": (b"1 9 9\n1,,2 1:1\n", 2, "',2' is not a list of labels"),
    "labels in two places": (b"1 9 9\n1, 2 1:1\n", 2, "'' is not a list of labels"),
    "feature without a value": (b"1 9 9\n1 2\n", 2, "'2' is not a feature:value pair"),
    "no space before the features": (b"1 9 9\n2:1\n", 2, "starts with a space"),
    "feature missing": (b"1 9 9\n1 :1\n", 2, "':1' is not a feature:value pair"),
    "value missing": (b"1 9 9\n1 1: 2:1\n", 2, "'1:' is not a feature:value pair"),
    "overflow of float32": (b"1 9 9\n1 1:3.4028235677973366e38\n", 2, "too large"),
    "overflow of double": (b"1 9 9\n1 1:-1e400\n", 2, "too large"),
    "feature twice": (b"1 9 9\n1 3:1 1:1 3:2\n", 2, "feature 3 occurs twice"),
    "feature twice, once zero": (b"1 9 9\n1 3:1 3:0\n", 2, "feature 3 occurs twice"),
    "label twice": (b"1 9 9\n1,2,1 1:1\n", 2, "label 1 occurs twice"),
    "truncated in a feature": (b"1 9 9\n1 1:1 2", 2, "'2' is not a feature:value pair"),
    "truncated at a line": (b"2 9 9\n1 7:1\n4 1:0.25\r", 3, "the file ends within this line"),
    "truncated header": (b"0 5 5", 1, "the file ends within this line"),
    "zero byte": (b"1 9 9\n1 1:1\x00\n", 2, "'1:1\\x00' is not a feature:value pair"),
    "UTF-8": ("1 9 9\n1 1:１\n".encode(), 2, "is not a feature:value pair"),
    "carriage return within a line": (b"1 9 9\n1 1:1\r 2:1\n", 2, "'1:1\\r' is not a feature:value pair"),
    "two carriage returns": (b"1 9 9\n1 1:1\r\r\n", 2, "'1:1\\r' is not a feature:value pair"),
    "a long token": (b"1 9 9\n1 1:" + b"x" * 10**6 + b"\n", 2, "xxx...' is not a feature"),
    # A pattern that backtracks would take hours.
    "a long number": (b"1 9 9\n1 1:" + b"1" * 10**6 + b"x\n", 2, "not a feature:value pair"),
    "index beyond 64 bits": (b"1 9 9\n18446744073709551617 1:1\n", 2, "'18446744073709551617' is not a list of labels"),
    "the first of two errors": (
        b"5 9 9\n1 1:1\n\n9 1:1\n2 x\n\n",
        4,
        "label '9' is not below 9, the number of labels in the first line",
    ),
}
WRONG_VALUES = ["1:1", "one", "1.2.3", ".", "-", "-.", "e5", "1e", "1e-5.5", "--1", "nan", "-inf", "0x1p3", "1_0"]
MALFORMED |= {
    value: (f"1 9 9\n1 1:{value} 2:1\n".encode(), 2, f"'1:{value}' is not a feature:value pair")
    for value in WRONG_VALUES
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_file_is_reported_with_its_line(written, name, tmp_path):
    content, line, reason = MALFORMED[name]
    path = written(content)
    with pytest.raises(DataFormatError) as caught:
        read_file(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert reason in caught.value.reason
    assert len(str(caught.value)) < 300
    assert not list(tmp_path.glob("cache/text/*"))
    with pytest.raises(Malformed) as strict:
        read_data(content)
    assert strict.value.line == line


def test_points_are_read_in_blocks(monkeypatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    header, blocks = read_blocks(LineReader(io.BytesIO(SMALL), "x"))
    assert header == (6, 9, 5)
    blocks = list(blocks)
    assert len(blocks) > 2
    assert [point for block in blocks for point in points_of(block)] == read_data(SMALL)[3]
