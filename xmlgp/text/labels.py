"""Number labels by their names: those of a corpus, and those that are in memory as a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from numbers import Number

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from xmlgp.data.dataset import as_csr
from xmlgp.data.names import CONTROL
from xmlgp.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_name
from xmlgp.text.word_counts import counts
from xmlgp.text.written_names import is_missing, lists_in_code, separator_of

__all__ = ["BadName", "LabelNumbers", "label_matrix", "matrix_of_labels", "note_case"]

#: What users give as labels, in messages.
LISTS = "labels must be a list of names for each document"


class BadName(Exception):
    """A name that a label cannot have; the text says why."""


class LabelNumbers(dict[str, int]):
    """The numbers of labels by their names, new names included; −1 for an empty name.

    Names that look the same are one label: new ones are normalised, see `xmlgp.text.characters`. `same` maps a name to
    its preferred name, and names with the same preferred name are one label. A new label gets the preferred name once
    that occurs; an earlier label keeps its own.
    """

    def __init__(self, names: Sequence[str] = (), same: Mapping[str, str] | None = None) -> None:
        self.names = list(names)
        self._earlier = len(names)
        super().__init__(zip(self.names, range(len(self.names)), strict=True))
        for number, name in enumerate(self.names):
            self.setdefault(normalized_name(name), number)
        self[""] = -1
        self._same = same or {}
        self._owners = {self._same.get(name, name): self[name] for name in self.names} if same else {}

    def __missing__(self, name: str) -> int:
        normalized = normalized_name(name)
        if normalized != name:
            number = self[normalized]
        else:
            control = CONTROL.search(name)
            if control:
                raise BadName(f"label {excerpt(name)} has a control character, U+{ord(control[0]):04X}")
            number = len(self.names)
            preferred = self._same.get(name)
            if preferred is not None:
                number = self._owners.setdefault(preferred, number)
            if number == len(self.names):
                self.names.append(name)
            elif name == preferred and number >= self._earlier:
                self.names[number] = name
        self[name] = number
        return number

    def ordered(self, extend: bool = True) -> tuple[list[str], NDArray[np.int32]]:
        """Return the names, and the position of each number in them; new names in order, of numbers if all are.

        Unless `extend`, the new names are left out. The positions are those of `numbered_in_order`.
        """
        new = range(self._earlier, len(self.names) if extend else self._earlier)
        if all(self.names[number].isascii() and self.names[number].isdigit() for number in new):
            order = sorted(new, key=lambda number: _as_number(self.names[number]))
        else:
            order = sorted(new, key=self.names.__getitem__)
        return _numbered_in_order(self.names, self._earlier, order)


def _numbered_in_order(names: Sequence[str], count: int, order: Iterable[int]) -> tuple[list[str], NDArray[np.int32]]:
    """Return the first names, as many as `count`, then those of other numbers in order, and each number's position.

    The position is −1 for numbers that are left out, and in the end for −1 itself.
    """
    numbers = [*range(count), *order]
    positions = np.full(len(names) + 1, -1, np.int32)
    positions[numbers] = np.arange(len(numbers))
    return [names[number] for number in numbers], positions


def _as_number(name: str) -> tuple[int, str, str]:
    """Return what orders digits as their values; Python refuses to convert thousands of digits."""
    digits = name.lstrip("0")
    return len(digits), digits, name


def label_matrix(
    y: Iterable[object], names: Sequence[str] = (), same: Mapping[str, str] | None = None
) -> tuple[list[str], csr_array]:
    """Return the names of labels, earlier ones first and then new ones in order, and the labels of documents, N×K.

    y has the names of the labels of each document; `same` is as for `LabelNumbers`. SettingsError if y has no such
    lists, or a name that a label cannot have.
    """
    label_numbers = LabelNumbers(names, same)
    numbers, lengths = _numbered(y, label_numbers)
    ordered, positions = label_numbers.ordered()
    for name in ordered[len(names) :]:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SettingsError(f"label {ascii(name)} has half of a surrogate pair, which is no character") from None
    return ordered, matrix_of_labels(positions[numbers], lengths, len(ordered))


def matrix_of_labels(numbers: NDArray[np.integer], lengths: NDArray[np.integer], K: int) -> csr_array:
    """Return the labels of documents, N×K, of their numbers, document after document; −1 is none."""
    matrix = counts(numbers, lengths, K)
    return as_csr(None, matrix.indices, matrix.indptr, K)


def _numbered(y: Iterable[object], label_numbers: LabelNumbers) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the numbers of the labels of all documents, and how many each has."""
    _check_lists(y)
    numbers: list[int] = []
    lengths = []
    for position, names in enumerate(y):
        # A text is a list of its letters, which nobody means.
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise SettingsError(f"{LISTS}, but labels[{position}] is {excerpt(names)}; {_list_advice(names, y)}")
        start = len(numbers)
        for name in names:
            if not isinstance(name, str):
                reason = "which is no text"
                if isinstance(name, Number) and not is_missing(name):
                    reason += "; write names as texts, or a matrix of 0 and 1 as pd.DataFrame(labels, columns=names)"
                raise SettingsError(f"{LISTS}, but labels[{position}] has {excerpt(name)}, {reason}")
            try:
                numbers.append(label_numbers[str(name)])
            except BadName as error:
                raise SettingsError(f"labels[{position}]: {error}") from None
        lengths.append(len(numbers) - start)
    return np.array(numbers, np.int32), np.array(lengths, np.int64)


def _check_lists(y: Iterable[object]) -> None:
    """Raise SettingsError if labels are a text, a matrix, or something else than lists in order."""
    if isinstance(y, str | bytes):
        raise SettingsError(f"{LISTS}, not one text")
    if issparse(y) or getattr(getattr(y, "dtype", None), "kind", "O") in "biufc":
        advice = "a matrix of 0 and 1 needs names: pd.DataFrame(labels, columns=names)"
        if len(getattr(y, "shape", ())) == 1:
            advice = "a number is a name as a text: [[str(label)] for label in labels]"
        raise SettingsError(f"{LISTS}, not numbers; {advice}")
    if isinstance(y, Mapping | set | frozenset):
        raise SettingsError(f"{LISTS}, in the order of these, not a {type(y).__name__}")


def _list_advice(names: object, y: Iterable[object]) -> str:
    """Return how to write what is no list of names among the labels of all documents."""
    if isinstance(y, Sized) and all(isinstance(text, str) or is_missing(text) for text in y) and separator_of(y):
        return f"give lists of names, such as {lists_in_code(list(y), 'labels')}"
    return "write no names as []" if is_missing(names) else "write a single name as [name]"


def note_case(labels: Sequence[str], earlier: int, path: str, note: Callable[[str], object]) -> None:
    """Note the labels after the `earlier` ones that differ from another one only in case."""
    first: dict[str, str] = {}
    pairs = []
    for number, label in enumerate(labels):
        other = first.setdefault(label.lower(), label)
        if other != label and number >= earlier:
            pairs.append((other, label))
    if pairs:
        differ = f"{len(pairs)} labels differ" if len(pairs) > 1 else "1 label differs"
        note(f"{path}: {differ} from another one only in case, such as {' and '.join(map(excerpt, pairs[0]))}")
