"""The scores file: round trips, equivalent lines, and malformed files."""

import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmlgp.prediction.scores_file import Scores, read_scores, write_scores
from xmlgp.runtime.errors import DataFormatError, NumericalError


def scores_of(rows, K, with_std=False):
    """Return scores of rows given as lists of (label, score) or (label, score, std)."""
    indptr = np.cumsum([0] + [len(row) for row in rows])
    columns = list(zip(*(pair for row in rows for pair in row), strict=True)) or [[], [], []]
    std = np.array(columns[2], dtype=float) if with_std else None
    return Scores(indptr, np.array(columns[0], dtype=np.int32), np.array(columns[1], dtype=float), K, std)


def rows_of(scores):
    columns = [scores.labels, scores.scores] + ([] if scores.std is None else [scores.std])
    pairs = list(zip(*(column.tolist() for column in columns), strict=True))
    return [pairs[start:stop] for start, stop in zip(scores.indptr, scores.indptr[1:], strict=False)]


def written(blocks, N, K, assigned=False):
    stream = io.BytesIO()
    write_scores(stream, N, K, blocks, assigned)
    return stream.getvalue()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch") / "a.scores.gz"


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "a.scores"
        path.write_bytes(content)
        return read_scores(path)

    return read


def test_examples_of_the_format():
    top = Scores.from_top(np.array([[3, 0], [1, 2]]), np.array([[0.25, -1.5], [1e-9, 1 / 3]]), K=4)
    assert written([top], 2, 4) == b"2 4\n3:0.25 0:-1.5\n2:0.3333333 1:1e-09\n"
    top = Scores.from_top(np.array([[3, 0]]), np.array([[1.0, 2.0]]), K=4, std=np.array([[0.5, 0.125]]))
    assert written([top], 1, 4) == b"1 4\n0:2:0.125 3:1:0.5\n"


@pytest.mark.parametrize("with_std", [False, True])
def test_the_header_says_whether_labels_are_assigned(read, with_std):
    rows = [[(3, 0.25, 0.5)[: 2 + with_std]], []]
    for assigned, header in (False, b"2 4\n"), (True, b"2 4 assigned\n"):
        content = written([scores_of(rows, 4, with_std)], 2, 4, assigned)
        assert content.startswith(header)
        found = read(content)
        assert (found.assigned, found.rows(0, 1).assigned, rows_of(found)) == (assigned, assigned, [[(3, 0.25)], []])
    assert read(b" 2\t4  assigned \r\n\n\n").assigned


@settings(max_examples=25)
@given(st.data())
def test_round_trip(scratch, data):
    K, with_std = data.draw(st.integers(1, 12)), data.draw(st.booleans())
    finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
    pair = st.tuples(st.integers(0, K - 1), finite, *([finite] if with_std else []))
    rows = data.draw(st.lists(st.lists(pair, unique_by=lambda pair: pair[0]), max_size=8))
    cut = data.draw(st.integers(0, len(rows)))
    scores = scores_of(rows, K, with_std)
    content = written([scores.rows(0, cut), scores.rows(cut, scores.N)], scores.N, K)
    scratch.write_bytes(gzip.compress(content))
    found = read_scores(scratch)
    assert (found.N, found.K, found.labels.dtype, found.scores.dtype) == (len(rows), K, np.int32, np.float64)
    best_first = [sorted(row, key=lambda pair: (-pair[1], pair[0])) for row in rows]
    rounded = [[(label, float(f"{score:.7g}")) for label, score, *_ in row] for row in best_first]
    assert rows_of(found) == rounded


@pytest.mark.parametrize(
    "line", [b"1:.5 2:1.", b" 1:+0.5   2:1 ", b"1:5e-1\t2:10E-1", b"01:0.50 0002:1e0", b"1:0.5 2:1\r"]
)
def test_equivalent_lines(read, line):
    assert rows_of(read(b"2 3\n\n" + line + b"\n")) == [[], [(1, 0.5), (2, 1.0)]]


