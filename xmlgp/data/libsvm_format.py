"""Read binary data in the text format of libsvm and svmlight.

A line is `label index:value index:value …`, separated by spaces or tabs. The labels of a file are either -1 and +1, or
0 and 1; indices start at 1 and increase; values are decimals as in `xmlgp.data.line_parser`. Text after a `#` is a
comment; lines with nothing else are ignored.

scikit-learn parses the text in blocks of complete lines. Its parser accepts other numbers too, ignores query ids
(`qid`) and does not report the line of an error, so a block with other characters or with an error is checked line by
line. Binary data are not cached: they are read in a second, and the number of features, which no line declares, could
not be checked.
"""

import io
import re

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.data.line_parser import DECIMAL, FLOAT32_OVERFLOW, NOT_TEXT
from xmlgp.errors import DataFormatError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import quote

__all__ = ["MAX_FEATURES", "is_libsvm", "read_points", "resize_features"]

#: Maximum index of a feature. Models allocate memory for each feature, so one line could exhaust it.
MAX_FEATURES = 10_000_000

#: Characters of a line without its comment. Words of these are numbers to Python only if they are to the format.
PLAIN = b"0123456789+-.eE: \t\r\n"
#: Allowed labels; a file contains only one of the first two.
LABELS = (-1, 0, 1)
WORD = re.compile(rb"\S+")
COMMENT = re.compile(rb"#[^\n]*")
SIGNED_DIGITS = re.compile(rb"[+-]?\d+")
#: Maximum length of a label that a message shows without quotes.
MAX_UNQUOTED = 9
#: More lines than any block has.
ALL = 2**62


def is_libsvm(line):
    """Return whether a data file is in this format, by its first line.

    It is if the line is a comment, a number followed by `index:value` pairs only, or a label alone.
    """
    text, hash_, _ = line.partition(b"#")
    # The line of a file that is not text can be long.
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
        Data with K = 1 label, which the points labelled +1 or 1 have. The highest index is the number of features;
        index 1 is feature 0.

    Raises
    ------
    DataFormatError
        If the file is malformed or has no points; it names the line.
    """
    blocks, seen = [], set()
    with progress(f"reading {reader.path}", unit=" points") as bar:
        while True:
            line_number = reader.line_number
            text = reader.read_lines(ALL)
            if not text:
                break
            blocks.append(_parse(text, seen, reader.path, line_number))
            bar.update(len(blocks[-1][0]))
    if not any(len(labels) for labels, *_ in blocks):
        raise DataFormatError(reader.path, reader.line_number, "the file has no points")
    labels, lengths, indices, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    features = as_csr(values, indices, indptr, int(indices.max(initial=-1)) + 1)
    features.eliminate_zeros()
    label_indptr = np.concatenate([[0], np.cumsum(labels)])
    return Dataset(features, as_csr(None, np.zeros(label_indptr[-1], np.int32), label_indptr, 1))


def resize_features(dataset, D):
    """Return the points with the first D features; features beyond those of `dataset` are zero."""
    kept = dataset.features[:, :D]
    return Dataset(as_csr(kept.data, kept.indices, kept.indptr, D), dataset.labels)


def _parse(text, seen, path, first_line):
    """Parse some lines and add their labels to the set `seen`.

    Return whether each point is positive, its number of features, and the indices, from 0, and values of all.
    """
    # The import takes a good part of a second.
    from sklearn.datasets import load_svmlight_file

    plain = COMMENT.sub(b"", text) if b"#" in text else text
    if not plain.translate(None, PLAIN) and plain.count(b"\r") == plain.count(b"\r\n"):
        try:
            X, y = load_svmlight_file(io.BytesIO(plain), zero_based=False)
        except (ValueError, OverflowError):
            raise _first_error(plain, seen, path, first_line) from None
        found = seen | set(np.unique(y).tolist())
        valid = found <= {-1, 1} or found <= {0, 1}
        if valid and X.shape[1] <= MAX_FEATURES and (np.abs(X.data) < FLOAT32_OVERFLOW).all():
            seen |= found
            return y > 0, np.diff(X.indptr), X.indices.astype(np.int32), X.data
    raise _first_error(plain, seen, path, first_line)


def _first_error(text, seen, path, first_line):
    """Return the error of the first malformed line."""
    seen = set(seen)
    for number, line in enumerate(text.split(b"\n"), first_line):
        reason = _find_error(line.removesuffix(b"\r"), seen)
        if reason:
            return DataFormatError(path, number, reason)
    raise AssertionError("scikit-learn refused lines without an error")


def _find_error(line, seen):
    """Return the error of a line, or None if there is none, and add its label to the set `seen`."""
    invalid = NOT_TEXT.search(line)
    if invalid:
        return f"byte 0x{invalid[0][0]:02x} at column {invalid.start() + 1} is not text"
    label, *pairs = line.split() or [b""]
    if not label:
        return None
    if b":" in label:
        return f"the label is missing before {quote(label)}"
    value = float(label) if DECIMAL.fullmatch(label) else None
    if value not in LABELS:
        found = label.decode() if value is not None and len(label) <= MAX_UNQUOTED else quote(label)
        return f"label {found} is not one of -1, +1, 0, 1"
    seen.add(value)
    if {-1, 0} <= seen:
        return f"label {value:g} follows label {-1 - value:g}, but labels must be either -1 and +1 or 0 and 1"
    last = 0
    for pair in pairs:
        index, colon, number = pair.partition(b":")
        if not colon:
            return f"{quote(pair)} is not an index:value pair"
        if index == b"qid":
            return f"{quote(pair)}: qid is not supported for binary data"
        feature = _integer(index)
        if feature is None or feature < 1:
            reason = f"{quote(index)} is not a feature index, an integer from 1"
            hint = " (in scikit-learn, use dump_svmlight_file with zero_based=False)"
            return reason + hint if index == b"0" else reason
        if feature > MAX_FEATURES:
            return f"feature {quote(index)} is above {MAX_FEATURES}, the highest index supported"
        if feature == last:
            return f"feature {feature} occurs twice"
        if feature < last:
            return f"feature {feature} follows {last}, but indices must increase"
        if not DECIMAL.fullmatch(number):
            return f"the value of feature {feature}, {quote(number)}, is not a finite decimal number"
        if abs(float(number)) >= FLOAT32_OVERFLOW:
            return f"{quote(number)} is too large for a 32-bit floating-point number"
        last = feature
    return None


def _integer(token):
    """Return the integer in a token, or None."""
    try:
        return int(token) if SIGNED_DIGITS.fullmatch(token) else None
    except ValueError:  # thousands of digits
        return None
