"""What people call the labels and features of a data set."""

from typing import NamedTuple

from xmlgp.text.vectorizer import Vectorizer

__all__ = ["Names"]


class Names(NamedTuple):
    """The names of labels and features of a data set, and what maps text to its features; each may be missing.

    Attributes
    ----------
    labels, features : list of str or None
    vectorizer : Vectorizer or None
    """

    labels: list[str] | None = None
    features: list[str] | None = None
    vectorizer: Vectorizer | None = None