def test_the_order_of_the_file_is_kept_and_the_matrix_stores_zeros(read):
    found = read(b"2 9\n1:0.5 7:0 0:-1\n\n")
    assert rows_of(found) == [[(1, 0.5), (7, 0.0), (0, -1.0)], []]
    assert (found.matrix.shape, found.matrix.nnz, found.matrix[0, 0]) == ((2, 9), 3, -1)


OMIKUJI = b"7 0.950\t0 0.125\n\n4 1.000\n"


@pytest.mark.parametrize(
    "content",
    [OMIKUJI, b"7:0.95 0:0.125 \n\n4:1 \n", b"3 9\n" + OMIKUJI, b"\n" + OMIKUJI],
    ids=["omikuji", "napkinXC", "with sizes", "no labels first"],
)
def test_files_of_other_programs(read, content):
    found = read(content)
    first = [[]] if content.startswith(b"\n") else []
    assert rows_of(found) == [*first, [(7, 0.95), (0, 0.125)], [], [(4, 1.0)]]
    # Without the first line nothing says how many labels there are.
    declared = content.startswith(b"3 9")
    assert (found.K, found.open, found.rows(0, 1).open) == ((9, False, False) if declared else (8, True, True))


MALFORMED = [
    (b"1:0.5\n2:0.5 1\n", 2, "'1' is not a label:score pair"),
    (b"7 0.950\t0 0.125\n7 0.5\tx\n", 2, "'x' is not a label:score pair"),
    (b"7 0.950\n7 0.950\t7 0.125\n", 2, "label 7 occurs twice"),
    (b"", 1, "the file is empty"),
    (b"1 2 3\n", 1, "two nonnegative integers `N K`, the numbers of points and labels, not '1 2 3'"),
    (b"1 2 Assigned\n", 1, "two nonnegative integers `N K`"),
    (b"1" * 5000 + b" 2\n", 1, "two nonnegative integers"),
    (b"0 2147483648\n", 1, "2147483648 labels are more than the 2147483647 supported"),
    (b"2 3\n1:0.5\n", 3, "the file ends after 1 of 2 points declared in its first line"),
    (b"1 3\n1:0.5\n\n2:0.5\n", 4, "the file has more points than the 1 that its first line declares"),
    (b"2 3\n1:0.5\n3:0.5\n", 3, "label '3' is not below 3, the number of labels in the first line"),
    (b"2 3\n1:0.5\n" + b"9" * 5000 + b":0.5\n", 3, "is not below 3, the number of labels"),
    (b"2 3\n1:0.5\n2:0.5 1:1 2:0\n", 3, "label 2 occurs twice"),
    (b"2 3\n1:0.5\n2:nan\n", 3, "'2:nan' is not a label:score pair"),
    (b"2 3\n1:0.5\n:1\n", 3, "':1' is not a label:score pair"),
    (b"2 3\n1:0.5\n2 :1\n", 3, "'2' is not a label:score pair"),
    (b"2 3\n1:2:3:4\n\n", 2, "'1:2:3:4' is not a label:score pair"),
    ("2 3\n1:0.5\n\u0661:0.5\n".encode(), 3, "is not a label:score pair"),
]


@pytest.mark.parametrize(("content", "line", "reason"), MALFORMED)
def test_malformed_files_raise_an_error_with_the_line(read, tmp_path, content, line, reason):
    with pytest.raises(DataFormatError) as caught:
        read(content)
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "a.scores"), line)
    assert reason in caught.value.reason
    assert len(str(caught.value)) < 300


def test_line_number_after_the_first_block(read):
    lines = [b"1:0.123456 2:0.5"] * 200_000
    lines[150_000] = b"1:0.123456 1:0.5"
    with pytest.raises(DataFormatError, match=":150002: label 1 occurs twice"):
        read(b"200000 3\n" + b"\n".join(lines))


@pytest.mark.parametrize(("wrong", "column"), [(np.nan, 1), (-np.inf, 2)])
def test_non_finite_scores_are_not_written(wrong, column):
    fine, pair = [(0, 0.5, 0.5)], [4, 0.5, 0.5]
    pair[column] = wrong
    blocks = [scores_of([fine], 5, True), scores_of([fine, [], [*fine, pair]], 5, True)]
    with pytest.raises(NumericalError, match="score of label 4 for point 3 is not finite"):
        written(blocks, 4, 5)
