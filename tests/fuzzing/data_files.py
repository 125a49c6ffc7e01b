"""Data files: every way to read them agrees with the strict reader, or refuses the same line."""

import gzip
import io
import itertools
import os
import shutil
import sys
import zlib
from unittest import mock

import numpy as np
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from tests.fuzzing.hunt import Sample
from tests.fuzzing.mangling import mangled
from tests.fuzzing.sentences import attempted, ends_well
from tests.fuzzing.strict_data_reader import Malformed, read_data
from xmlgp.data import lines, repository_format
from xmlgp.data.repository_format import read_dataset

__all__ = ["DataFiles", "points_of"]

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
    blank = draw(st.sampled_from([b" "] * 6 + [b"  ", b"\t", b"\r", b"\x0b"]))
    return blank.join([b",".join(labels), *pairs])


@st.composite
def composed(draw):
    """Draw a file of such lines, with a first line that may be wrong."""
    rows = draw(st.lists(points(), max_size=6))
    head = [b"%d" % len(rows), b"%d" % D, b"%d" % K]
    if draw(st.integers(0, 4)) == 4:
        head[draw(st.integers(0, 2))] = draw(st.sampled_from(COUNTS))
    end = draw(st.sampled_from([b"\n"] * 4 + [b"\r\n"]))
    return end.join([b" ".join(head), *rows]) + draw(st.sampled_from([end] * 5 + [b""]))


PACKED = [gzip.compress(content, mtime=0) for content in WHOLE[:3]]

TEXTS = mangled(WHOLE, TOKENS) | composed()
#: One in eight is compressed, before or after the damage.
SAMPLES = st.one_of(
    *[TEXTS.map(lambda content: {"data.txt": content})] * 7,
    st.one_of(mangled(PACKED), TEXTS.map(gzip.compress)).map(lambda content: {"data.txt.gz": content}),
)


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


class DataFiles:
    """Data files.

    Parameters
    ----------
    folder : Path
        To work in.
    """

    name = "data file"
    samples = SAMPLES.map(lambda files: Sample("", files))

    def __init__(self, folder):
        self.folder = folder
        self._cache = folder / "cache"
        (folder / "empty.scores").write_bytes(b"0 5\n")

    def check(self, sample):
        """Read the file in every way and compare; return whether it was read."""
        ((name, content),) = sample.files.items()
        path = self.folder / name
        path.write_bytes(content)
        with mock.patch.dict(os.environ, {"XMLGP_CACHE_DIR": str(self._cache)}):
            try:
                return self._check(str(path), content)
            finally:
                path.unlink()
                shutil.rmtree(self._cache, ignore_errors=True)

    def _check(self, path, content):
        expected, line = expected_of(path, content)
        readings = {
            "plainly": attempted(lambda: read_dataset(path, cache=False)),
            "into the cache": attempted(lambda: read_dataset(path)),
            "from the cache": attempted(lambda: read_dataset(path)),
            "from a stream in small pieces": attempted(lambda: read_stream(content)),
            "line by line": attempted(lambda: read_by_lines(content)),
        }
        for way, (dataset, error) in readings.items():
            assert (dataset is None) == (expected is None), f"read {way}: {error}"
            if dataset is not None:
                assert (dataset.N, dataset.D, dataset.K, points_of(dataset)) == expected, f"read {way}"
            elif line:
                assert error.line == line, f"read {way}: {error}"
        ends_well("evaluate", "-q", self.folder / "empty.scores", path)
        if expected is not None and not path.endswith(".gz"):
            compare_with_scikit_learn(content, expected)
        return expected is not None


def expected_of(path, content):
    """Return the strict reader's data and None, or None and the line that it refuses, which is None if unknown."""
    if path.endswith(".gz"):
        try:
            content = gzip.decompress(content) if content else b""
        except (OSError, EOFError, zlib.error):
            return None, None
    try:
        return read_data(content), None
    except Malformed as error:
        return None, error.line


def read_stream(content):
    """Read a text as standard input, in blocks of another size."""
    with mock.patch.object(lines, "BLOCK_BYTES", 48), standard_input(content):
        return read_dataset("-")


def read_by_lines(content):
    """Read a text as standard input with the line parser alone."""
    parse = repository_format.parse_block

    def none_but_empty(text, D, K):
        return None if text else parse(text, D, K)

    with mock.patch.object(repository_format, "parse_block", none_but_empty), standard_input(content):
        return read_dataset("-")


def standard_input(content):
    """Replace standard input by a text."""
    return mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))


def compare_with_scikit_learn(content, expected):
    """Compare with scikit-learn's reader where the formats agree: sorted features, no empty lines, few digits."""
    N, D, K, points = expected
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
