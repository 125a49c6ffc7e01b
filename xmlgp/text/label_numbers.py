"""Number the labels of documents by their names."""

import numpy as np

from xmlgp.data.names import CONTROL
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["BadName", "LabelNumbers", "ordered_labels"]


class LabelNumbers(dict):
    """The numbers of labels by their names, new names included; −1 for an empty name."""

    def __init__(self, names=()):
        self.names = list(names)
        super().__init__(zip(self.names, range(len(self.names)), strict=True))
        self[""] = -1

    def __missing__(self, name):
        stripped = name.strip()
        if stripped != name:
            number = self[stripped]
        else:
            control = CONTROL.search(name)
            if control:
                raise BadName(f"label {excerpt(name)} has a control character, U+{ord(control[0]):04X}")
            number = len(self.names)
            self.names.append(name)
        self[name] = number
        return number


class BadName(Exception):
    """A name that a label cannot have; the text says why."""


def ordered_labels(names):
    """Return the names of labels in order, of numbers if all are, and the new number of each; the last is for −1."""
    numeric = all(name.isascii() and name.isdigit() for name in names)
    order = sorted(range(len(names)), key=lambda place: _number(names[place]) if numeric else names[place])
    numbers = np.full(len(names) + 1, -1, np.int32)
    numbers[order] = np.arange(len(names))
    return [names[place] for place in order], numbers


def _number(name):
    """Return what orders the digits of numbers as their values; Python refuses to convert thousands of digits."""
    digits = name.lstrip("0")
    return len(digits), digits, name
