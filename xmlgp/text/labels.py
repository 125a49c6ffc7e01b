"""The one matrix of labels, from whatever names them: a corpus, lists in memory, predictions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from xmlgp.data.names import describe_unfit
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.label_names import normalized_name
from xmlgp.text.number_rows import NumberRows

__all__ = ["BadName", "LabelNumbers", "LabelRows", "label_matrix", "note_alike", "renamed_labels"]

#: The beginning of messages about labels that are not such lists.
LISTS = "labels must be a list of names for each document"
#: How what people give in their place is written.
NAMED = "write one name as [name], none as [], and a matrix of 0 and 1 as pd.DataFrame(labels, columns=names)"

#: Characters that look alike, or that some writers leave out.
HYPHENS = re.compile("[\\s_'’‘`\u2010-\u2015-]")


class BadName(Exception):
    """A name that a label cannot have; the text says why."""


class LabelNumbers(dict[str, int]):
    """The numbers of labels by their names. Looking up a new name adds a label; an empty name has the number −1.

    Names that look the same are one label: new ones are normalised, see `xmlgp.text.label_names`. `same` maps a name to
    its preferred name, which a new label gets; names with the same preferred name are one label. The earlier labels,
    `names`, keep theirs.
    """

    def __init__(self, names: Sequence[str] = (), same: Mapping[str, str] | None = None) -> None:
        self.names = list(names)
        self._earlier_count = len(names)
        self._same = same or {}
        super().__init__(zip(self.names, range(len(self.names)), strict=True))
        for number, name in enumerate(self.names):
            self.setdefault(normalized_name(name), number)
            self.setdefault(self._same.get(name, name), number)
        self[""] = -1

    def __missing__(self, name: str) -> int:
        """Return the number of a name that was not looked up before; raise BadName if a label cannot have it."""
        normalized = normalized_name(name)
        if unfit := describe_unfit(normalized):
            raise BadName(f"label {excerpt(name)} {unfit}")
        label = normalized if normalized in self else self._same.get(normalized, normalized)
        number = self.setdefault(label, len(self.names))
        if number == len(self.names):
            self.names.append(label)
        self[name] = self[normalized] = number
        return number

    def ordered(self, extend: bool = True) -> tuple[list[str], NDArray[np.int32]]:
        """Return the names in their final order, and the position of each label, by its number, in that order.

        Earlier names come first. New names follow, sorted as numbers if all of them are digits, otherwise as texts;
        they are left out unless `extend`. The position −1 is that of labels that are left out and of the number −1,
        which empty names have.
        """
        new = range(self._earlier_count, len(self.names) if extend else self._earlier_count)
        are_digits = all(self.names[number].isascii() and self.names[number].isdigit() for number in new)
        width = max((len(self.names[number]) for number in new), default=0) if are_digits else 0
        by_name = sorted(new, key=lambda number: (self.names[number].zfill(width), self.names[number]))
        numbers = [*range(self._earlier_count), *by_name]
        # One more element, at the end, is the position of the number −1.
        positions = np.full(len(self.names) + 1, -1, np.int32)
        positions[numbers] = np.arange(len(numbers))
        return [self.names[number] for number in numbers], positions


class LabelRows:
    """The labels of points, from which a matrix is made; `labels` numbers their names."""

    def __init__(self, labels: LabelNumbers) -> None:
        self.labels = labels
        self._rows = NumberRows()

    def add(self, names: Iterable[str]) -> None:
        """Add a point that has labels with these names; raise BadName if a label cannot have one of them."""
        self._rows.add([self.labels[name] for name in names])

    def take(self) -> csr_array:
        """Remove the points, and return their labels, a csr_array of bool, N×K, in the order of numbers so far."""
        matrix = self._rows.counts(len(self.labels.names)).astype(bool)
        self._rows = NumberRows()
        return matrix

    def ordered(self) -> tuple[list[str], csr_array]:
        """Return all names in their final order (`LabelNumbers.ordered`), and the labels of the points, N×K."""
        names, positions = self.labels.ordered()
        return names, self._rows.counts(len(names), positions).astype(bool)


def label_matrix(y: Iterable[object], numbers: LabelNumbers | None = None) -> tuple[list[str], csr_array]:
    """Return the names of all labels, those that have `numbers` first, and the labels of points, N×K.

    y has a list of names of labels for each point; the matrix is a csr_array of bool. SettingsError if y does not have
    such lists, or has a name that a label cannot have.
    """
    if isinstance(y, str | bytes | Mapping | set | frozenset) or issparse(y):
        raise SettingsError(f"{LISTS}, in their order, not {excerpt(y)}; {NAMED}")
    rows = LabelRows(LabelNumbers() if numbers is None else numbers)
    for position, names in enumerate(y):
        # A text is an iterable too, of its letters, which nobody means as labels.
        is_list = isinstance(names, Iterable) and not isinstance(names, str | bytes)
        texts: list[Any] = list(names) if is_list else [names]  # type: ignore[call-overload]
        if not is_list or not all(isinstance(name, str) for name in texts):
            raise SettingsError(f"{LISTS}, but labels[{position}] is {excerpt(names)}; {NAMED}")
        try:
            rows.add(texts)
        except BadName as error:
            raise SettingsError(f"labels[{position}]: {error}") from None
    return rows.ordered()


def renamed_labels(labels: Sequence[str], changes: Mapping[str, str]) -> tuple[list[str], NDArray[np.int32]]:
    """Return the names of labels after changes, and the number among these of each label; equal names are one label.

    SettingsError if there is no label of a name that changes, or a label cannot have the new one.
    """
    numbers: dict[str, int] = {}
    for old, new in changes.items():
        if old not in labels:
            raise SettingsError(f"there is no label {excerpt(old)} to rename")
        if unfit := describe_unfit(normalized_name(new)):
            raise SettingsError(f"label {excerpt(new)} {unfit}")
    names = [normalized_name(changes[label]) if label in changes else label for label in labels]
    places = [numbers.setdefault(name, len(numbers)) for name in names]
    return list(numbers), np.array(places, np.int32)


def note_alike(labels: Sequence[str], earlier: int, path: str, note: Callable[[str], object]) -> None:
    """Note how many labels after the first `earlier` ones look like one before them, but for case, hyphens or width."""
    first: dict[str, str] = {}
    pairs = []
    for number, label in enumerate(labels):
        other = first.setdefault(HYPHENS.sub("", unicodedata.normalize("NFKC", label)).casefold(), label)
        if other != label and number >= earlier:
            pairs.append((other, label))
    if pairs:
        what = counted(len(pairs), "label differs", "labels differ")
        alike = "from another one only in case, blanks, hyphens, apostrophes or width"
        note(f"{path}: {what} {alike}, such as {' and '.join(map(excerpt, pairs[0]))}")
