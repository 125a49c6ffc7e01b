"""Data files in libsvm's format: every way to read them agrees with the strict reader, or refuses the same line."""

import io

import numpy as np
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from tests.fuzzing.data_files import INDICES, VALUES, points_of, read_stream
from tests.fuzzing.mangling import mangled
from tests.fuzzing.sentences import ends_well
from tests.fuzzing.strict_data_reader import read_data
from tests.fuzzing.strict_libsvm_reader import HIGHEST, is_meant, read_libsvm
from tests.fuzzing.text_files import BLANKS, TextFiles, composed, maybe_compressed
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
    comment = draw(st.sampled_from([b""] * 6 + [b"#", b" # 3:x \xff"]))
    return draw(BLANKS).join([label, *pairs]) + comment


#: Lines of one pair of labels, some of them blank.
ROWS = st.sampled_from([[b"-1", b"+1"], [b"0", b"1"]]).flatmap(
    lambda labels: composed(st.sampled_from(labels).flatmap(points) | st.sampled_from([b"", b" ", b"# nothing"]))
)
TEXTS = mangled(WHOLE, TOKENS) | ROWS


class LibsvmFiles(TextFiles):
    """Data files in libsvm's format, some damaged beyond recognition."""

    name = "libsvm file"
    samples = maybe_compressed("data.svm", TEXTS, WHOLE[:3])

    def __init__(self, folder):
        super().__init__(folder)
        (folder / "empty.scores").write_bytes(b"0 5\n")

    def strictly(self, name, content):
        """Return the format, N, D, K and the points."""
        if not is_meant(content):
            return REPOSITORY, *read_data(content)
        points, highest = read_libsvm(content)
        points = [({0} if positive else set(), features) for positive, features in points]
        return LIBSVM, len(points), highest, 1, points

    def readings(self, path, content):
        return {
            "as a file": lambda: plain(read_dataset(path)),
            "from a stream in small pieces": lambda: plain(read_stream(content, read_dataset)),
        }

    def use(self, path, content, expected):
        ends_well("evaluate", "-q", self.folder / "empty.scores", path)
        if expected is not None and expected[0] == LIBSVM and path.suffix != ".gz":
            compare_with_scikit_learn(content, expected)


def plain(found):
    dataset, data_format = found
    return data_format, dataset.N, dataset.D, dataset.K, points_of(dataset, np.float64)


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
