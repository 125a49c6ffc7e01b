"""Names of labels and features, from the files beside a data set or from a file of the user."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from xmlgp.data.names import check_names, read_feature_names, read_label_names
from xmlgp.runtime.errors import XmlgpError
from xmlgp.text.word_counts import WordCounts

__all__ = ["FEATURES", "LABELS", "VECTORIZER", "Names", "read_names"]

#: The file beside a data set that has the names of features.
FEATURES = "features.txt"
#: The same for labels.
LABELS = "labels.txt"
#: The file that describes the vectorizer.
VECTORIZER = "vectorizer.json"

#: Largest vectorizer.json that is read, in bytes; usual ones have a few hundred.
LARGEST = 1 << 20


class Names(NamedTuple):
    """The names of labels and features of a data set, and what maps text to its features; each may be missing.

    A vocabulary adds the URIs and the preferred labels of labels; a URI may be empty. `texts` are those by which labels
    are found, of which the model knows the labels.
    """

    labels: list[str] | None = None
    features: list[str] | None = None
    vectorizer: WordCounts | None = None
    uris: list[str] | None = None
    preferred: list[str] | None = None
    texts: list[str] | None = None

    @property
    def in_files(self) -> dict[str, list[str]]:
        """The names that there are, by their kinds, for files of them."""
        return {kind: names for kind, names in self._replace(vectorizer=None)._asdict().items() if names is not None}

    def check(self) -> None:
        """Raise SettingsError if a name is one that no model folder can have."""
        for kind, names in self.in_files.items():
            check_names(names, kind.removesuffix("s"))

    @property
    def shown(self) -> list[str] | None:
        """What users see as the names of labels: the preferred labels if there are any."""
        return self.preferred or self.labels

    @property
    def same(self) -> dict[str, str]:
        """The labels by their names, URIs and preferred labels, apart from those that several labels share."""
        owners: dict[str, set[str]] = {}
        for names in zip(self.labels or (), self.uris or (), self.preferred or (), strict=False):
            for name in names:
                owners.setdefault(name, set()).add(names[0])
        return {name: next(iter(labels)) for name, labels in owners.items() if len(labels) == 1}


def read_names(folder: str | Path, D: int | None, K: int) -> Names:
    """Return the `Names` of a data set of D features and K labels in a folder, as far as there are files of them.

    Those of features are not read if D is None, nor is a vectorizer. DataFormatError if the names are malformed or of
    another number; XmlgpError if vectorizer.json is malformed.
    """
    folder = Path(folder)
    path = folder / VECTORIZER
    label_file = folder / LABELS
    feature_file = folder / FEATURES
    labels = read_label_names(label_file, K) if os.path.isfile(label_file) else None
    features = read_feature_names(feature_file, D) if D is not None and os.path.isfile(feature_file) else None
    if D is None or not os.path.isfile(path):
        return Names(labels, features)
    if features is None or labels is None:
        raise XmlgpError(f"{folder}: {VECTORIZER} needs {FEATURES} and {LABELS} beside it")
    try:
        with open(path, "rb") as stream:
            mapping = json.loads(stream.read(LARGEST))
    except (ValueError, RecursionError):
        mapping = None
    vectorizer = WordCounts.from_description(mapping, features) if isinstance(mapping, dict) else None
    if vectorizer is None:
        raise XmlgpError(f"{path}: this is not the description of a vectorizer")
    return Names(labels, features, vectorizer)
