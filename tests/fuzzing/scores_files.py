"""Scores files: every way to read them agrees with the strict reader, or refuses the same line."""

import gzip
import itertools
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from tests.fuzzing.data_files import VALUES as DATA_VALUES
from tests.fuzzing.data_files import standard_input
from tests.fuzzing.hunt import Sample
from tests.fuzzing.mangling import mangled
from tests.fuzzing.sentences import attempted, ends_well
from tests.fuzzing.strict_data_reader import Malformed
from tests.fuzzing.strict_scores_reader import read_scores_text
from xmlgp.data import lines
from xmlgp.prediction.scores_file import read_scores

__all__ = ["ScoresFiles", "scored_points"]

WHOLE = [
    b"4 5\n3:0.25 0:-1.5\n2:0.3333333 1:1e-09\n\n4:1\n",
    b"3 5\n0:0.5:0.125 3:0.25:0.5\n\n1:-2:1e-3\n",
    b"9 4\n" + b"".join(b"%d:0.%d %d:-%d\n" % (i % 4, 9 - i, (i + 1) % 4, i) for i in range(9)),
    b"1 2147483647\n2147483646:1 0:0\n",
    b"0 3\n",
]

COUNTS = [b"0", b"1", b"5", b"1000000000", b"2147483647", b"2147483648", b"007", b"-1", b"1.0", b"9" * 60, b""]
LABELS = [
    b"0", b"1", b"2", b"4", b"5", b"007", b"2147483647", b"4294967296", b"18446744073709551616", b"-0", b"+1", b"1e0",
    b"1.0", b"9" * 400, b"9" * 5000, b"0" * 5000 + b"1", b"",
]  # fmt: skip
VALUES = [*DATA_VALUES, b"1.7976931348623157e308", b"1.7976931348623159e308", b"5e-324"]
TOKENS = [*COUNTS, *LABELS, *VALUES, b" 0:1", b":0.5", b"0:1:2", b"1000000000 1000000000\n"]

K = 5


@st.composite
def points(draw, columns):
    """Draw a valid line in which some tokens may be replaced."""
    number = st.sampled_from(VALUES[:8])
    labels = [b"%d" % label for label in draw(st.lists(st.integers(0, K - 1), max_size=3, unique=True))]
    pairs = [[label, *(draw(number) for _ in range(columns - 1))] for label in labels]
    if pairs:
        pair = pairs[draw(st.integers(0, len(pairs) - 1))]
        match draw(st.sampled_from([None] * 8 + ["label", "number", "more", "fewer"])):
            case "label":
                pair[0] = draw(st.sampled_from(LABELS))
            case "number":
                pair[-1] = draw(st.sampled_from(VALUES))
            case "more":
                pair.append(draw(number))
            case "fewer":
                pair.pop()
    blank = draw(st.sampled_from([b" "] * 6 + [b"  ", b"\t", b"\r", b"\x0b"]))
    return blank.join(b":".join(pair) for pair in pairs)


@st.composite
def composed(draw):
    """Draw a file of such lines, with a first line that may be wrong."""
    rows = draw(st.lists(points(draw(st.sampled_from([2, 3]))), max_size=6))
    head = [b"%d" % len(rows), b"%d" % K]
    if draw(st.integers(0, 4)) == 4:
        head[draw(st.integers(0, 1))] = draw(st.sampled_from(COUNTS))
    between = draw(st.sampled_from([b" "] * 6 + [b"\t", b"\x0b"]))
    end = draw(st.sampled_from([b"\n"] * 4 + [b"\r\n"]))
    return end.join([between.join(head), *rows]) + draw(st.sampled_from([end] * 5 + [b""]))


SAMPLES = st.one_of(
    *[(mangled(WHOLE, TOKENS) | composed()).map(lambda content: {"a.scores": content})] * 9,
    mangled([gzip.compress(content, mtime=0) for content in WHOLE[:3]]).map(lambda content: {"a.scores.gz": content}),
)


def scored_points(scores):
    """Return the points of `Scores` in the form of `read_scores_text`, and check what its users rely on."""
    assert scores.labels.dtype == np.int32
    assert scores.scores.dtype == np.float64
    columns = [scores.labels, scores.scores] + ([] if scores.std is None else [scores.std])
    pairs = list(zip(*(column.tolist() for column in columns), strict=True))
    return [pairs[start:stop] for start, stop in itertools.pairwise(scores.indptr.tolist())]


class ScoresFiles:
    """Scores files.

    Parameters
    ----------
    folder : Path
        To work in.
    """

    name = "scores file"
    samples = SAMPLES.map(lambda files: Sample("", files))

    def __init__(self, folder):
        self.folder = folder
        (folder / "test.txt").write_bytes(b"3 4 5\n0,2 0:1\n1\n 3:1\n")

    def check(self, sample):
        """Read the file in every way and compare; return whether it was read."""
        ((name, content),) = sample.files.items()
        path = self.folder / name
        path.write_bytes(content)
        try:
            expected, line = expected_of(name, content)
            readings = {
                "as a file": attempted(lambda: read_scores(path)),
                "from a stream in small pieces": attempted(lambda: read_stream(content)),
            }
            for way, (scores, error) in readings.items():
                assert (scores is None) == (expected is None), f"read {way}: {error}"
                if scores is not None:
                    assert (scores.N, scores.K, scored_points(scores)) == expected, f"read {way}"
                elif line:
                    assert error.line == line, f"read {way}: {error}"
            ends_well("evaluate", "-q", "--no-cache", path, self.folder / "test.txt")
        finally:
            path.unlink()
        return expected is not None


def expected_of(name, content):
    """Return the strict reader's scores and None, or None and the line that it refuses, which is None if unknown."""
    if name.endswith(".gz"):
        try:
            content = gzip.decompress(content) if content else b""
        except Exception:
            return None, None
    try:
        return read_scores_text(content), None
    except Malformed as error:
        return None, error.line


def read_stream(content):
    """Read a text as standard input, in blocks of another size."""
    with mock.patch.object(lines, "BLOCK_BYTES", 48), standard_input(content):
        return read_scores("-")
