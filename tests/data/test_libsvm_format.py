"""Reading libsvm's text format, against scikit-learn's own writer and reader, and what is refused of it."""

import io
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.sparse import csr_array
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from xmlgp.data import lines
from xmlgp.data.libsvm_format import MOST_FEATURES, is_libsvm, read_points, with_features
from xmlgp.data.lines import LineReader
from xmlgp.errors import DataFormatError

DATASETS = Path(__file__).parents[3] / "shared" / "datasets" / "binary"
NAMES = ["a8a", "german", "magic.train", "magic.test", "skin_nonskin", "svmguide1.train", "svmguide1.test"]


def read(content, name="data.svm"):
    return read_points(LineReader(io.BytesIO(content), name))


def assert_equal(dataset, features, positive):
    """Compare with other features, dense, and labels, and make sure of what readers of a data set rely on."""
    assert (dataset.features.dtype, dataset.labels.dtype) == (np.float64, np.bool_)
    assert (dataset.features.indices.dtype, dataset.labels.indices.dtype) == (np.int32, np.int32)
    for matrix in dataset.features, dataset.labels:
        assert isinstance(matrix, csr_array)
        assert matrix.has_canonical_format
        assert matrix.data.all()
    # What was written has 16 digits.
    np.testing.assert_array_equal(dataset.features.toarray().astype(np.float32), features)
    np.testing.assert_array_equal(dataset.labels.toarray(), np.reshape(positive, (-1, 1)))


@pytest.mark.parametrize("name", NAMES)
def test_real_data_are_read_as_scikit_learn_reads_them(name):
    path = DATASETS / f"{name}.svm"
    if not path.exists():
        pytest.skip(f"the real data sets are not in {DATASETS}")
    X, y = load_svmlight_file(str(path), zero_based=False)
    dataset = read(path.read_bytes())
    assert_equal(dataset, X.toarray().astype(np.float32), y > 0)
    assert 0 < dataset.labels.nnz < dataset.N


def test_digits_that_single_precision_has_not_are_kept():
    # Times in seconds: single precision has one in 128 of them.
    content = b"-1 1:1600000001\n+1 1:1600000002.5\n"
    assert read(content).features.toarray().tolist() == [[1600000001], [1600000002.5]]


NUMBERS = st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, 1.0, 1e-45, -3.4e38])
MATRICES = npst.arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 6)), elements=NUMBERS)


@given(X=MATRICES, data=st.data(), negative=st.sampled_from([-1, 0]), block=st.sampled_from([16, 1 << 20]))
def test_what_scikit_learn_writes_is_read_back(X, data, negative, block):
    y = np.array(data.draw(st.lists(st.sampled_from([negative, 1]), min_size=len(X), max_size=len(X))))
    stream = io.BytesIO()
    # Comments at the head, and blank lines nowhere.
    dump_svmlight_file(
        csr_array(X), y, stream, zero_based=False, comment=data.draw(st.sampled_from(["", "grüß # dich"]))
    )
    content = stream.getvalue()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        dataset = read(content)
    used = np.flatnonzero(X.any(axis=0))
    expected = X[:, : used[-1] + 1 if len(used) else 0]
    # It writes 16 digits.
    assert_equal(dataset, expected, y == 1)
    first, _, _ = content.partition(b"\n")
    assert is_libsvm(first)


def test_a_file_by_hand():
    content = (
        b"# what this is: \xff\x00, anything\r\n"
        b"+1 1:.5 3:-2e-3   7:0 # of a kind: 8:1\n"
        b"\n"
        b" \t \n"
        b"-1\n"
        b"  1.0\t2:+4.\t\r\n"
        b"1e0 +1:1 02:1e-60 5:1\n"
        b"-1.0 #\n"
    )
    expected = np.zeros((5, 7), np.float32)
    expected[0, [0, 2]] = 0.5, -0.002
    expected[2, 1] = 4
    expected[3, [0, 4]] = 1
    assert_equal(read(content), expected, [True, False, True, True, False])


