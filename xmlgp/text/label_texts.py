"""The texts of labels: names, alternative names or descriptions, by which labels without documents are found."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.files import open_input
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.runtime.errors import DataFormatError, SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.label_names import normalized_name
from xmlgp.text.labels import BadName, LabelNumbers
from xmlgp.text.names import Names
from xmlgp.text.word_counts import WordCounts

__all__ = ["NumberedTexts", "number_texts", "read_label_texts"]


def read_label_texts(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Return the labels and texts of a file of lines `label<TAB>text`; a label may have several lines.

    DataFormatError names a malformed line, and the first one of a file without any.
    """
    path = os.fspath(path)
    pairs = []
    with open_input(path) as stream:
        for number, line in decoded_lines(LineReader(stream, path)):
            columns = [normalized_name(column) for column in line.split("\t")]
            if len(columns) == 2 and all(columns):
                pairs.append((columns[0], columns[1]))
            elif any(columns):
                raise DataFormatError(path, number, f"the line must be `label<TAB>text`, not {excerpt(line)}")
    if not pairs:
        raise DataFormatError(path, 1, "the file has no texts of labels; a line is `label<TAB>text`")
    return list(dict.fromkeys(pairs))


class NumberedTexts(NamedTuple):
    """M texts of labels, and the number of the label of each, M."""

    texts: list[str]
    labels: NDArray[np.int32]

    @property
    def fingerprint(self) -> str:
        """A hash of the texts and their labels."""
        return hashlib.sha256("\n".join(map(str, [*self.labels.tolist(), *self.texts])).encode()).hexdigest()

    def words(self, vectorizer: WordCounts) -> csr_array:
        """Return which words the texts have, M×(D and more): new words follow the D of the vectorizer."""
        analysis = vectorizer.analysis._replace(min_count=1, max_features=None)
        _, features = WordCounts(analysis, vectorizer.words).extended(self.texts)
        return features.sparse


def number_texts(
    names: Names, pairs: list[tuple[str, str]], same: Mapping[str, str] | None = None
) -> tuple[Names, NumberedTexts]:
    """Return names with the labels that are new in pairs of a label and a text, and the texts of all labels.

    A label without a text there has its name as text. `same` is as for `LabelNumbers`. SettingsError if labels have no
    names, or points are not text.
    """
    if names.labels is None or names.vectorizer is None:
        raise SettingsError("texts of labels need documents with names of labels; these are rows of numbers")
    numbers = LabelNumbers(names.labels, names.same | dict(same or {}))
    try:
        found = np.array([numbers[label] for label, _ in pairs], np.int64)
    except BadName as error:
        raise SettingsError(f"texts of labels: {error}") from None
    ordered, positions = numbers.ordered()
    labels = positions[found]
    others = np.setdiff1d(np.arange(len(ordered)), labels)
    shown = names.preferred or names.labels
    texts = [*(text for _, text in pairs), *(shown[label] for label in others.tolist())]
    return names._replace(labels=ordered), NumberedTexts(texts, np.append(labels, others).astype(np.int32))
