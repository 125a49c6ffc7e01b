"""Read binary data in the text format of libsvm and svmlight.

A line is `label feature:value feature:value …`, separated by spaces or tabs. The labels of a file are either -1 and +1,
or 0 and 1; features start at 1 and increase; values are decimals as in `xmlgp.data.line_parser`. Text after a `#` is a
comment; lines with nothing else are ignored.

Binary data are not cached: they are read in a second, and the number of features, which no line declares, could not be
checked.
"""

import functools
import re

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.data.line_parser import DECIMAL, check_pairs, report_first_mistake
from xmlgp.data.scanner import empty_numbers, number_values, scan_libsvm
from xmlgp.errors import DataFormatError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import quote

__all__ = ["MAX_FEATURES", "is_libsvm", "read_points", "resize_features"]

#: Maximum index of a feature. Models allocate memory for each feature, so one line could exhaust it.
MAX_FEATURES = 10_000_000
MAX_DIGITS = len(str(MAX_FEATURES))

#: Allowed labels; a file contains only one of the first two.
LABELS = (-1, 0, 1)
WORD = re.compile(rb"\S+")
COMMENT = re.compile(rb"#[^\n]*")
#: More lines than any block has.
ALL = 2**62


def is_libsvm(line):
    """Return whether a data file is in this format, by its first line.

    It is if the line is a comment, a number followed by `feature:value` pairs only, or a label alone.
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
    """Read a whole data file from a `LineReader` at its first line; DataFormatError names the line of an error.

    The `Dataset` has K = 1 label, which the points labelled +1 or 1 have. The highest index is the number of features;
    feature 1 of the file is feature 0.
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
    text = COMMENT.sub(b"", text) if b"#" in text else text
    lines = text.count(b"\n")
    labels, pairs, ends = empty_numbers(lines), empty_numbers(text.count(b":")), np.empty(lines + 1, np.int64)
    points = scan_libsvm(np.frombuffer(text, np.uint8), MAX_FEATURES + 1, labels, pairs, ends)
    if points >= 0:
        ends = ends[: points + 1]
        pairs, labels = pairs[:, : ends[-1]], number_values(text, labels[:, :points])
        indices, values = pairs[0].astype(np.int32), number_values(text, pairs)
        all_labels = seen | set(np.unique(labels).tolist())
        valid = (all_labels <= {-1, 1} or all_labels <= {0, 1}) and indices.min(initial=1) > 0
        valid &= np.isfinite(values).all()
        if valid and as_csr(values, indices, ends, MAX_FEATURES + 1).has_canonical_format:
            seen |= all_labels
            return labels > 0, np.diff(ends), indices - 1, values
    return report_first_mistake(text, path, first_line, functools.partial(_check_line, seen=seen))


def _check_line(line, seen):
    """Raise ValueError that says what is wrong with a line, and add its label to the set `seen`."""
    label, *pairs = line.split() or [b""]
    if not label:
        return
    if b":" in label:
        raise ValueError(f"the label is missing before {quote(label)}")
    value = float(label) if DECIMAL.fullmatch(label) else None
    if value not in LABELS:
        raise ValueError(f"label {quote(label)} is not one of -1, +1, 0, 1")
    seen.add(value)
    if {-1, 0} <= seen:
        raise ValueError(
            f"label {value:g} follows label {-1 - value:g}, but labels must be either -1 and +1 or 0 and 1"
        )
    check_pairs(pairs, functools.partial(_check_feature, earlier=[0]))


def _check_feature(token, earlier):
    """Return a feature, which must follow those earlier in its line, and add it to them."""
    if token == b"qid":
        raise ValueError("qid is not supported for binary data")
    digits = token.lstrip(b"0")
    if not token.isdigit() or not digits:
        hint = " (in scikit-learn, use dump_svmlight_file with zero_based=False)" if token == b"0" else ""
        raise ValueError(f"{quote(token)} is not a feature index, an integer from 1{hint}")
    if len(digits) > MAX_DIGITS or int(digits) > MAX_FEATURES:
        raise ValueError(f"feature {quote(token)} is above {MAX_FEATURES}, the highest index supported")
    feature = int(digits)
    if feature == earlier[-1]:
        raise ValueError(f"feature {feature} occurs twice")
    if feature < earlier[-1]:
        raise ValueError(f"feature {feature} follows {earlier[-1]}, but features must increase")
    earlier.append(feature)
    return feature
