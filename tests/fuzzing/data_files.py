"""Data files of both formats and scores files, and the ways to read them."""

import io
import itertools
import re
import sys
from unittest import mock

import numpy as np
from sklearn.datasets import load_svmlight_file

from tests.fuzzing.mangling import mangled
from tests.fuzzing.strict_readers import (
    HIGHEST,
    has_several_labels,
    is_libsvm,
    read_data,
    read_libsvm,
    read_scores_text,
    read_several,
)
from tests.fuzzing.text_files import TextFiles, ends_well, maybe_compressed
from xmlgp.data import lines
from xmlgp.data.formats import LIBSVM, MULTILABEL, REPOSITORY, read_dataset
from xmlgp.prediction.scores_file import read_scores

__all__ = ["DataFiles", "LibsvmFiles", "ScoresFiles", "points_of", "standard_input"]

WHOLE = [
    b"6 9 5\n0,3 1:1.000000 4:0.5 8:-2.5e-3\n 0:1 2:.25\n4\n\n2,1,0 7:3 5:12.125 6:+1\n1 3:0.333333 8:7\n",
    b"3 4 3\n0,2 0:1 1:0.5 3:2\n1 0:0.25\n2 2:1e-3 3:-4.75\n",
    b"12 40 6\n" + b"".join(b"%d,%d %d:0.123456 39:%d\n" % (i % 6, (i + 1) % 6, 3 * i, i + 1) for i in range(12)),
    b"2 2147483647 2147483647\n2147483646 2147483646:1\n 0:1 7:2\n",
    b"0 3 3\n",
]
LIBSVM_WHOLE = [
    b"+1 1:0.5 3:-2.5e-3\n-1\n-1 2:.25 # of a kind\n+1 1:1 2:+1 7:12.125\n",
    b"# head\n#\n1 1:2\n\n0 2:1e-3 3:-4.75\n1.0 4:0\n0.0 1:7\n",
    b"".join(b"%d 1:0.123456 %d:%d\n" % (-1 if i % 3 else 1, i + 2, i) for i in range(12)),
    b"1 %d:1\n-1 1:1\n" % HIGHEST,
    b"0\n1\n",
    b"1,3 1:0.5 3:-2.5e-3\n0\n 2:.25 # none\n2,0\t7:12.125 1:1\n",
]
SCORES_WHOLE = [
    b"4 5\n3:0.25 0:-1.5\n2:0.3333333 1:1e-09\n\n4:1\n",
    b"3 5 assigned\n0:0.5:0.125 3:0.25:0.5\n\n1:-2:1e-3\n",
    b"9 4\n" + b"".join(b"%d:0.%d %d:-%d\n" % (i % 4, 9 - i, (i + 1) % 4, i) for i in range(9)),
    b"1 2147483647\n2147483646:1 0:0\n",
    b"0 3\n",
    b"3:0.25 0:-1.5 \n\n4:1 \n",
    b"3 0.250\t0 1.500\n\n4 1.000\n",
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
LIBSVM_LABELS = [
    b"1", b"-1", b"0", b"+1", b"-1.0", b"0.0", b"-0", b"1e0", b"10e-1", b"2", b"0.5", b"nan", b"inf", b"1_0", b"-", b"",
    b"1,0", b"1e999", b"9" * 5000, b"0" * 5000 + b"1",
]  # fmt: skip
LIBSVM_TOKENS = [
    *LIBSVM_LABELS, *INDICES, *VALUES, b"%d" % HIGHEST, b"%d" % (HIGHEST + 1), b"+2", b"qid", b" 1:1", b"#", b"\n#",
    b"# nothing", b" # 3:x \xff", b"qid:1 ", b"3 4 1\n", b"1 1:1\n",
]  # fmt: skip
SCORES_TOKENS = [
    *COUNTS, *INDICES, *VALUES, b"1.7976931348623157e308", b"1.7976931348623159e308", b"5e-324", b" 0:1", b":0.5",
    b"0:1:2", b"1000000000 1000000000\n",
]  # fmt: skip


def points_of(dataset):
    """Return the points of a data set as `read_data` does, and check what its users rely on."""
    for matrix in dataset.features.sparse, dataset.labels:
        assert matrix.has_canonical_format
        assert matrix.data.all()
    X, Y = dataset.features.sparse, dataset.labels
    assert Y.dtype == np.bool_
    return [
        (set(Y.indices[a:b].tolist()), dict(zip(X.indices[c:d].tolist(), X.data[c:d].tolist(), strict=True)))
        for (a, b), (c, d) in zip(itertools.pairwise(Y.indptr), itertools.pairwise(X.indptr), strict=True)
    ]


def read_stream(content, read):
    """Read a text as standard input, in blocks of another size."""
    with mock.patch.object(lines, "BLOCK_BYTES", 48), standard_input(content):
        return read("-")


def standard_input(content):
    """Replace standard input by a text."""
    return mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))


