"""What the features of a text are: words, by scikit-learn's analysers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_text, words_of

__all__ = ["ANALYZERS", "LONGEST", "Analysis"]

#: What the words of a text are: two or more letters or digits; runs of characters; the same within words.
ANALYZERS = ("word", "char", "char-wb")

#: The longest n-gram. A text of n characters has n n-grams of each length.
LONGEST = 100

#: Runs of whitespace and control characters, which names of features cannot have.
SPACES = re.compile("[\\s\0-\x1f\x7f-\x9f]+")


class Analysis(NamedTuple):
    """How a text is divided into words, and which words are features.

    Attributes
    ----------
    analyzer : str
        One of `ANALYZERS`.
    shortest, longest : int
        Lengths of n-grams, in words or characters.
    min_count : int
        Words that occur less often in the corpus are left out.
    max_features : int, optional
        At most so many features are kept, the most frequent; those that a model has count.
    """

    analyzer: str = "word"
    shortest: int = 1
    longest: int = 1
    min_count: int = 1
    max_features: int | None = None

    def check(self) -> None:
        """Raise SettingsError if a value is not allowed."""
        if self.analyzer not in ANALYZERS:
            raise SettingsError(f"analyzer must be one of {', '.join(ANALYZERS)}")
        for number in (self.shortest, self.longest, self.min_count, self.max_features or 1):
            if type(number) is not int or number < 1:
                raise SettingsError(f"lengths of n-grams and limits must be positive integers, not {excerpt(number)}")
        if not self.shortest <= self.longest <= LONGEST:
            raise SettingsError(f"the lengths of n-grams must be from 1 to {LONGEST}, the shortest first")

    def finder(self) -> Callable[[str], list[str]]:
        """Return the function that finds the words in a text, mostly scikit-learn's analyser.

        For characters see `xmlgp.text.characters`; whitespace and control characters within n-grams of characters are a
        space.
        """
        if self.analyzer == "word" and self.longest == 1:
            # scikit-learn takes longer to import than a text takes from a command to its answer.
            return _words_in
        from sklearn.feature_extraction.text import CountVectorizer

        options: dict[str, Any] = {"preprocessor": _plain}
        if self.analyzer == "word":
            options = {"preprocessor": str.lower, "tokenizer": words_of, "token_pattern": None}
        finder: Callable[[str], list[str]] = CountVectorizer(
            analyzer=self.analyzer.replace("-", "_"), ngram_range=(self.shortest, self.longest), **options
        ).build_analyzer()
        return finder


def _plain(text: str) -> str:
    """Return a text in lower case, in one form of each character, with plain spaces."""
    return SPACES.sub(" ", normalized_text(text)).lower()


def _words_in(text: str) -> list[str]:
    return words_of(text.lower())
