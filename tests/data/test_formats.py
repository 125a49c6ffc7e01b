"""The format of a file is detected, and the reader of that format is used."""

import gzip
import io

import numpy as np
import pytest

from tests.fuzzing.data_files import standard_input
from xmlgp.data.formats import LIBSVM, REPOSITORY, is_libsvm, read_blocks, read_dataset, read_rows
from xmlgp.data.lines import LineReader
from xmlgp.runtime.errors import DataFormatError

LIBSVM_CONTENT = b"# binary\n+1 1:0.5 3:-2\n\n-1 2:7\n+1\n"
REPOSITORY_CONTENT = b"3 3 1\n0 0:0.5 2:-2\n 1:7\n0\n"
X = [[0.5, 0, -2], [0, 7, 0], [0, 0, 0]]
Y = [[True], [False], [True]]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def assert_expected(dataset):
    np.testing.assert_array_equal(dataset.features.sparse.toarray(), X)
    np.testing.assert_array_equal(dataset.labels.toarray(), Y)


@pytest.mark.parametrize(("content", "format_"), [(LIBSVM_CONTENT, LIBSVM), (REPOSITORY_CONTENT, REPOSITORY)])
def test_content_determines_the_format(tmp_path, content, format_):
    for name, stored in ("a.txt", content), ("a.svm", content), ("a.txt.gz", gzip.compress(content)):
        (tmp_path / name).write_bytes(stored)
        assert_expected(read_dataset(name))
    for piped in content, gzip.compress(content):
        with standard_input(piped):
            assert_expected(read_dataset("-"))
    assert read_rows(LineReader(io.BytesIO(content), "a"))[1] == format_


#: The first line of a file in libsvm format, some of which are malformed, and of others.
IN_LIBSVM = [
    b"+1 1:2 3:4\n",
    b"-1 1:2\r\n",
    b"0 1:2 # and so on\n",
    b"+1.0",
    b"# 3 4 5\n",
    b"2 1:1\n",
    b"1 qid:2 1:1\n",
    b"1,2 0:1\n",
    b" 1,2\t3:.5 4:1\r\n",
]
OTHERS = [b"3 4 5\n", b"1 1 1 # 2:3\n", b" 0:1\n", b"10:30\n", b"1,2\n", b"1,2\thttp://x\n", b"1,-2 0:1\n", b""]
OTHERS += [b"nan 1:1\n", b"\x1f\x8b\x08"]


def test_is_libsvm():
    # A file may start with a point without labels.
    assert [line for line in IN_LIBSVM + OTHERS if is_libsvm(line)] == [*IN_LIBSVM, b" 0:1\n", b"10:30\n"]


@pytest.mark.parametrize("path", ["a", "a.gz", "-"])
def test_malformed_file_is_reported_by_the_reader_of_its_format(tmp_path, path):
    for content, line, reason in (
        (b"1 1 1\n0 1:1\n", 2, "feature '1' is not below 1"),
        (b"2 1:1\n", 1, "label 2 is not one of"),
    ):
        (tmp_path / "a").write_bytes(content)
        (tmp_path / "a.gz").write_bytes(gzip.compress(content))
        with standard_input(content), pytest.raises(DataFormatError, match=f"^{path}:{line}: {reason}"):
            read_dataset(path)


@pytest.mark.parametrize(("name", "line"), [("features", "1 1000000000 1"), ("labels", "1 1 1000000000")])
def test_columns_by_claim_are_refused(tmp_path, name, line):
    path = tmp_path / "data.txt"
    path.write_text(f"{line}\n0 0:1\n")
    with pytest.raises(DataFormatError, match=f":1: there are 1000000000 {name} for 1 values; number the {name} that"):
        read_dataset(path)


def test_blocks_of_the_repository_format_are_unchanged():
    header, blocks = read_blocks(LineReader(io.BytesIO(REPOSITORY_CONTENT), "a"), 77, note=pytest.fail)
    assert header == (3, 3, 1)
    (dataset,) = blocks
    assert_expected(dataset)


@pytest.mark.parametrize(
    ("D", "warnings"),
    [(2, ["a has features up to 3; those above 2 are ignored because no training point had them"]), (3, []), (5, [])],
)
def test_libsvm_points_get_the_features_of_the_model(D, warnings):
    reported = []
    header, blocks = read_blocks(LineReader(io.BytesIO(LIBSVM_CONTENT), "a"), D, note=reported.append)
    (dataset,) = blocks
    assert header == (3, D, 1)
    assert (dataset.D, dataset.K) == (D, 1)
    width = min(D, 3)
    np.testing.assert_array_equal(dataset.features.sparse.toarray()[:, :width], np.array(X)[:, :width])
    assert not dataset.features.sparse[:, width:].nnz
    assert reported == warnings
