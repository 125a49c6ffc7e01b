"""Data files in libsvm's format: every way to read them agrees with the strict reader, or refuses the same line."""

import gzip
import io
import zlib
from unittest import mock

import numpy as np
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from tests.fuzzing.data_files import INDICES, VALUES, expected_of, points_of, standard_input
from tests.fuzzing.hunt import Sample
from tests.fuzzing.mangling import mangled
from tests.fuzzing.sentences import attempted, ends_well
from tests.fuzzing.strict_data_reader import Malformed
from tests.fuzzing.strict_libsvm_reader import HIGHEST, is_meant, read_libsvm
from xmlgp.data import lines
from xmlgp.data.formats import LIBSVM, REPOSITORY, read_dataset

__all__ = ["LibsvmFiles"]

WHOLE = [
    b"+1 1:0.5 3:-2.5e-3\n-1\n-1 2:.25 # of a kind\n+1 1:1 2:+1 7:12.125\n",
    b"# head\n#\n1 1:2\n\n0 2:1e-3 3:-4.75\n1.0 4:0\n0.0 1:7\n",
    b"".join(b"%d 1:0.123456 %d:%d\n" % (-1 if i % 3 else 1, i + 2, i) for i in range(12)),
    b"1 %d:1\n-1 1:1\n" % HIGHEST,
    b"0\n1\n",
]

LABELS = [
    b"1", b"-1", b"0", b"+1", b"-1.0", b"0.0", b"-0", b"1e0", b"10e-1", b"2", b"0.5", b"nan", b"inf", b"1_0", b"-", b"",
    b"1,0", b"1e999", b"9" * 5000, b"0" * 5000 + b"1",
]  # fmt: skip
OWN_INDICES = [b"%d" % HIGHEST, b"%d" % (HIGHEST + 1), b"+2", b"qid", *INDICES]
TOKENS = [*LABELS, *OWN_INDICES, *VALUES, b" 1:1", b"#", b"\n#", b"qid:1 ", b"3 4 1\n", b"1 1:1\n"]


@st.composite
def points(draw, label):
    """Draw a valid line in which some tokens may be replaced."""
    indices = sorted(draw(st.lists(st.integers(1, 9), max_size=4, unique=True)))
    pairs = [b"%d:%b" % (index, draw(st.sampled_from(VALUES[:5]))) for index in indices]
    match draw(st.sampled_from([None] * 9 + ["label", "index", "value", "order"])):
        case "label":
            label = draw(st.sampled_from(LABELS))
        case "index":
            pairs.append(draw(st.sampled_from(OWN_INDICES)) + b":1")
        case "value":
            pairs.append(b"10:" + draw(st.sampled_from(VALUES)))
        case "order":
            pairs.append(draw(st.sampled_from(pairs or [b"1:1"])))
    blank = draw(st.sampled_from([b" "] * 6 + [b"  ", b"\t", b"\r", b"\x0b"]))
    comment = draw(st.sampled_from([b""] * 6 + [b"#", b" # 3:x \xff"]))
    return blank.join([label, *pairs]) + comment


@st.composite
def composed(draw):
    """Draw a file of such lines, some of them blank."""
    labels = draw(st.sampled_from([[b"-1", b"+1"], [b"0", b"1"]]))
    line = st.sampled_from(labels).flatmap(points) | st.sampled_from([b"", b" ", b"# nothing"])
    end = draw(st.sampled_from([b"\n"] * 4 + [b"\r\n"]))
    return end.join(draw(st.lists(line, max_size=6))) + draw(st.sampled_from([end] * 5 + [b""]))


TEXTS = mangled(WHOLE, TOKENS) | composed()
#: One in eight is compressed, before or after the damage.
SAMPLES = st.one_of(
    *[TEXTS.map(lambda content: {"data.svm": content})] * 7,
    st.one_of(mangled([gzip.compress(content, mtime=0) for content in WHOLE[:3]]), TEXTS.map(gzip.compress)).map(
        lambda content: {"data.svm.gz": content}
    ),
)


class LibsvmFiles:
    """Data files in libsvm's format, some damaged beyond recognition.

    Parameters
    ----------
    folder : Path
        To work in.
    """

    name = "libsvm file"
    samples = SAMPLES.map(lambda files: Sample("", files))

    def __init__(self, folder):
        self.folder = folder
        (folder / "empty.scores").write_bytes(b"0 5\n")

    def check(self, sample):
        """Read the file in every way and compare; return whether it was read."""
        ((name, content),) = sample.files.items()
        path = self.folder / name
        path.write_bytes(content)
        try:
            return self._check(str(path), content)
        finally:
            path.unlink()

    def _check(self, path, content):
        expected, line = expected_libsvm(path, content)
        readings = {
            "as a file": attempted(lambda: read_dataset(path)),
            "from a stream in small pieces": attempted(lambda: read_stream(content)),
        }
        for way, (found, error) in readings.items():
            assert (found is None) == (expected is None), f"read {way}: {error}"
            if found is not None:
                dataset, format_ = found
                assert (format_, dataset.N, dataset.D, dataset.K, points_of(dataset, np.float64)) == expected, (
                    f"read {way}"
                )
            elif line:
                assert error.line == line, f"read {way}: {error}"
        ends_well("evaluate", "-q", self.folder / "empty.scores", path)
        if expected is not None and expected[0] == LIBSVM and not path.endswith(".gz"):
            compare_with_scikit_learn(content, expected)
        return expected is not None


def expected_libsvm(path, content):
    """Return the format and what the strict reader of it reads, and None; or None and the line that it refuses."""
    if path.endswith(".gz"):
        try:
            content = gzip.decompress(content) if content else b""
        except (OSError, EOFError, zlib.error):
            return None, None
    if not is_meant(content):
        found, line = expected_of("", content)
        return found and (REPOSITORY, *found), line
    try:
        points, highest = read_libsvm(content)
    except Malformed as error:
        return None, error.line
    points = [({0} if positive else set(), features) for positive, features in points]
    return (LIBSVM, len(points), highest, 1, points), None


def read_stream(content):
    """Read a text as standard input, in blocks of another size."""
    with mock.patch.object(lines, "BLOCK_BYTES", 48), standard_input(content):
        return read_dataset("-")


def compare_with_scikit_learn(content, expected):
    """Compare with scikit-learn's reader, of the whole text at once and with its comments."""
    if b"\0" in content:  # it ignores comments after one
        return
    _, N, D, _, points = expected
    X, y = load_svmlight_file(io.BytesIO(content), n_features=max(D, 1), zero_based=False)
    assert [{0} if label > 0 else set() for label in y] == [labels for labels, _ in points]
    stored = [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in X]
    assert len(stored) == N
    assert [{i: x for i, x in row.items() if x} for row in stored] == [features for _, features in points]