@pytest.mark.parametrize(
    ("labels", "positive"),
    [("-1 +1", [0, 1]), ("0 1", [0, 1]), ("1 -1.0", [1, 0]), ("1.0 0.0", [1, 0]), ("1", [1]), ("-0", [0]), ("-1", [0])],
)
def test_labels(labels, positive):
    content = "".join(f"{label} 2:1\n" for label in labels.split()).encode()
    np.testing.assert_array_equal(read(content).labels.toarray()[:, 0], np.array(positive, bool))


def test_points_without_any_feature():
    dataset = read(b"1\n0\n1\n")
    assert (dataset.N, dataset.D, dataset.K) == (3, 0, 1)


def test_the_same_with_fewer_and_with_more_features():
    dataset = read(b"1 1:1 3:3\n-1 2:2\n")
    fewer, more = with_features(dataset, 2), with_features(dataset, 5)
    assert_equal(fewer, [[1, 0], [0, 2]], [True, False])
    assert_equal(more, [[1, 0, 3, 0, 0], [0, 2, 0, 0, 0]], [True, False])
    assert_equal(with_features(dataset, 0), np.empty((2, 0)), [True, False])


#: What is wrong, where, and the sentence, in part.
MALFORMED = {
    "another label": ("2 1:1", "label 2 is not one of -1, +1, 0, 1"),
    "a label between": ("0.5 1:1", "label 0.5 is not one of"),
    "an infinite label": ("1e999 1:1", "label 1e999 is not one of"),
    "a long label": ("9" * 5000, "99...' is not one of"),
    "no number for a label": ("nan 1:1", "label 'nan' is not one of -1, +1, 0, 1"),
    "a label with an underscore": ("1_0 1:1", "label '1_0' is not one of"),
    "several labels": ("1,-1 1:1", "label '1,-1' is not one of"),
    "a label of the other kind": ("0 1:1", "label 0 comes after label -1, but labels are either -1 and +1 or 0 and 1"),
    "no label": ("1:1 2:1", "'1:1' stands in place of the label"),
    "index 0": (
        "1 0:1 1:1",
        "'0' is not the index of a feature, a whole number from 1 (of scikit-learn's dump_svmlight_file with "
        "zero_based=False)",
    ),
    "a negative index": ("1 -3:1", "'-3' is not the index"),
    "a decimal index": ("1 1.0:1", "'1.0' is not the index"),
    "an index with an underscore": ("1 1_0:1", "'1_0' is not the index"),
    "an index of letters": ("1 x:1", "'x' is not the index"),
    "no index": ("1 :1", "'' is not the index"),
    "an index of thousands of digits": ("1 " + "9" * 5000 + ":1", "99...' is not the index"),
    "an index beyond the limit": (f"1 {MOST_FEATURES + 1}:1", f"'10000001' is above {MOST_FEATURES}, the highest"),
    "an index beyond 32 bits": ("1 4294967297:1", "'4294967297' is above"),
    "an index beyond 64 bits": ("1 18446744073709551617:1", "'18446744073709551617' is above"),
    "indices twice": ("1 3:1 3:1", "feature 3 occurs twice"),
    "indices that descend": ("1 3:1 2:1", "feature 2 comes after 3"),
    "no pair": ("1 3", "'3' is not an index:value pair"),
    "no value": ("1 3:", "feature 3 has '' in place of a finite decimal number"),
    "a pair of three": ("1 3:1:2", "feature 3 has '1:2' in place of"),
    "nan": ("1 3:nan", "feature 3 has 'nan' in place of a finite decimal number"),
    "infinity": ("1 3:-inf", "feature 3 has '-inf' in place of"),
    "a hexadecimal value": ("1 3:0x1p3", "feature 3 has '0x1p3' in place of"),
    "a value with an underscore": ("1 3:1_0", "feature 3 has '1_0' in place of"),
    "a value beyond float32": ("1 3:3.4028235677973366e38", "'3.4028235677973366e38' is too large for a 32-bit"),
    "a value beyond float64": ("1 3:-1e999", "'-1e999' is too large for a 32-bit"),
    "a ranking": ("1 qid:3 4:1", "'qid:3' is of a ranking, which data of one label have not"),
    "a null byte": ("1 3:1\0 4:1", "byte 0x00 at column 6 is not text"),
    "a null byte before a comment": ("1 3:1\0 # 4:1", "byte 0x00 at column 6 is not text"),
    "bytes that are no text": ("1 3:1 \udcff:1", "byte 0xff at column 7 is not text"),
    "digits of another script": ("1 \u0663:1", "byte 0xd9 at column 3 is not text"),
    "a line end of old": ("1 3:1\r1 4:1", "byte 0x0d at column 6 is not text"),
    "a form feed": ("1 3:1\x0c4:1", "byte 0x0c at column 6 is not text"),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("block", [32, 1 << 20])
@pytest.mark.parametrize("before", [1, 50])
def test_malformed_files_are_refused_with_the_line(monkeypatch, name, block, before):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    bad, reason = MALFORMED[name]
    bad = bad.encode(errors="surrogateescape")
    content = b"-1 2:1 # nothing wrong\n" * before + bad + b"\n+1 3:7\n1 0:1\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataFormatError) as caught:
            read(content)
    assert str(caught.value).startswith(f"data.svm:{before + 1}: ")
    assert reason in caught.value.reason
    assert len(caught.value.reason) < 150


@pytest.mark.parametrize(("first", "second"), [("0", "-1"), ("-1", "0"), ("-1.0", "-0.0")])
def test_labels_of_both_kinds_are_refused_however_far_apart(monkeypatch, first, second):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 32)
    content = f"{first} 1:1\n" + "1 1:1\n" * 99 + f"{second} 1:1\n"
    with pytest.raises(DataFormatError, match="^x:101: label .* comes after label"):
        read(content.encode(), "x")


