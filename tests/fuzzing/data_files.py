"""Data files: every way to read them agrees with the strict reader, or refuses the same line."""

import io
import itertools
import sys
from unittest import mock

import numpy as np
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from tests.fuzzing.mangling import mangled
from tests.fuzzing.sentences import ends_well
from tests.fuzzing.strict_data_reader import read_data
from tests.fuzzing.text_files import BLANKS, TextFiles, composed, header, maybe_compressed
from xmlgp.data import lines
from xmlgp.data.repository_format import read_dataset

__all__ = ["INDICES", "VALUES", "DataFiles", "points_of", "read_stream", "standard_input"]

WHOLE = [
    b"6 9 5\n0,3 1:1.000000 4:0.5 8:-2.5e-3\n 0:1 2:.25\n4\n\n2,1,0 7:3 5:12.125 6:+1\n1 3:0.333333 8:7\n",
    b"3 4 3\n0,2 0:1 1:0.5 3:2\n1 0:0.25\n2 2:1e-3 3:-4.75\n",
    b"12 40 6\n" + b"".join(b"%d,%d %d:0.123456 39:%d\n" % (i % 6, (i + 1) % 6, 3 * i, i + 1) for i in range(12)),
    b"2 2147483647 2147483647\n2147483646 2147483646:1\n 0:1 7:2\n",
    b"0 3 3\n",
]

#: Most are valid.
COUNTS = [b"0", b"1", b"9", b"1000000000", b"2147483647", b"2147483648", b"007", b"-1", b"1.0", b"9" * 60, b""]
INDICES = [
    b"0", b"1", b"2", b"3", b"8", b"007", b"2147483646", b"2147483647", b"2147483648", b"4294967297",
    b"18446744073709551616", b"18446744073709551617", b"0" * 5000 + b"1", b"9" * 5000, b"-1", b"+1", b"1.0", b"1e0",
    b"",
]  # fmt: skip
VALUES = [
    b"1", b"0.5", b".5", b"5.", b"0", b"-0", b"+1", b"-2.5e-3", b"1E+2", b"1e-46", b"1e38", b"3.4028235677973362e38",
    b"3.4028235677973366e38", b"1e39", b"-1e999", b"1e-999", b"0.1000000000000000055511151231257827",
    b"12345678901234567890", b"9007199254740993", b"0." + b"0" * 5000 + b"1", b"9" * 5000, b"nan", b"inf", b"0x1p3",
    b"1_0", b"1e", b"e5", b"--1", b"1.2.3", b".", b"-", b"",
]  # fmt: skip
TOKENS = [*COUNTS, *INDICES, *VALUES, b" 0:1", b"0,1", b"1 2 3\n", b"1000000000 1000000000 1000000000\n"]

D, K = 9, 5


@st.composite
def points(draw):
    """Draw a valid line in which some tokens may be replaced."""
    labels = [b"%d" % label for label in draw(st.lists(st.integers(0, K - 1), max_size=3, unique=True))]
    features = draw(st.lists(st.integers(0, D - 1), max_size=4, unique=True))
    pairs = [b"%d:%b" % (feature, draw(st.sampled_from(VALUES[:5]))) for feature in features]
    match draw(st.sampled_from([None] * 8 + ["label", "feature", "value"])):
        case "label":
            labels.append(draw(st.sampled_from(INDICES)))
        case "feature":
            pairs.append(draw(st.sampled_from(INDICES)) + b":1")
        case "value":
            pairs.append(b"%d:" % draw(st.integers(0, D - 1)) + draw(st.sampled_from(VALUES)))
    return draw(BLANKS).join([b",".join(labels), *pairs])


TEXTS = mangled(WHOLE, TOKENS) | composed(points(), lambda N: header([N, D, K], COUNTS))


def points_of(dataset, precision=np.float32):
    """Return the points of a data set in the form of `read_data`, and check what its users rely on."""
    for matrix, dtype in (dataset.features, precision), (dataset.labels, np.bool_):
        assert matrix.dtype == dtype
        assert matrix.has_canonical_format
        assert matrix.data.all()
    X, Y = dataset.features, dataset.labels
    return [
        (set(Y.indices[a:b].tolist()), dict(zip(X.indices[c:d].tolist(), X.data[c:d].tolist(), strict=True)))
        for (a, b), (c, d) in zip(itertools.pairwise(Y.indptr), itertools.pairwise(X.indptr), strict=True)
    ]


class DataFiles(TextFiles):
    """Data files in the repository's format."""

    name = "data file"
    samples = maybe_compressed("data.txt", TEXTS, WHOLE[:3])

    def __init__(self, folder):
        super().__init__(folder)
        (folder / "empty.scores").write_bytes(b"0 5\n")

    def strictly(self, name, content):
        return read_data(content)

    def readings(self, path, content):
        return {
            "plainly": lambda: plain(read_dataset(path, cache=False)),
            "into the cache": lambda: plain(read_dataset(path)),
            "from the cache": lambda: plain(read_dataset(path)),
            "from a stream in small pieces": lambda: plain(read_stream(content, read_dataset)),
        }

    def use(self, path, content, expected):
        ends_well("evaluate", "-q", self.folder / "empty.scores", path)
        if expected is not None and path.suffix != ".gz":
            compare_with_scikit_learn(content, expected)


def plain(dataset):
    """Return a data set in the form of `read_data`."""
    return dataset.N, dataset.D, dataset.K, points_of(dataset)


def read_stream(content, read):
    """Read a text as standard input, in blocks of another size."""
    with mock.patch.object(lines, "BLOCK_BYTES", 48), standard_input(content):
        return read("-")


def standard_input(content):
    """Replace standard input by a text."""
    return mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))


def compare_with_scikit_learn(content, expected):
    """Compare with scikit-learn's reader where the formats agree: sorted features, no empty lines, few digits."""
    _, D, _, points = expected
    _, _, body = content.partition(b"\n")
    if not all(all(map(is_read_alike, row.split(b" "))) and is_ascending(row) for row in body.splitlines()):
        return
    X, label_lists = load_svmlight_file(
        io.BytesIO(body), n_features=max(D, 1), dtype=np.float32, multilabel=True, zero_based=True
    )
    assert [set(map(int, labels)) for labels in label_lists] == [labels for labels, _ in points]
    stored = [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in X]
    assert [{i: x for i, x in row.items() if x} for row in stored] == [features for _, features in points]


def is_read_alike(token):
    return len(token) < 1000


def is_ascending(row):
    indices = [int(pair.split(b":")[0]) for pair in row.split() if b":" in pair]
    return bool(row.strip()) and indices == sorted(indices)
