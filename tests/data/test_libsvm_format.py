"""Files in libsvm format are read as scikit-learn writes and reads them; malformed ones are refused."""

import io
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.sparse import csr_array
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from xmlgp.data import lines
from xmlgp.data.formats import fit_to_model, is_libsvm
from xmlgp.data.libsvm_format import MAX_FEATURES, read_points
from xmlgp.data.lines import LineReader
from xmlgp.runtime.errors import DataFormatError


def read(content, name="data.svm"):
    dataset, several = read_points(LineReader(io.BytesIO(content), name), note=pytest.fail)
    assert not several
    return dataset


def assert_equal(dataset, features, positive):
    """Compare with dense features and labels, and check the types of a data set."""
    assert (dataset.features.sparse.dtype, dataset.labels.dtype) == (np.float64, np.bool_)
    assert (dataset.features.sparse.indices.dtype, dataset.labels.indices.dtype) == (np.int32, np.int32)
    for matrix in dataset.features.sparse, dataset.labels:
        assert isinstance(matrix, csr_array)
        assert matrix.has_canonical_format
        assert matrix.data.all()
    # scikit-learn writes 16 digits.
    np.testing.assert_array_equal(dataset.features.sparse.toarray().astype(np.float32), features)
    np.testing.assert_array_equal(dataset.labels.toarray(), np.reshape(positive, (-1, 1)))


NUMBERS = st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, 1.0, 1e-45, -3.4e38])
MATRICES = npst.arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 6)), elements=NUMBERS)


@given(X=MATRICES, data=st.data(), negative=st.sampled_from([-1, 0]), block=st.sampled_from([16, 1 << 20]))
def test_files_of_scikit_learn_are_read_back(X, data, negative, block):
    y = np.array(data.draw(st.lists(st.sampled_from([negative, 1]), min_size=len(X), max_size=len(X))))
    stream = io.BytesIO()
    dump_svmlight_file(
        csr_array(X), y, stream, zero_based=False, comment=data.draw(st.sampled_from(["", "grüß # dich"]))
    )
    content = stream.getvalue()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        dataset = read(content)
    used = np.flatnonzero(X.any(axis=0))
    expected = X[:, : used[-1] + 1 if len(used) else 0]
    assert_equal(dataset, expected, y == 1)
    first, _, _ = content.partition(b"\n")
    assert is_libsvm(first)


def test_all_features_of_the_format():
    content = (
        b"# a comment: \xff\x00, any bytes\r\n"
        b"+1 1:.5 3:-2e-3   7:0 # a comment: 8:1\n"
        b"\n"
        b" \t \n"
        b"-1\n"
        b"  1.0\t2:+4.\t\r\n"
        b"1 1:1 02:1e-60 5:1\n"
        b"-1.0 #\n"
    )
    expected = np.zeros((5, 7), np.float32)
    expected[0, [0, 2]] = 0.5, -0.002
    expected[2, 1] = 4
    expected[3, [0, 4]] = 1
    assert_equal(read(content), expected, [True, False, True, True, False])
    # Times in seconds: single precision represents one in 128 of them.
    assert read(b"-1 1:1600000001\n+1 1:1600000002.5\n").features.sparse.toarray().tolist() == [
        [1600000001],
        [1600000002.5],
    ]


def test_labels():
    for labels, positive in ("-1 +1", [0, 1]), ("1.0 0.0", [1, 0]), ("1", [1]), ("-0", [0]), ("-1", [0]):
        content = "".join(f"{label} 2:1\n" for label in labels.split()).encode()
        assert read(content).labels.toarray()[:, 0].tolist() == positive


