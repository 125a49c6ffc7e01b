"""Scores files: every way to read them agrees with the strict reader, or refuses the same line."""

import itertools

import numpy as np

from tests.fuzzing.data_files import COUNTS, read_stream
from tests.fuzzing.data_files import VALUES as DATA_VALUES
from tests.fuzzing.mangling import mangled
from tests.fuzzing.sentences import ends_well
from tests.fuzzing.strict_readers import read_scores_text
from tests.fuzzing.text_files import TextFiles, maybe_compressed
from xmlgp.prediction.scores_file import read_scores

__all__ = ["ScoresFiles", "scored_points"]

WHOLE = [
    b"4 5\n3:0.25 0:-1.5\n2:0.3333333 1:1e-09\n\n4:1\n",
    b"3 5\n0:0.5:0.125 3:0.25:0.5\n\n1:-2:1e-3\n",
    b"9 4\n" + b"".join(b"%d:0.%d %d:-%d\n" % (i % 4, 9 - i, (i + 1) % 4, i) for i in range(9)),
    b"1 2147483647\n2147483646:1 0:0\n",
    b"0 3\n",
]

LABELS = [
    b"0", b"1", b"2", b"4", b"5", b"007", b"2147483647", b"4294967296", b"18446744073709551616", b"-0", b"+1", b"1e0",
    b"1.0", b"9" * 400, b"9" * 5000, b"0" * 5000 + b"1", b"",
]  # fmt: skip
VALUES = [*DATA_VALUES, b"1.7976931348623157e308", b"1.7976931348623159e308", b"5e-324"]
TOKENS = [*COUNTS, *LABELS, *VALUES, b" 0:1", b":0.5", b"0:1:2", b"1000000000 1000000000\n"]


def scored_points(scores):
    """Return the points of `Scores` in the form of `read_scores_text`, and check what its users rely on."""
    assert scores.labels.dtype == np.int32
    assert scores.scores.dtype == np.float64
    columns = [scores.labels, scores.scores] + ([] if scores.std is None else [scores.std])
    pairs = list(zip(*(column.tolist() for column in columns), strict=True))
    return [pairs[start:stop] for start, stop in itertools.pairwise(scores.indptr.tolist())]


class ScoresFiles(TextFiles):
    """Scores files."""

    samples = maybe_compressed("a.scores", mangled(WHOLE, TOKENS), WHOLE[:3])

    def __init__(self, folder):
        super().__init__(folder)
        (folder / "test.txt").write_bytes(b"3 4 5\n0,2 0:1\n1\n 3:1\n")

    def strictly(self, name, content):
        return read_scores_text(content)

    def readings(self, path, content):
        return {
            "as a file": lambda: plain(read_scores(path)),
            "from a stream in small pieces": lambda: plain(read_stream(content, read_scores)),
        }

    def use(self, path, content, expected):
        ends_well("evaluate", "-q", "--no-cache", path, self.folder / "test.txt")


def plain(scores):
    """Return `Scores` in the form of `read_scores_text`."""
    return scores.N, scores.K, scored_points(scores)
