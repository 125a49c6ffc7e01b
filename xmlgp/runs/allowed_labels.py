"""Which labels of a model may be predicted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.streams import open_input
from xmlgp.errors import DataFormatError, SettingsError
from xmlgp.inputs.kinds import FilePath
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.names import Names

__all__ = ["LabelList", "allowed_labels"]

#: Labels: a file with one a line, or their names or numbers.
LabelList: TypeAlias = "FilePath | Sequence[str | int]"


def allowed_labels(only: LabelList | None, without: LabelList | None, names: Names, K: int) -> NDArray[np.bool_] | None:
    """Return which of the K labels of a model are allowed, or None if all are; see `predict`."""
    if only is None and without is None:
        return None
    numbers: dict[str, dict[int, bool]] = {}
    for kind in names.labels or map(str, range(K)), names.uris or (), names.preferred or ():
        for label, name in enumerate(kind):
            # Several labels can have the same name, and a label the same as name, URI and preferred label.
            numbers.setdefault(name, {})[label] = True
    allowed = np.full(K, only is None)
    for labels, value in (only, True), (without, False):
        if labels is None:
            continue
        if isinstance(labels, str | os.PathLike):
            groups = _in_file(labels, numbers, names, K)
        else:
            groups = _in_list(labels, numbers, K)
        allowed[[label for group in groups for label in group]] = value
    if not allowed.any():
        raise SettingsError("`only=LABELS` and `without=LABELS` allow no label")
    return allowed


def _in_file(
    path: FilePath, numbers: Mapping[str, Mapping[int, bool]], names: Names, K: int
) -> Iterator[Mapping[int, bool]]:
    """Yield the labels of each line of a file, which has names, or numbers if the model has no names."""
    with open_input(os.fspath(path)) as stream:
        for line_number, line in decoded_lines(LineReader(stream, os.fspath(path))):
            name = line.strip()
            if name in numbers:
                yield numbers[name]
            elif name:
                expected = "" if names.labels else f": a number below {K}"
                reason = f"{excerpt(name)} is not a label of the model{expected}"
                raise DataFormatError(os.fspath(path), line_number, reason)


def _in_list(
    entries: Sequence[str | int], numbers: Mapping[str, Mapping[int, bool]], K: int
) -> Iterator[Mapping[int, bool]]:
    for entry in entries:
        by_number = {entry: True} if not isinstance(entry, str) and entry in range(K) else {}
        labels = numbers.get(entry, {}) if isinstance(entry, str) else by_number
        if not labels:
            raise SettingsError(f"{excerpt(entry)} is not a label of the model")
        yield labels
