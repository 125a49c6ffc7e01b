"""Reading data of one label in libsvm's text format, which svmlight has as well.

A line is `label index:value index:value …`, its parts separated by spaces or tabs. The label is -1 or +1, or 0 or 1
in place of them, in the same way throughout the file; indices are counted from 1 and ascend, values are decimals as in
`xmlgp.data.line_parser`. What comes behind a `#` is a comment; lines without anything else are passed over.

The text is read by scikit-learn in blocks of whole lines. Its reader takes more than that for a number, ignores the
groups of rankings (`qid`) and does not say in which line it stumbles, so a block it must not see or does not like is
gone through line by line, for the first that is malformed. There is no binary copy in the user's cache: sets of one
label are read in a second, and a copy could only be checked against a number of features that no line announces.
"""

import io
import re

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.data.line_parser import DECIMAL, FLOAT32_OVERFLOW, NOT_TEXT, quoted
from xmlgp.errors import DataFormatError
from xmlgp.runtime.progress import silent

__all__ = ["MOST_FEATURES", "is_libsvm", "read_points", "with_features"]

#: What is made of each feature takes memory, so no index may claim more of them than this.
MOST_FEATURES = 10_000_000

#: What a line consists of without its comment; of words made of these, Python's numbers are the format's.
PLAIN = b"0123456789+-.eE: \t\r\n"
#: Numbers that stand for the label; of the first two only one may occur in a file.
LABELS = (-1, 0, 1)
WORD = re.compile(rb"\S+")
COMMENT = re.compile(rb"#[^\n]*")
SIGNED_DIGITS = re.compile(rb"[+-]?\d+")
#: A label no longer than this is shown as it is.
LONGEST_SHOWN = 9
#: More lines than there are in a block.
ALL = 2**62


def is_libsvm(line):
    """Tell from the first line of a data file whether it is in this format.

    Parameters
    ----------
    line : bytes

    Returns
    -------
    bool
        Whether it is a comment, a number with something of the form `index:value` behind it throughout, or one of the
        labels alone.
    """
    text, hash_, _ = line.partition(b"#")
    # One by one, as a line of anything can be long.
    words = (match[0] for match in WORD.finditer(text))
    label, pair = next(words, b""), next(words, b"")
    if not label:
        return bool(hash_)
    if not DECIMAL.fullmatch(label):
        return False
    return b":" in pair and all(b":" in other for other in words) if pair else float(label) in LABELS


def read_points(reader, progress=silent):
    """Read a whole data file.

    Parameters
    ----------
    reader : LineReader
        At the first line.
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    Dataset
        Of K = 1 label, which the points of label +1 or 1 have, and as many features as the highest index says. Index 1
        is feature 0.

    Raises
    ------
    DataFormatError
        If the file is malformed, naming the line, or without points.
    """
    blocks, seen = [], set()
    with progress(f"reading {reader.path}", unit=" points") as bar:
        while True:
            line = reader.line
            text = reader.take(ALL)
            if not text:
                break
            blocks.append(_parse(text, seen, reader.path, line))
            bar.update(len(blocks[-1][0]))
    if not any(len(labels) for labels, *_ in blocks):
        raise DataFormatError(reader.path, reader.line, "the file ends without any point")
    labels, lengths, indices, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    features = as_csr(values, indices, indptr, int(indices.max(initial=-1)) + 1)
    features.eliminate_zeros()
    of_labels = np.concatenate([[0], np.cumsum(labels)])
    return Dataset(features, as_csr(None, np.zeros(of_labels[-1], np.int32), of_labels, 1))


def with_features(dataset, D):
    """Return the points with the first D features, those that they do not have included.

    Parameters
    ----------
    dataset : Dataset
    D : int

    Returns
    -------
    Dataset
    """
    kept = dataset.features[:, :D]
    return Dataset(as_csr(kept.data, kept.indices, kept.indptr, D), dataset.labels)


def _parse(text, seen, path, first_line):
    """Return labels, numbers of features, their indices from 0 and their values in some lines.

    `seen` are the labels of the lines before, to which those of these lines are added.
    """
    # Imported where it is needed: it takes a good part of a second.
    from sklearn.datasets import load_svmlight_file

    plain = COMMENT.sub(b"", text) if b"#" in text else text
    if not plain.translate(None, PLAIN) and plain.count(b"\r") == plain.count(b"\r\n"):
        try:
            X, y = load_svmlight_file(io.BytesIO(plain), zero_based=False)
        except (ValueError, OverflowError):
            raise _first_error(plain, seen, path, first_line) from None
        found = seen | set(np.unique(y).tolist())
        sound = found <= {-1, 1} or found <= {0, 1}
        if sound and X.shape[1] <= MOST_FEATURES and (np.abs(X.data) < FLOAT32_OVERFLOW).all():
            seen |= found
            return y > 0, np.diff(X.indptr), X.indices.astype(np.int32), X.data
    raise _first_error(plain, seen, path, first_line)


def _first_error(text, seen, path, first_line):
    """Return the error that names the first line that is malformed, and what is wrong there."""
    seen = set(seen)
    for number, line in enumerate(text.split(b"\n"), first_line):
        reason = _complaint(line.removesuffix(b"\r"), seen)
        if reason:
            return DataFormatError(path, number, reason)
    raise AssertionError("what no line is wrong with was refused")


def _complaint(line, seen):
    """Return what is wrong with a line, or None; add its label to those `seen`."""
    alien = NOT_TEXT.search(line)
    if alien:
        return f"byte 0x{alien[0][0]:02x} at column {alien.start() + 1} is not text"
    label, *pairs = line.split() or [b""]
    if not label:
        return None
    if b":" in label:
        return f"{quoted(label)} stands in place of the label"
    value = float(label) if DECIMAL.fullmatch(label) else None
    if value not in LABELS:
        shown = label.decode() if value is not None and len(label) <= LONGEST_SHOWN else quoted(label)
        return f"label {shown} is not one of -1, +1, 0, 1"
    seen.add(value)
    if {-1, 0} <= seen:
        return f"label {value:g} comes after label {-1 - value:g}, but labels are either -1 and +1 or 0 and 1"
    last = 0
    for pair in pairs:
        index, colon, number = pair.partition(b":")
        if not colon:
            return f"{quoted(pair)} is not an index:value pair"
        if index == b"qid":
            return f"{quoted(pair)} is of a ranking, which data of one label have not"
        feature = _whole_number(index)
        if feature is None or feature < 1:
            told = f"{quoted(index)} is not the index of a feature, a whole number from 1"
            return f"{told} (of scikit-learn's dump_svmlight_file with zero_based=False)" if index == b"0" else told
        if feature > MOST_FEATURES:
            return f"feature {quoted(index)} is above {MOST_FEATURES}, the highest index that is read"
        if feature <= last:
            return f"feature {feature} occurs twice" if feature == last else f"feature {feature} comes after {last}"
        if not DECIMAL.fullmatch(number):
            return f"feature {feature} has {quoted(number)} in place of a finite decimal number"
        if abs(float(number)) >= FLOAT32_OVERFLOW:
            return f"{quoted(number)} is too large for a 32-bit floating-point number"
        last = feature
    return None


def _whole_number(token):
    """Return what Python takes the token for, or None."""
    try:
        return int(token) if SIGNED_DIGITS.fullmatch(token) else None
    except ValueError:  # of thousands of digits
        return None
