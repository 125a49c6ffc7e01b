"""What the features of a text are: words, by scikit-learn's analysers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_text, words_of

__all__ = ["ANALYZERS", "LIMITS", "LONGEST", "Analysis", "stop_words"]

#: What the words of a text are: two or more letters or digits; runs of characters; the same within words.
ANALYZERS = ("word", "char", "char-wb")

#: The longest n-gram. A text of n characters has n n-grams of each length.
LONGEST = 100

#: Runs of whitespace and control characters, which names of features cannot have.
SPACES = re.compile("[\\s\0-\x1f\x7f-\x9f]+")

#: What a mapping has of an analysis if it is not the default.
LIMITS = ("min_count", "max_features", "stop_words")


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
    stop_words : tuple of str
        Words that are left out, in lower case, before n-grams are formed; see `xmlgp.text.analysis.stop_words`.
    """

    analyzer: str = "word"
    shortest: int = 1
    longest: int = 1
    min_count: int = 1
    max_features: int | None = None
    stop_words: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise SettingsError if a value is not allowed."""
        if self.analyzer not in ANALYZERS:
            raise SettingsError(f"analyzer must be one of {', '.join(ANALYZERS)}")
        lengths = self.shortest, self.longest
        if not all(type(length) is int for length in lengths) or not 1 <= self.shortest <= self.longest <= LONGEST:
            raise SettingsError(f"the lengths of n-grams must be from 1 to {LONGEST}, the shortest first")
        for name in ("min_count", "max_features"):
            number = getattr(self, name)
            if not (type(number) is int and number >= 1) and (name, number) != ("max_features", None):
                raise SettingsError(f"{name} must be a positive integer, not {excerpt(number)}")
        words = self.stop_words
        # The description of a model holds printable text only.
        if not isinstance(words, tuple) or not all(isinstance(word, str) and word.isprintable() for word in words):
            raise SettingsError("stop_words must be a tuple of words")
        if words and self.analyzer != "word":
            raise SettingsError(f"stop words need the analyzer word, not {self.analyzer}")

    def limits(self) -> dict[str, Any]:
        """Return what decides which words are features, where it is not the default."""
        return {name: getattr(self, name) for name in LIMITS if getattr(self, name) != Analysis._field_defaults[name]}

    def finder(self) -> Callable[[str], list[str]]:
        """Return the function that finds the words in a text, mostly scikit-learn's analyser.

        For characters see `xmlgp.text.characters`; whitespace and control characters within n-grams of characters are a
        space.
        """
        if self.analyzer == "word" and self.longest == 1 and not self.stop_words:
            # scikit-learn takes longer to import than a text takes from a command to its answer.
            return _words_in
        from sklearn.feature_extraction.text import CountVectorizer

        options: dict[str, Any] = {"preprocessor": _plain}
        if self.analyzer == "word":
            stop_words = list(self.stop_words) or None
            options = {
                "preprocessor": str.lower,
                "tokenizer": words_of,
                "token_pattern": None,
                "stop_words": stop_words,
            }
        finder: Callable[[str], list[str]] = CountVectorizer(
            analyzer=self.analyzer.replace("-", "_"), ngram_range=(self.shortest, self.longest), **options
        ).build_analyzer()
        return finder


def stop_words(language: str) -> tuple[str, ...]:
    """Return the stop words of a language, for `Analysis`: scikit-learn's of "english", the only one."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    if language != "english":
        raise SettingsError(f"there are no stop words of {excerpt(language)}, only of english")
    return tuple(sorted(ENGLISH_STOP_WORDS))


def _plain(text: str) -> str:
    """Return a text in lower case, in one form of each character, with plain spaces."""
    return SPACES.sub(" ", normalized_text(text)).lower()


def _words_in(text: str) -> list[str]:
    return words_of(text.lower())
