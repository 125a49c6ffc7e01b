"""Texts and names of labels that are in memory, as matrices."""

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import as_csr
from xmlgp.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.label_numbers import BadName, LabelNumbers, ordered_labels
from xmlgp.text.vectorizer import counts

__all__ = ["as_texts", "label_matrix"]


def as_texts(X):
    """Return documents as a list of texts; raise SettingsError if they are none."""
    if isinstance(X, str | bytes):
        raise SettingsError("X must be a list of texts, not one text")
    texts = list(X)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise SettingsError(f"X must be a list of texts, but X[{place}] is {excerpt(text)}")
    return texts


def label_matrix(y, known=(), extend=True):
    """Return the names of labels, the known ones first and then new ones in order, and the labels of documents.

    Parameters
    ----------
    y : iterable of iterable of str
        The names of the labels of each document; an empty name is no label.
    known : sequence of str
    extend : bool
        Whether to add new names; otherwise they are left out.

    Returns
    -------
    names : list of str
        In the order of `xmlgp vectorize`: of their characters, or of numbers if all new ones are.
    labels : csr_array of bool, N×K

    Raises
    ------
    SettingsError
        If y has no such lists, or a name that a label cannot have.
    """
    K, found = len(known), LabelNumbers(known)
    numbers, lengths = _numbered(y, found)
    new, order = ordered_labels(found.names[K:] if extend else [])
    for name in new:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SettingsError(f"label {ascii(name)} has half of a surrogate pair, which is no character") from None
    if extend:
        # The last is the number of an empty name, −1.
        numbers = np.concatenate([np.arange(K), order[:-1] + K, [-1]]).astype(np.int32)[numbers]
    else:
        numbers = np.where(numbers < K, numbers, -1)
    matrix = counts(numbers, lengths, K + len(new))
    return [*known, *new], as_csr(None, matrix.indices, matrix.indptr, K + len(new))


def _numbered(y, numbers):
    """Return the numbers (`LabelNumbers`) of the labels of all documents, and how many each has."""
    expected = "y must be a list of label names for each document"
    if isinstance(y, str | bytes) or sp.issparse(y) or getattr(getattr(y, "dtype", None), "kind", "O") in "biufc":
        raise SettingsError(f"{expected}, not {'one text' if isinstance(y, str | bytes) else 'numbers'}")
    found, lengths = [], []
    for place, names in enumerate(y):
        # A text is a list of its letters, which nobody means.
        if isinstance(names, str | bytes) or not hasattr(names, "__iter__"):
            raise SettingsError(f"{expected}, but y[{place}] is {excerpt(names)}; write a single name as [name]")
        names = list(names)
        for name in names:
            if not isinstance(name, str):
                raise SettingsError(f"{expected}, but y[{place}] has {excerpt(name)}, which is no text")
        try:
            found += [numbers[str(name)] for name in names]
        except BadName as error:
            raise SettingsError(f"y[{place}]: {error}") from None
        lengths.append(len(names))
    return np.array(found, np.int32), np.array(lengths, np.int64)
