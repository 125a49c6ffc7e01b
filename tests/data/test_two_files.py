"""Points whose features and labels are in two files, as in newer sets of the Extreme Classification Repository."""

import gzip
import tracemalloc

import numpy as np
import pytest

from tests.problems import small_dataset
from xmlgp.data import lines
from xmlgp.data.formats import REPOSITORY, is_rows, read_blocks, read_dataset, read_labels
from xmlgp.data.lines import LineReader
from xmlgp.runtime.errors import DataFormatError

FEATURES = b"3 4\n0:1.0 3:2.5\n 2:1.0\n1:0.5\n"
LABELS = b"3 2\n0:1.0 1:1.0\n1:1\n\n"
X = [[1, 0, 0, 2.5], [0, 0, 1, 0], [0, 0.5, 0, 0]]
Y = [[True, True], [False, True], [False, False]]


def peak_memory(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def written(tmp_path):
    """Return a function that writes files of features and labels, if not None, and returns the first."""

    def write(features=FEATURES, labels=LABELS, names=("trn_X_Xf.txt", "trn_X_Y.txt")):
        for name, content in zip(names, (features, labels), strict=True):
            if content is not None:
                (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return names[0]

    return write


def labels_of(path, **options):
    notes = []
    with open(path, "rb") as stream:
        labels, D, is_open = read_labels(LineReader(stream, path), note=notes.append, **options)
    assert (labels.dtype, labels.has_canonical_format, is_open) == (np.bool_, True, False)
    return labels.toarray().tolist(), D, notes


def as_two_files(dataset):
    """Return the content of the files of a data set."""
    contents = []
    for matrix in dataset.features.sparse, dataset.labels:
        rows = (matrix[[row]].tocoo() for row in range(dataset.N))
        pairs = (zip(row.col, row.data, strict=True) for row in rows)
        text = "\n".join(" ".join(f"{column}:{float(value)}" for column, value in row) for row in pairs)
        contents.append(f"{matrix.shape[0]} {matrix.shape[1]}\n{text}\n".encode())
    return contents


@pytest.mark.parametrize(
    "names",
    [
        ("trn_X_Xf.txt", "trn_X_Y.txt"),
        ("trn_X_Xf.txt.gz", "trn_X_Y.txt"),
        ("some_tst_X_Xf.txt", "some_tst_X_Y.txt.gz"),
        ("trn_ft_mat.txt", "trn_lbl_mat.txt"),
    ],
)
def test_both_files_are_read(written, names, tmp_path):
    dataset, data_format = read_dataset(written(names=names))
    assert (data_format, dataset.features.sparse.dtype, dataset.labels.dtype) == (REPOSITORY, np.float32, np.bool_)
    assert (dataset.features.sparse.toarray().tolist(), dataset.labels.toarray().tolist()) == (X, Y)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("block", [64, 200, 1 << 20])
def test_blocks_of_any_size_go_together(written, monkeypatch, block):
    expected = small_dataset()
    path = written(*as_two_files(expected))
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    dataset, _ = read_dataset(path)
    assert dataset.shape == expected.shape
    assert (dataset.labels != expected.labels).nnz == 0
    np.testing.assert_array_equal(dataset.features.sparse.toarray(), expected.features.sparse.toarray())


def test_byte_order_marks_line_ends_and_blank_lines(written):
    path = written(*(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n") + b"\n \n" for content in (FEATURES, LABELS)))
    dataset, _ = read_dataset(path)
    assert (dataset.features.sparse.toarray().tolist(), dataset.labels.toarray().tolist()) == (X, Y)


def test_points_to_predict_need_no_labels(written):
    path = written(labels=None)
    for labels in None, b"what is not read":
        with open(written(labels=labels), "rb") as stream:
            header, blocks = read_blocks(LineReader(stream, path), 4, 2, labelled=False, note=pytest.fail)
            ((line, block),) = blocks
        assert (header, line, block.features.sparse.toarray().tolist(), block.K) == ((3, 4, 0), 2, X, 0)


def test_a_file_of_the_usual_format_may_have_any_name(tmp_path):
    (tmp_path / "trn_X_Xf.txt").write_bytes(b"1 3 2\n0 1:1\n")
    assert read_dataset("trn_X_Xf.txt")[0].shape == (1, 3, 2)


def test_values_of_labels(written):
    written(labels=b"3 3\n0:0 1:1\n2:0.5 0:1\n1:2\n")
    expected = [[False, True, False], [True, False, True], [False, True, False]]
    noted = ["trn_X_Y.txt: labels with values such as 0.5 count as labels with 1"]
    assert labels_of("trn_X_Y.txt") == (expected, 0, noted)
    assert labels_of("trn_X_Xf.txt") == (expected, 4, noted)


@pytest.mark.parametrize(
    ("features", "labels", "reason"),
    [
        (None, LABELS, "trn_X_Y.txt:1: this file has labels alone; the features must be in trn_X_Xf.txt beside it"),
        (FEATURES, None, "trn_X_Xf.txt:1: this file has features alone; the labels must be in trn_X_Y.txt beside it"),
        (FEATURES, b"4 2\n\n\n\n\n", "trn_X_Y.txt:1: the labels are of 4 points, but trn_X_Xf.txt has 3"),
        (FEATURES, b"3 2 1\n", "trn_X_Y.txt:1: the first line must be two nonnegative integers `N K`, not '3 2 1'"),
        (
            FEATURES,
            b"0:1 1:1\n1:1\n\n",
            "trn_X_Y.txt:1: the first line must be two nonnegative integers `N K`, not '0:1 1",
        ),
        (
            b"0:1 3:2.5\n",
            LABELS,
            "trn_X_Xf.txt:1: the first line must be two nonnegative integers `N D`, not '0:1 3:2.5'",
        ),
        (b"0.5 1.5\n", LABELS, "trn_X_Xf.txt:1: the first line must be two nonnegative integers `N D`, not '0.5 1.5'"),
        (FEATURES, b"", "trn_X_Y.txt:1: the file is empty"),
        (FEATURES, b"3 2\n0:1\n\n", "trn_X_Y.txt:4: the file ends after 2 of 3 points"),
        (FEATURES, b"3 2\n0:1\n\n\n\n1:1\n", "trn_X_Y.txt:6: the file has more points than the 3"),
        (FEATURES, b"3 2\n0:1\n\n2:1\n", "trn_X_Y.txt:4: label '2' is not below 2"),
        (FEATURES, b"3 2\n0:1\n0:1 0:1\n\n", "trn_X_Y.txt:3: label 0 occurs twice"),
        (FEATURES, b"3 2\n0:1\n\n0:1 1:-1\n", "trn_X_Y.txt:4: label 1 has the value -1, but labels have 1"),
        (FEATURES, b"3 2\n0:1\n1\n\n", "trn_X_Y.txt:3: '1' is not a label:value pair"),
        (FEATURES, b"3 2\n0:1\n0:\n\n", "trn_X_Y.txt:3: a label has no value"),
        (FEATURES, b"3 2\n\n\n0:1", "trn_X_Y.txt:4: the file ends within this line"),
        (b"3 4\n0:1\n4:1\n\n", LABELS, "trn_X_Xf.txt:3: feature '4' is not below 4"),
        (b"3 4\n0:1\n0:1,1:1\n\n", LABELS, "trn_X_Xf.txt:3: '1:1,' is not|trn_X_Xf.txt:3: '1,1:1' is not a finite"),
        (b"3 4\n0:1\n\n", LABELS, "trn_X_Xf.txt:4: the file ends after 2 of 3 points"),
        (b"3 99999999999\n\n\n\n", LABELS, "trn_X_Xf.txt:1: the first line declares 99999999999 columns"),
    ],
)
def test_mistakes_are_reported_with_their_file_and_line(written, features, labels, reason):
    written(features, labels)
    with pytest.raises(DataFormatError, match=f"^({reason})"):
        read_dataset("trn_X_Y.txt" if features is None else "trn_X_Xf.txt")


def test_text_of_two_numbers_is_text_unless_its_name_says_otherwise():
    assert is_rows("a.txt", b"3 4\n")
    assert not is_rows("a.txt", b"3 4\n", strict=True)
    assert not is_rows("-", b"3\t4\n")
    assert is_rows("of/trn_X_Xf.txt.gz", b"3 4\n", strict=True)


def test_memory_does_not_grow_with_the_labels_that_wait(written, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1 << 14)
    sizes = []
    for N in 2000, 8000:
        path = written(b"%d 9\n" % N + b"1:1 2:1 3:1 4:1 5:1 6:1 7:1\n" * N, b"%d 9\n" % N + b"1:1\n" * N)

        def read(path=path):
            with open(path, "rb") as stream:
                for _, block in read_blocks(LineReader(stream, path), 9, 9)[1]:
                    assert block.labels.nnz == block.N

        read()
        sizes.append(peak_memory(read))
    assert sizes[1] < 2 * sizes[0]
