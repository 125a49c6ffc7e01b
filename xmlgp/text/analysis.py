"""How a text is divided into words: scikit-learn's analysers."""

import functools
import re
from typing import NamedTuple

from xmlgp.errors import SettingsError

__all__ = ["ANALYZERS", "LONGEST", "Analysis"]

#: What the features of a text are: words of two or more letters or digits; runs of characters; the same within words.
ANALYZERS = ("word", "char", "char-wb")

#: The longest n-gram. A text of n characters has n n-grams of each length.
LONGEST = 100

#: Runs of whitespace and control characters, which names of features cannot have.
SPACES = re.compile("[\\s\0-\x1f\x7f-\x9f]+")


class Analysis(NamedTuple):
    """How a text is divided into words.

    Attributes
    ----------
    analyzer : str
        One of `ANALYZERS`.
    shortest, longest : int
        Lengths of n-grams, in words or characters.
    """

    analyzer: str = "word"
    shortest: int = 1
    longest: int = 1

    def check(self):
        """Raise SettingsError if a value is not allowed."""
        if self.analyzer not in ANALYZERS:
            raise SettingsError(f"analyzer must be one of {', '.join(ANALYZERS)}")
        lengths = self.shortest, self.longest
        if not all(type(length) is int for length in lengths) or not 1 <= self.shortest <= self.longest <= LONGEST:
            raise SettingsError(f"the lengths of n-grams must be from 1 to {LONGEST}, the shortest first")

    @functools.lru_cache(maxsize=8)  # noqa: B019 an analysis is a few values
    def function(self):
        """Return a function that lists the words of a text.

        The analysers are scikit-learn's, with its treatment of Unicode and of case. Whitespace and control characters
        within n-grams of characters are a space.
        """
        # Its import takes longer than to vectorize a small corpus, and rows need none of it.
        from sklearn.feature_extraction.text import CountVectorizer

        options = {"analyzer": self.analyzer.replace("-", "_"), "ngram_range": (self.shortest, self.longest)}
        vectorizer = CountVectorizer(**options)
        if self.analyzer != "word":
            analyse = vectorizer.build_analyzer()
            return lambda text: analyse(SPACES.sub(" ", text))
        if self.longest > 1:
            return vectorizer.build_analyzer()
        # What the analyser does to a text, without its steps for bytes and accents, which take as long.
        tokenize = vectorizer.build_tokenizer()
        return lambda text: tokenize(text.lower())
