"""What the features of a text are: words, by scikit-learn's analysers, and perhaps the embedding of an encoder."""

import functools
import re
from array import array
from typing import NamedTuple

import numpy as np

from xmlgp.data.dataset import as_csr
from xmlgp.data.features import Dense, Features
from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_text, words_of
from xmlgp.text.documents import Columns
from xmlgp.text.encoder import Encoder

__all__ = ["ANALYZERS", "LONGEST", "Analysis", "Vectorizer", "checked_analysis", "counts", "no_words", "stop_words"]

#: What the words of a text are: two or more letters or digits; runs of characters; the same within words; none.
ANALYZERS = ("word", "char", "char-wb", "none")

#: The longest n-gram. A text of n characters has n n-grams of each length.
LONGEST = 100

#: Runs of whitespace and control characters, which names of features cannot have.
SPACES = re.compile("[\\s\0-\x1f\x7f-\x9f]+")

#: The first entries of a mapping. The version increases whenever older ones could not read what is written.
FORMAT = "xmlgp vectorizer"
FORMAT_VERSION = 1

#: What a mapping has of an analysis if it is not the default.
LIMITS = ("min_count", "max_features", "stop_words")

#: What a mapping has of the columns, and what it has if that is not the default.
COLUMNS = ("text", "labels", "separator", "id")
MORE_COLUMNS = ("flags", "header")


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
    encoder : Encoder, optional
        What computes an embedding of each text, a dense block beside the words.
    """

    analyzer: str = "word"
    shortest: int = 1
    longest: int = 1
    min_count: int = 1
    max_features: int | None = None
    stop_words: tuple[str, ...] = ()
    encoder: Encoder | None = None

    def check(self):
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

    def limits(self):
        """Return what decides which words are features, where it is not the default (dict)."""
        return {name: getattr(self, name) for name in LIMITS if getattr(self, name) != Analysis._field_defaults[name]}

    def with_embeddings(self, words, texts, **how):
        """Return the features of texts (list): counts of words (csr_array), with the embeddings beside them if any.

        The keywords are those of `Encoder.encode`.
        """
        features = Features(words)
        return features.beside(Dense((self.encoder.encode(texts, **how),))) if self.encoder else features

    @functools.lru_cache(maxsize=8)  # noqa: B019 an analysis is a few values
    def function(self):
        """Return a function that lists the words of a text.

        The analysers are scikit-learn's, with its treatment of case; for characters see `xmlgp.text.characters`.
        Whitespace and control characters within n-grams of characters are a space.
        """
        if self.analyzer == "none":
            return no_words
        stop = frozenset(self.stop_words)
        if self.analyzer == "word" and self.longest == 1:
            # What the analyser does to a text, without its steps for bytes and accents, which take as long.
            if stop:
                return lambda text: [word for word in words_of(text.lower()) if word not in stop]
            return lambda text: words_of(text.lower())
        # Its import takes longer than to vectorize a small corpus.
        from sklearn.feature_extraction.text import CountVectorizer

        options = {"analyzer": self.analyzer.replace("-", "_"), "ngram_range": (self.shortest, self.longest)}
        if self.analyzer == "word":
            options |= {"tokenizer": words_of, "token_pattern": None, "stop_words": list(stop) or None}
            return CountVectorizer(**options).build_analyzer()
        analyse = CountVectorizer(**options).build_analyzer()
        return lambda text: analyse(SPACES.sub(" ", normalized_text(text)))


def checked_analysis(analysis, is_text, source):
    """Return the `Analysis` of points to train on, the default if it is None; SettingsError if it is bad or useless."""
    analysis = Analysis() if analysis is None else analysis
    analysis.check()
    if not is_text and analysis != Analysis():
        advice = "to choose words, n-grams, stop words or an encoder, give the text, or vectorize it again"
        raise SettingsError(f"{source}: these are rows of numbers; {advice}")
    return analysis


def stop_words(language):
    """Return the stop words of a language, for `Analysis`.

    Those of English are scikit-learn's, others those of the package stop-words.

    Parameters
    ----------
    language : str
        Its name in English or its code, such as "german" or "de".

    Returns
    -------
    tuple of str

    Raises
    ------
    XmlgpError
        If the package is needed and not installed.
    SettingsError
        If the language is unknown.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    if language in ("english", "en"):
        return tuple(sorted(ENGLISH_STOP_WORDS))
    try:
        from stop_words import AVAILABLE_LANGUAGES, StopWordError, get_stop_words
    except ImportError:
        raise XmlgpError("stop words of other languages than english need: pip install 'xmlgp[text]'") from None
    try:
        words = get_stop_words(language)
    except StopWordError:
        known = ", ".join(sorted(AVAILABLE_LANGUAGES))
        raise SettingsError(f"there are no stop words of {excerpt(language)}, only of {known}") from None
    # As texts are divided: "d'un" is "un".
    return tuple(sorted(set(Analysis().function()(" ".join(words)))))