def test_points_are_fitted_to_the_features_of_a_model():
    dataset = read(b"1 1:1 3:3\n-1 2:2\n")
    fewer, more = fit_to_model(dataset, 2, 1, "x"), fit_to_model(dataset, 5, 1, "x")
    assert_equal(fewer, [[1, 0], [0, 2]], [True, False])
    assert_equal(more, [[1, 0, 3, 0, 0], [0, 2, 0, 0, 0]], [True, False])
    assert_equal(fit_to_model(dataset, 0, 1, "x"), np.empty((2, 0)), [True, False])


#: A malformed line, and a part of the message.
MALFORMED = {
    "unknown label": ("2 1:1", "label 2 is not one of -1, +1, 0, 1, as of two classes; rows of many labels need"),
    "unknown label with feature 0": ("3 0:1", "label 3 is not one of -1, +1, 0, 1"),
    "label nan": ("nan 1:1", "'nan' is not a list of labels"),
    "label of a regression": (
        "0.5 1:1",
        "'0.5' is not a list of labels such as 3,17; labels are whole numbers, or -1 and +1",
    ),
    "label of the other pair": ("0 1:1", "labels must be either -1 and +1 or 0 and 1"),
    "no label": ("1:1 2:1", "a line needs one label"),
    "index 0": (
        "1 0:1 1:1",
        "features start at 1, not 0 (in scikit-learn, use dump_svmlight_file with zero_based=False)",
    ),
    "a negative index": ("1 -3:1", "'-3:1' is not a feature:value pair"),
    "an index of thousands of digits": ("1 " + "9" * 5000 + ":1", "99...' is not below 10000001"),
    "an index beyond the limit": (f"1 {MAX_FEATURES + 1}:1", f"'{MAX_FEATURES + 1}' is not below"),
    "an index beyond 64 bits": ("1 18446744073709551617:1", "'18446744073709551617' is not below"),
    "duplicate index": ("1 3:1 3:1", "feature 3 occurs twice"),
    "no pair": ("1 3", "'3' is not a feature:value pair"),
    "nan": ("1 3:nan", "'3:nan' is not a feature:value pair of a number from 0 and a finite decimal number"),
    "a value beyond float32": ("1 3:3.4028235677973366e38", "the value of feature 3 is too large for a 32-bit"),
    "query id": ("1 qid:3 4:1", "'qid:3' is not a feature:value pair"),
    "a null byte": ("1 3:1\0 4:1", "'3:1\\x00' is not a feature:value pair"),
    "carriage return alone": ("1 3:1\r1 4:1", "'3:1\\r1' is not a feature:value pair"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_file_is_reported_with_its_line(monkeypatch, name):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 32)
    bad, reason = MALFORMED[name]
    bad = bad.encode(errors="surrogateescape")
    content = b"-1 2:1 # valid\n" * 50 + bad + b"\n+1 3:7\n1 0:1\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataFormatError) as caught:
            read(content)
    assert str(caught.value).startswith("data.svm:51: ")
    assert reason in caught.value.reason
    assert len(caught.value.reason) < 150


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "1: the file has no points"),
        (b"# nothing\n", "2: the file has no points"),
        (b"#\n\n \n", "4: the file has no points"),
        (b"1 1:1\n-1 1:1", "2: the file ends within this line"),
        (b"1 1:1\n7 1:1\n", "2: label 7 is not one of"),
    ],
)
def test_incomplete_file_is_refused(content, reason):
    with pytest.raises(DataFormatError, match=f"^x:{reason}"):
        read(content, "x")


FROM_0 = "labels are the numbers as they are; features count from 0, as one is 0"
FROM_1 = FROM_0.replace("from 0, as one", "from 1, as none") + "; rows that count from 0 need a first line `N D K`"


def read_several(content, first, *expected_notes, several=None):
    """Return the features and labels of points with several labels, and check the first feature and what is noted."""
    notes = []
    dataset, found = read_points(LineReader(io.BytesIO(content), "x"), multilabel=several, note=notes.append)
    assert found
    assert notes == [f"x: {note}" for note in ((FROM_0, FROM_1)[first], *expected_notes)]
    assert dataset.first_feature == first
    assert (dataset.features.sparse.dtype, dataset.labels.dtype) == (np.float32, np.bool_)
    assert all(
        matrix.has_canonical_format and matrix.data.all() for matrix in (dataset.features.sparse, dataset.labels)
    )
    return dataset.features.sparse.toarray(), dataset.labels.toarray()


