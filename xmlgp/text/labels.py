"""Number labels by their names: those of a corpus, and those that are in memory as a matrix."""

from collections.abc import Mapping
from numbers import Number

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import as_csr
from xmlgp.data.names import CONTROL
from xmlgp.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import counts
from xmlgp.text.characters import normalized_name
from xmlgp.text.written_names import is_missing, lists_in_code, separator_of

__all__ = ["BadName", "LabelNumbers", "label_matrix", "matrix_of_labels", "numbered_in_order"]


class BadName(Exception):
    """A name that a label cannot have; the text says why."""


class LabelNumbers(dict):
    """The numbers of labels by their names, new names included; −1 for an empty name.

    Names that look the same are one label: new ones are normalised, see `xmlgp.text.characters`. Names that are the
    `same` (dict) are one label too. It is called by the value if that is among them, unless it is known.
    """

    def __init__(self, names=(), same=None):
        self.names = list(names)
        self._known = len(names)
        super().__init__(zip(self.names, range(len(self.names)), strict=True))
        for number, name in enumerate(self.names):
            self.setdefault(normalized_name(name), number)
        self[""] = -1
        self._same = same or {}
        self._owners = {self._same.get(name, name): self[name] for name in self.names} if same else {}

    def __missing__(self, name):
        normalized = normalized_name(name)
        if normalized != name:
            number = self[normalized]
        else:
            control = CONTROL.search(name)
            if control:
                raise BadName(f"label {excerpt(name)} has a control character, U+{ord(control[0]):04X}")
            number = len(self.names)
            label = self._same.get(name)
            if label is not None:
                number = self._owners.setdefault(label, number)
            if number == len(self.names):
                self.names.append(name)
            elif name == label and number >= self._known:
                self.names[number] = name
        self[name] = number
        return number

    def ordered(self, extend=True):
        """Return the names, and the place of each number in them; new names in order, of numbers if all are.

        Unless `extend`, the new names are left out. The places are those of `numbered_in_order`.
        """
        known = self._known
        new = self.names[self._known :] if extend else []
        numeric = all(name.isascii() and name.isdigit() for name in new)
        key = _as_number if numeric else str
        order = sorted(range(len(new)), key=lambda place: key(new[place]))
        return numbered_in_order(self.names, known, [known + place for place in order])


def numbered_in_order(names, known, order):
    """Return the first `known` names, then others in the order of their numbers, and the place of each number in them.

    The place is −1 for other numbers, and in the end for −1 itself.
    """
    order = [*range(known), *order]
    places = np.full(len(names) + 1, -1, np.int32)
    places[order] = np.arange(len(order))
    return [names[number] for number in order], places


def _as_number(name):
    """Return what orders digits as their values; Python refuses to convert thousands of digits."""
    digits = name.lstrip("0")
    return len(digits), digits, name


def label_matrix(y, known=(), same=None):
    """Return the names of labels, the known ones first and then new ones in order, and the labels of documents, N×K.

    y has the names of the labels of each document; `same` is as for `LabelNumbers`. SettingsError if y has no such
    lists, or a name that a label cannot have.
    """
    found = LabelNumbers(known, same)
    numbers, lengths = _numbered(y, found)
    names, places = found.ordered()
    for name in names[len(known) :]:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SettingsError(f"label {ascii(name)} has half of a surrogate pair, which is no character") from None
    return names, matrix_of_labels(places[numbers], lengths, len(names))


def matrix_of_labels(numbers, lengths, K):
    """Return the labels of documents, N×K, of their numbers, document after document; −1 is none."""
    matrix = counts(numbers, lengths, K)
    return as_csr(None, matrix.indices, matrix.indptr, K)


def _numbered(y, numbers):
    """Return the numbers (`LabelNumbers`) of the labels of all documents, and how many each has."""
    expected = "labels must be a list of names for each document"
    if isinstance(y, str | bytes) or sp.issparse(y) or getattr(getattr(y, "dtype", None), "kind", "O") in "biufc":
        matrix = "numbers; a matrix of 0 and 1 needs names: pd.DataFrame(labels, columns=names)"
        if len(getattr(y, "shape", ())) == 1:
            matrix = "numbers; a number is a name as a text: [[str(label)] for label in labels]"
        raise SettingsError(f"{expected}, not {'one text' if isinstance(y, str | bytes) else matrix}")
    if isinstance(y, Mapping | set | frozenset):
        raise SettingsError(f"{expected}, in the order of these, not a {type(y).__name__}")
    found = []
    lengths = []
    for place, names in enumerate(y):
        # A text is a list of its letters, which nobody means.
        if isinstance(names, str | bytes) or not hasattr(names, "__iter__"):
            advice = "write no names as []" if is_missing(names) else "write a single name as [name]"
            texts = hasattr(y, "__len__") and all(isinstance(own, str) or is_missing(own) for own in y)
            if texts and separator_of(y):
                advice = f"give lists of names, such as {lists_in_code(list(y), 'labels')}"
            raise SettingsError(f"{expected}, but labels[{place}] is {excerpt(names)}; {advice}")
        names = list(names)
        for name in names:
            if not isinstance(name, str):
                reason = "which is no text"
                if isinstance(name, Number) and not is_missing(name):
                    reason += "; write names as texts, or a matrix of 0 and 1 as pd.DataFrame(labels, columns=names)"
                raise SettingsError(f"{expected}, but labels[{place}] has {excerpt(name)}, {reason}")
        try:
            found += [numbers[str(name)] for name in names]
        except BadName as error:
            raise SettingsError(f"labels[{place}]: {error}") from None
        lengths.append(len(names))
    return np.array(found, np.int32), np.array(lengths, np.int64)
