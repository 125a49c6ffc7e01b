"""The labels of a model that a user considers, by name or by number."""

import os

import numpy as np

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.streams import open_input
from xmlgp.errors import DataFormatError, SettingsError
from xmlgp.runs.given import is_path
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["allowed_labels"]


def allowed_labels(only, without, K, names):
    """Return which labels are allowed, K of bool, or None if all are.

    `only` and `without` are the labels that are allowed, and those that are not: a file with a label a line (`-` for
    standard input), or their names and numbers. K and `names` are those of the model; without names, a file has numbers
    from 0. A DataFormatError names the line of a file that is not a label of the model; a SettingsError is raised for
    another such label, or if none is allowed.
    """
    if only is None and without is None:
        return None
    known = {}
    for label, name in enumerate(names or map(str, range(K))):
        # Several labels can have the same name.
        known.setdefault(name, []).append(label)
    allowed = np.full(K, only is None)
    for labels, value in (only, True), (without, False):
        if labels is not None:
            found = _of_file(labels, known, names, K) if is_path(labels) else _of_sequence(labels, known, K)
            allowed[found] = value
    if not allowed.any():
        raise SettingsError("`only` and `without` allow no label")
    return allowed


def _of_file(path, known, names, K):
    labels = []
    with open_input(os.fspath(path)) as stream:
        for number, line in decoded_lines(LineReader(stream, path)):
            name = line.strip()
            if not name:
                continue
            if name not in known:
                expected = "" if names else f": a number below {K}"
                raise DataFormatError(path, number, f"{excerpt(name)} is not a label of the model{expected}")
            labels += known[name]
    return labels


def _of_sequence(entries, known, K):
    labels = []
    for entry in entries:
        found = known.get(entry, []) if isinstance(entry, str) else [entry] if entry in range(K) else []
        if not found:
            raise SettingsError(f"{excerpt(entry)} is not a label of the model")
        labels += found
    return labels