OF_SEVERAL = {
    "the first line has several": b"1,2 1:0.1 2:0.5\n2 2:1\n",
    "another line has several": b"1 1:0.1 2:0.5\n1,2 2:1\n",
    "features from 0": b"0 0:0.1 2:0.5\n1,2 2:1\n",
    "no labels": b"1,3 1:1\n 4:2 5:1\n2:0.25\n0\t3:1\n",
    "a label alone": b"1,2 1:1\n3\n",
    "several labels alone": b"1 1:1\n3,2\n",
    "comments and line ends": b"# head 1,2\r\n1 1:1 # 3,4\r\n2,1  3:1e-3\t4:-.5\r\n",
    "byte order mark": b"\xef\xbb\xbf1,2 1:1\n0 1:1\n",
    "classes of numbers, and then several": b"7 1:1\n" * 9 + b"3,4 2:1\n",
}


@pytest.mark.parametrize("block", [16, 1 << 20])
@pytest.mark.parametrize("name", OF_SEVERAL)
def test_several_labels_are_read_as_by_scikit_learn(monkeypatch, name, block):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    content = OF_SEVERAL[name]
    X, y = read_several(content, 0 if b" 0:" in content else 1)
    others, labels = load_svmlight_file(io.BytesIO(content.removeprefix(b"\xef\xbb\xbf")), multilabel=True)
    np.testing.assert_array_equal(X, others.toarray().astype(np.float32))
    assert [set(np.flatnonzero(row)) for row in y] == list(map(set, labels))
    assert y.shape[1] == 1 + max(map(max, filter(None, labels)))


def test_several_labels_in_any_order_with_zeros_and_blank_lines():
    content = b"2,1 3:1 1:2 2:0\n\n \n1 1:1\n\n \t\n"
    X, y = read_several(content, 1, "2 blank lines or comments between points are no points")
    assert X.tolist() == [[2, 0, 1], [1, 0, 0]]
    assert y.tolist() == [[False, True, True], [False, True, False]]


def test_one_label_a_line_is_a_number_where_that_is_known():
    X, y = read_several(b"1 1:1\n0 2:1\n", 1, several=True)
    assert y.tolist() == [[False, True], [True, False]]
    with pytest.raises(DataFormatError, match="^x:1: a line needs one label"):
        read_points(LineReader(io.BytesIO(b"1,2 1:1\n"), "x"), multilabel=False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("-1 1:1", "label -1 is not a number from 0 to 10000000"),
        ("1.5 1:1", "'1.5' is not a list of labels"),
        ("1,,2 1:1", "',2' is not a list of labels"),
        ("1,x 1:1", "'x' is not a list of labels"),
        (
            "10000001 1:1",
            "label '10000001' is not below 10000001, the number of labels in the first line, or the limit",
        ),
        ("1,2,1 1:1", "label 1 occurs twice"),
        ("1 2:1 1:1 2:3", "feature 2 occurs twice"),
        ("1 10000001:1", "feature '10000001' is not below 10000001"),
        ("1 1:nan", "'1:nan' is not a feature:value pair"),
        ("1 x", "'x' is not a feature:value pair"),
    ],
)
@pytest.mark.parametrize("block", [16, 1 << 20])
def test_malformed_line_among_several_labels_is_reported(monkeypatch, line, reason, block):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    content = b"1,2 1:1\n" * 9 + line.encode() + b"\n3,4 1:1\n"
    with pytest.raises(DataFormatError, match=f"^x:10: ({reason})"):
        read_points(LineReader(io.BytesIO(content), "x"))
