"""The repository's text format read line by line: slow, strict, and able to name what is wrong.

This is the definition of the format. A line is `label,label,... feature:value feature:value ...` in ASCII, its
parts separated by spaces or tabs; a point without labels starts with one. Labels and features are digits;
values are decimals such as `1`, `.5`, `+1` and `-2.5e-3`. Features and labels may come in any order, none
twice. A value that is zero as a float32 is not stored.
"""

import re

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.errors import DataFormatError

__all__ = ["FLOAT32_OVERFLOW", "parse_lines", "quoted"]

NOT_TEXT = re.compile(rb"[^\t\x20-\x7e]")
#: Backtracks in linear time, whatever the token.
DECIMAL = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")

#: The least double that rounds to infinity as a float32: half a step above the largest float32 (IEEE 754).
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
#: An error message shows no more of a token.
SHOWN_BYTES = 30
#: More digits than any index below 2**31 has.
INDEX_DIGITS = 10


def parse_lines(text, D, K, path, first_line):
    """Read the points of some lines.

    Parameters
    ----------
    text : bytes
        Whole lines, each ended by a newline.
    D, K : int
        The number of features and labels that the file's header announces.
    path : str
        The file's name, for messages.
    first_line : int
        The line of the file with which `text` starts.

    Returns
    -------
    Dataset

    Raises
    ------
    DataFormatError
        Naming the first line that is malformed.
    """
    labels, columns, values = [], [], []
    label_ends, feature_ends = [0], [0]
    for number, line in enumerate(text.split(b"\n")[:-1], first_line):
        try:
            point_labels, point_features = _parse_line(line.removesuffix(b"\r"), D, K)
        except ValueError as error:
            raise DataFormatError(path, number, str(error)) from None
        labels += sorted(point_labels)
        columns += sorted(point_features)
        values += [point_features[column] for column in sorted(point_features)]
        label_ends.append(len(labels))
        feature_ends.append(len(columns))
    features = as_csr(np.array(values, np.float32), np.array(columns, np.int32), np.array(feature_ends), D)
    features.eliminate_zeros()
    return Dataset(features, as_csr(None, np.array(labels, np.int32), np.array(label_ends), K))


def quoted(token):
    """Show bytes in a message, shortened where long."""
    shown = token[:SHOWN_BYTES].decode("ascii", "backslashreplace")
    return repr(shown + "..." if len(token) > SHOWN_BYTES else shown)


def _parse_line(line, D, K):
    """Return a point's set of labels and its mapping of features to values."""
    alien = NOT_TEXT.search(line)
    if alien:
        raise ValueError(f"byte 0x{alien[0][0]:02x} at column {alien.start() + 1} is not text")
    label_list, *pairs = line.replace(b"\t", b" ").split(b" ")
    if b":" in label_list:
        raise ValueError(f"{quoted(label_list)} stands in place of labels; a point without labels starts with a space")
    labels, features = set(), {}
    for token in label_list.split(b",") if label_list else []:
        label = _index(token, K, "label")
        if label in labels:
            raise ValueError(f"label {label} occurs twice")
        labels.add(label)
    for pair in filter(None, pairs):
        token, colon, value = pair.partition(b":")
        if not colon:
            raise ValueError(f"{quoted(pair)} is not a feature:value pair")
        feature = _index(token, D, "feature")
        if feature in features:
            raise ValueError(f"feature {feature} occurs twice")
        if not value:
            raise ValueError(f"feature {feature} has no value")
        features[feature] = _parse_value(value)
    return labels, features


def _index(token, bound, kind):
    """Return a label or feature index, which must be below `bound`."""
    if not token.isdigit():
        raise ValueError(f"{quoted(token)} is not a {kind}: a nonnegative integer" if token else f"a {kind} is missing")
    digits = token.lstrip(b"0") or b"0"
    if len(digits) > INDEX_DIGITS or int(digits) >= bound:
        raise ValueError(f"{kind} {quoted(token)} is not below {bound}, the number of {kind}s in the first line")
    return int(digits)


def _parse_value(token):
    """Return the double nearest to a plain decimal, as Python's `float` does, if a float32 can hold it."""
    if not DECIMAL.fullmatch(token):
        raise ValueError(f"{quoted(token)} is not a finite decimal number")
    value = float(token)
    if abs(value) >= FLOAT32_OVERFLOW:
        raise ValueError(f"{quoted(token)} is too large for a 32-bit floating-point number")
    return value