@pytest.mark.parametrize(("content", "line"), [(b"", 1), (b"# nothing\n", 2), (b"#\n\n \n", 4)])
def test_a_file_without_points_is_refused(content, line):
    with pytest.raises(DataFormatError, match=f"^x:{line}: the file ends without any point$"):
        read(content, "x")


def test_a_last_line_without_end_is_refused_for_it_may_be_cut_short():
    with pytest.raises(DataFormatError, match="^x:2: the file ends within this line"):
        read(b"1 1:1\n-1 1:1", "x")
    with pytest.raises(DataFormatError, match="^x:2: label 7 is not one of"):
        read(b"1 1:1\n7 1:1", "x")


def test_the_highest_index_takes_no_memory():
    read(b"1 1:1\n")  # has scikit-learn loaded
    content = b"1 7:1 %d:1\n-1 2:1\n" % MOST_FEATURES
    tracemalloc.start()
    dataset = read(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert dataset.D == MOST_FEATURES
    assert peak < 1 << 20


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"+1 1:2 3:4\n", True),
        (b"-1 1:2\r\n", True),
        (b"0 1:2 # and so on\n", True),
        (b"  1\t1:2  \n", True),
        (b"1\n", True),
        (b"+1.0", True),
        (b"# 3 4 5\n", True),
        (b" # \n", True),
        # Malformed, but meant so.
        (b"2 1:1\n", True),
        (b"1 0:x 0:\n", True),
        (b"1 qid:2 1:1\n", True),
        (b"3 4 5\n", False),
        (b"1 1 1\n", False),
        (b"1 1 1 # 2:3\n", False),
        (b"1 1:1 1\n", False),
        (b"1 1\n", False),
        (b"7\n", False),
        (b"1,2 0:1\n", False),
        (b" 0:1\n", False),
        (b"\n", False),
        (b"", False),
        (b"N D K\n", False),
        (b"nan 1:1\n", False),
        (b"\x1f\x8b\x08", False),
    ],
)
def test_the_first_line_tells_the_format(line, expected):
    assert is_libsvm(line) is expected