def plain(found):
    """Return a data set and its format as the strict readers do."""
    dataset, data_format = found
    assert dataset.features.sparse.dtype == (np.float64 if data_format == LIBSVM else np.float32)
    return data_format, *dataset.shape, points_of(dataset)


class DataFiles(TextFiles):
    """Data files in the repository's format."""

    samples = maybe_compressed("data.txt", mangled(WHOLE, TOKENS), WHOLE[:3])

    def __init__(self, folder):
        super().__init__(folder)
        (folder / "empty.scores").write_bytes(b"0 5\n")

    def strictly(self, name, content):
        """Return the format, N, D, K and the points."""
        if not is_libsvm(content):
            return REPOSITORY, *read_data(content)
        if has_several_labels(content):
            points = read_several(content)
            indices = [index for _, features in points for index in features]
            first = min(indices, default=1) > 0
            K = max((label for labels, _ in points for label in labels), default=-1) + 1
            points = [(own, {i - first: x for i, x in features.items() if x}) for own, features in points]
            return MULTILABEL, len(points), max(indices, default=first - 1) + 1 - first, K, points
        points, highest = read_libsvm(content)
        points = [({0} if positive else set(), features) for positive, features in points]
        return LIBSVM, len(points), highest, 1, points

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
            compare_with_scikit_learn(content, *expected)


class LibsvmFiles(DataFiles):
    """Data files in libsvm's format, some damaged beyond recognition."""

    samples = maybe_compressed("data.svm", mangled(LIBSVM_WHOLE, LIBSVM_TOKENS), LIBSVM_WHOLE[:3])


def compare_with_scikit_learn(content, data_format, N, D, K, points):
    """Compare with scikit-learn's reader, in the repository's format where both agree: few digits, sorted features."""
    repository = data_format == REPOSITORY
    if data_format == MULTILABEL:  # tests/data/test_libsvm_format.py
        return
    if repository:
        content = content.partition(b"\n")[2]
        if not all(is_ascending(row) and len(row) < 1000 for row in content.splitlines()):
            return
    # It ignores comments after a zero byte, and Python's int refuses more digits.
    elif b"\0" in content or re.search(rb"[0-9]{4300}", content):
        return
    X, labels = load_svmlight_file(
        io.BytesIO(content.removeprefix(b"\xef\xbb\xbf")),
        n_features=max(D, 1),
        dtype=np.float32 if repository else np.float64,
        multilabel=repository,
        zero_based=repository,
    )
    labels = [set(map(int, own)) if repository else {0} if own > 0 else set() for own in labels]
    assert labels == [own for own, _ in points]
    stored = [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in X]
    assert [{i: x for i, x in row.items() if x} for row in stored] == [features for _, features in points]


def is_ascending(row):
    indices = [int(pair.split(b":")[0]) for pair in row.split() if b":" in pair]
    return bool(row.strip()) and indices == sorted(indices)


class ScoresFiles(TextFiles):
    """Scores files."""

    samples = maybe_compressed("a.scores", mangled(SCORES_WHOLE, SCORES_TOKENS), SCORES_WHOLE[:3])

    def __init__(self, folder):
        super().__init__(folder)
        (folder / "test.txt").write_bytes(b"3 4 5\n0,2 0:1\n1\n 3:1\n")

    def strictly(self, name, content):
        return read_scores_text(content)

    def readings(self, path, content):
        return {
            "as a file": lambda: plain_scores(read_scores(path)),
            "from a stream in small pieces": lambda: plain_scores(read_stream(content, read_scores)),
        }

    def use(self, path, content, expected):
        ends_well("evaluate", "-q", "--no-cache", path, self.folder / "test.txt")


def plain_scores(scores):
    """Return `Scores` as the strict reader does, and check what its users rely on."""
    assert scores.labels.dtype == np.int32
    assert scores.scores.dtype == np.float64
    columns = [scores.labels, scores.scores] + ([] if scores.std is None else [scores.std])
    pairs = list(zip(*(column.tolist() for column in columns), strict=True))
    return scores.N, scores.K, [pairs[start:stop] for start, stop in itertools.pairwise(scores.indptr.tolist())]
