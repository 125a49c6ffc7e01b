"""What maps texts to features: the protocol that callers use, and the forms in which folders keep a vectorizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from xmlgp.data.features import Features
from xmlgp.text.documents import Columns

__all__ = ["StoredVectorizer", "Vectorizer"]


class StoredVectorizer(NamedTuple):
    """A vectorizer as a folder has it: a mapping as JSON has it, or the bytes of a file."""

    description: Mapping[str, Any] | None = None
    content: bytes | None = None


class Vectorizer(Protocol):
    """Maps texts to D features.

    `columns` are those of the training corpus, which are the default for other corpora.
    """

    columns: Columns

    @property
    def D(self) -> int:
        """Number of features."""

    @property
    def words(self) -> list[str] | None:
        """The names of the features, or None if they are not known."""

    @property
    def estimator(self) -> Any:
        """The fitted vectorizer of scikit-learn, or None."""

    @property
    def finds_words(self) -> bool:
        """Whether features are words, so that a text without any is worth a note."""

    @property
    def grows(self) -> bool:
        """Whether more documents may add features, see `xmlgp.text.vectorize`."""

    def features(self, texts: Sequence[str]) -> Features:
        """Return the features of texts, B×D."""

    def stored(self) -> StoredVectorizer:
        """Return what a folder keeps; SettingsError if no folder can."""

    def describe(self) -> str:
        """Return how texts are read, in words."""
