"""Parse the repository's text format line by line: slow and strict, with an error message for each mistake.

This parser defines the format. A line is `label,label,... feature:value feature:value ...` in ASCII, separated by
spaces or tabs; the line of a point without labels starts with a space or tab. Labels and features are nonnegative
integers; values are decimals such as `1`, `.5`, `+1` and `-2.5e-3`. Labels and features may be in any order, but none
may occur twice. A value that is zero as a float32 is not stored.
"""

import re

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import quote

__all__ = ["FLOAT32_OVERFLOW", "parse_lines"]

NOT_TEXT = re.compile(rb"[^\t\x20-\x7e]")
#: Matches in linear time for any token.
DECIMAL = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")

#: The smallest double that rounds to infinity as a float32: half a step above the largest float32 (IEEE 754).
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
#: Number of digits of the largest index, 2**31 - 1.
MAX_INDEX_DIGITS = 10


def parse_lines(text, D, K, path, first_line):
    """Return the `Dataset` of some complete lines, each with a newline at its end, of a file that declares D and K.

    DataFormatError names the first malformed line; `text` starts with line `first_line` of the file `path`.
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


def _parse_line(line, D, K):
    """Return a point's set of labels and its mapping of features to values."""
    invalid = NOT_TEXT.search(line)
    if invalid:
        raise ValueError(f"byte 0x{invalid[0][0]:02x} at column {invalid.start() + 1} is not text")
    label_list, *pairs = line.replace(b"\t", b" ").split(b" ")
    if b":" in label_list:
        raise ValueError(
            f"{quote(label_list)} is not a list of labels; the line of a point without labels starts with a space"
        )
    labels, features = set(), {}
    for token in label_list.split(b",") if label_list else []:
        label = _index(token, K, "label")
        if label in labels:
            raise ValueError(f"label {label} occurs twice")
        labels.add(label)
    for pair in filter(None, pairs):
        token, colon, value = pair.partition(b":")
        if not colon:
            raise ValueError(f"{quote(pair)} is not a feature:value pair")
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
        raise ValueError(f"{quote(token)} is not a {kind}: a nonnegative integer" if token else f"a {kind} is missing")
    digits = token.lstrip(b"0") or b"0"
    if len(digits) > MAX_INDEX_DIGITS or int(digits) >= bound:
        raise ValueError(f"{kind} {quote(token)} is not below {bound}, the number of {kind}s in the first line")
    return int(digits)


def _parse_value(token):
    """Return the double nearest to a decimal, as Python's `float` does, if it is in the range of float32."""
    if not DECIMAL.fullmatch(token):
        raise ValueError(f"{quote(token)} is not a finite decimal number")
    value = float(token)
    if abs(value) >= FLOAT32_OVERFLOW:
        raise ValueError(f"{quote(token)} is too large for a 32-bit floating-point number")
    return value