def no_words(text):
    """Return that a text has no words."""
    return ()


class _Numbers(dict):
    """The numbers of words; that of a word that is not in the vocabulary is −1."""

    def __missing__(self, word):
        return -1


class Vectorizer:
    """Counts the D words of a vocabulary in texts.

    `numbers` maps each word to its number, and others to −1. `columns` are those of the training corpus (`Columns`),
    which are the default for others.
    """

    def __init__(self, analysis, words, columns=None):
        self.analysis = analysis
        self.words = words
        self.columns = columns or Columns()
        self.numbers = _Numbers(zip(words, range(len(words)), strict=True))

    def features(self, texts):
        """Return how often each word of the vocabulary occurs in each text, B×D, with the embeddings beside them."""
        texts = list(texts)
        analyse = self.analysis.function()
        found = array("i")
        ends = [0]
        for text in texts:
            found.extend(map(self.numbers.__getitem__, analyse(text)))
            ends.append(len(found))
        words = counts(np.frombuffer(found, np.int32), np.diff(ends), len(self.words))
        return self.analysis.with_embeddings(words, texts)

    def mapping(self):
        """Return what `from_mapping` needs besides the words, as JSON has it."""
        encoder = self.analysis.encoder
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "analyzer": self.analysis.analyzer,
            "ngrams": [self.analysis.shortest, self.analysis.longest],
            "columns": _columns_mapping(self.columns),
            **self.analysis.limits(),
            **({"encoder": encoder.mapping()} if encoder else {}),
        }

    @classmethod
    def from_mapping(cls, mapping, words):
        """Return the vectorizer that an untrusted mapping describes, or None if it describes none."""
        try:
            shortest, longest = mapping["ngrams"]
            limits = {name: mapping[name] for name in LIMITS if name in mapping}
            analysis = Analysis(mapping["analyzer"], shortest, longest, **limits)
            if "stop_words" in limits:
                analysis = analysis._replace(stop_words=tuple(analysis.stop_words))
            if "encoder" in mapping:
                analysis = analysis._replace(encoder=Encoder.from_mapping(mapping["encoder"]))
            analysis.check()
            columns = _columns_of(mapping["columns"])
        except (LookupError, TypeError, ValueError, SettingsError):
            return None
        known = mapping.get("format") == FORMAT and mapping.get("format_version") == FORMAT_VERSION
        if not known or columns is None or len(set(words)) < len(words):
            return None
        return cls(analysis, words, columns)


def _columns_mapping(columns: Columns) -> dict:
    """Return columns as JSON has them; a single column of labels is a text."""
    mapping = {name: getattr(columns, name) for name in COLUMNS}
    mapping |= {name: getattr(columns, name) for name in MORE_COLUMNS if getattr(columns, name)}
    if len(columns.labels) == 1:
        mapping["labels"] = columns.labels[0]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in mapping.items()}


def _columns_of(mapping: dict) -> Columns | None:
    """Return the columns in an untrusted mapping, or None if there are none."""
    found = {name: mapping[name] for name in COLUMNS}
    found |= {name: mapping[name] for name in MORE_COLUMNS if name in mapping}
    if isinstance(found["labels"], str):
        found["labels"] = [found["labels"]]
    lists = [found[name] for name in ("text", "labels", *MORE_COLUMNS) if name in found]
    texts = [found[name] for name in ("separator", "id") if found[name] is not None]
    if not found["text"] or not all(isinstance(value, list) for value in lists):
        return None
    # The description of a model holds printable text only.
    names = [*texts, *(name for value in lists for name in value)]
    if not all(isinstance(name, str) and name.isprintable() for name in names):
        return None
    return Columns(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})


def counts(numbers, lengths, columns):
    """Return how often each number occurs in each of the consecutive texts of these lengths, B×D in float32."""
    # Negative numbers do not count. Sorting takes most of the time, and half as long with 32 bits.
    known = numbers >= 0
    dtype = np.int32 if len(lengths) * columns <= np.iinfo(np.int32).max else np.int64
    places = np.repeat(np.arange(len(lengths), dtype=dtype) * dtype(columns), lengths)[known] + numbers[known]
    places.sort()
    first = np.flatnonzero(np.diff(places, prepend=dtype(-1)))
    rows, indices = np.divmod(places[first], dtype(max(1, columns)))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(lengths)))])
    return as_csr(np.diff(first, append=len(places)).astype(np.float32), indices, indptr, columns)
