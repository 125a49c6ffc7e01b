"""Number labels by their names: those of a corpus, and those of lists in memory."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from xmlgp.data.dataset import as_csr
from xmlgp.data.names import describe_unfit
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_name
from xmlgp.text.word_counts import counts

__all__ = ["BadName", "LabelNumbers", "label_matrix", "matrix_of_labels", "note_alike"]

#: The beginning of messages about labels that are not such lists.
LISTS = "labels must be a list of names for each document"

#: Characters that look alike, or that some writers leave out.
HYPHENS = re.compile("[\\s_'’‘`\u2010-\u2015-]")


class BadName(Exception):
    """A name that a label cannot have; the text says why."""


class LabelNumbers(dict[str, int]):
    """The numbers of labels by their names. Looking up a new name adds a label; an empty name has the number −1.

    Names that look the same are one label: new ones are normalised, see `xmlgp.text.characters`. `same` maps a name to
    its preferred name, and names with the same preferred name are one label. A new label is renamed once its preferred
    name occurs; the earlier labels, `names`, keep theirs.
    """

    def __init__(self, names: Sequence[str] = (), same: Mapping[str, str] | None = None) -> None:
        self.names = list(names)
        self._earlier_count = len(names)
        super().__init__(zip(self.names, range(len(self.names)), strict=True))
        for number, name in enumerate(self.names):
            self.setdefault(normalized_name(name), number)
        self[""] = -1
        self._same = same or {}
        self._number_of_preferred = {self._same.get(name, name): self[name] for name in self.names} if same else {}

    def __missing__(self, name: str) -> int:
        """Return the number of a name that was not looked up before; raise BadName if a label cannot have it."""
        normalized = normalized_name(name)
        if normalized != name:
            number = self[normalized]
        else:
            if unfit := describe_unfit(name):
                raise BadName(f"label {excerpt(name)} {unfit}")
            number = len(self.names)
            preferred = self._same.get(name)
            if preferred is not None:
                number = self._number_of_preferred.setdefault(preferred, number)
            if number == len(self.names):
                self.names.append(name)
            elif name == preferred and number >= self._earlier_count:
                self.names[number] = name
        self[name] = number
        return number

    def ordered(self, extend: bool = True) -> tuple[list[str], NDArray[np.int32]]:
        """Return the names in their final order, and the position of each label, by its number, in that order.

        Earlier names come first. New names follow, sorted as numbers if all of them are digits, otherwise as texts;
        they are left out unless `extend`. The position −1 is that of labels that are left out and of the number −1,
        which empty names have.
        """
        new = range(self._earlier_count, len(self.names) if extend else self._earlier_count)
        if all(self.names[number].isascii() and self.names[number].isdigit() for number in new):
            order = sorted(new, key=lambda number: _numeric_key(self.names[number]))
        else:
            order = sorted(new, key=self.names.__getitem__)
        numbers = [*range(self._earlier_count), *order]
        # One more element, at the end, is the position of the number −1.
        positions = np.full(len(self.names) + 1, -1, np.int32)
        positions[numbers] = np.arange(len(numbers))
        return [self.names[number] for number in numbers], positions


def _numeric_key(name: str) -> tuple[int, str, str]:
    """Return a key that sorts names of digits by value; `int` would refuse thousands of digits."""
    digits = name.lstrip("0")
    return len(digits), digits, name


def label_matrix(
    y: Iterable[object], names: Sequence[str] = (), same: Mapping[str, str] | None = None
) -> tuple[list[str], csr_array]:
    """Return the names of all labels, those in `names` first, and the labels of documents, N×K.

    y has a list of names of labels for each document; `same` is as for `LabelNumbers`. SettingsError if y does not have
    such lists, or has a name that a label cannot have.
    """
    label_numbers = LabelNumbers(names, same)
    numbers, lengths = _numbers_of_lists(y, label_numbers)
    ordered, positions = label_numbers.ordered()
    return ordered, matrix_of_labels(positions[numbers], lengths, len(ordered))


def matrix_of_labels(numbers: NDArray[np.integer], lengths: NDArray[np.integer], K: int) -> csr_array:
    """Return the labels of documents, N×K, from the concatenated label numbers of all documents; −1 is no label.

    `lengths`, N, says how many of the numbers belong to each document.
    """
    matrix = counts(numbers, lengths, K)
    return as_csr(None, matrix.indices, matrix.indptr, K)


def _numbers_of_lists(y: Iterable[object], label_numbers: LabelNumbers) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the concatenated label numbers of all documents, and how many of them each document has."""
    if isinstance(y, str | bytes | Mapping | set | frozenset):
        raise SettingsError(f"{LISTS}, in their order, not {excerpt(y)}")
    if issparse(y) or getattr(getattr(y, "dtype", None), "kind", "O") in "biufc":
        advice = "a matrix of 0 and 1 needs names: pd.DataFrame(labels, columns=names)"
        raise SettingsError(f"{LISTS}, not numbers; {advice}")
    numbers: list[int] = []
    lengths = []
    for position, names in enumerate(y):
        # A text is an iterable too, of its letters, which nobody means as labels.
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            advice = "write one name as [name], and none as []"
            raise SettingsError(f"{LISTS}, but labels[{position}] is {excerpt(names)}; {advice}")
        start = len(numbers)
        for name in names:
            if not isinstance(name, str):
                raise SettingsError(f"{LISTS}, but labels[{position}] has {excerpt(name)}, which is no text")
            try:
                numbers.append(label_numbers[str(name)])
            except BadName as error:
                raise SettingsError(f"labels[{position}]: {error}") from None
        lengths.append(len(numbers) - start)
    return np.array(numbers, np.int32), np.array(lengths, np.int64)


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
