"""Vectorize a corpus: number its words and labels in one pass over the text, count them in a second over the numbers.

The text is read once, so a corpus may come through a pipe. Besides the vocabulary, memory is bounded.
"""

import tempfile
import weakref
from collections import defaultdict
from itertools import count
from typing import NamedTuple

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr, no_points, stack
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import Vectorizer, counts
from xmlgp.text.corpus import read_documents
from xmlgp.text.documents import NO_OPTIONS, Document
from xmlgp.text.labels import BadName, LabelNumbers, numbered_in_order

__all__ = ["Vectorized", "as_texts", "vectorize", "vectorize_blocks", "vectorize_texts"]

#: Documents and words that are numbered at a time.
DOCUMENTS, WORDS = 4096, 1 << 18

#: Bytes of numbers that are kept in memory; more are in a file.
IN_MEMORY = 1 << 24


class _Numbered(NamedTuple):
    """Consecutive documents: how many words and labels each of the B has, and their numbers, document after document.

    All are int32. Unknown words and labels are −1.
    """

    lengths: np.ndarray
    label_counts: np.ndarray
    words: np.ndarray
    labels: np.ndarray

    def points(self, D, K):
        """Return the documents as a `Dataset`."""
        labels = counts(self.labels, self.label_counts, K)
        return Dataset(counts(self.words, self.lengths, D), as_csr(None, labels.indices, labels.indptr, K))


class Vectorized:
    """A corpus of N documents whose words and labels are numbers: those of the `vectorizer`, and of the names `labels`.

    `new` are the numbers of new words and labels, `unknown_labels` counts labels that are left out, `without_labels`
    and `without_words` documents that have none of them. The last two are complete once `blocks` has ended.
    """

    def __init__(self, vectorizer):
        self.vectorizer, self.labels, self.new, self.unknown_labels, self.N = vectorizer, [], (0, 0), 0, 0
        self.without_labels = self.without_words = 0
        # By number from the first pass; the last is that of −1.
        self._word_places = self._label_places = None
        # The file ends with the process.
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 it stays open as long as the corpus
        weakref.finalize(self, self._file.close)
        self._sizes = []

    def _add(self, block):
        for part in block:
            self._file.write(part.tobytes())
        self._sizes.append([len(part) for part in block])
        self.N += len(block.lengths)

    def blocks(self):
        """Yield the documents as points, a `Dataset` at a time."""
        self.without_labels = self.without_words = 0
        self._file.seek(0)
        for sizes in self._sizes:
            *lengths, words, labels = (np.frombuffer(self._file.read(4 * size), np.int32) for size in sizes)
            block = _Numbered(*lengths, self._word_places[words], self._label_places[labels])
            points = block.points(len(self.vectorizer.words), len(self.labels))
            self.without_labels += np.count_nonzero(np.diff(points.labels.indptr) == 0)
            self.without_words += np.count_nonzero(np.diff(points.features.indptr) == 0)
            yield points

    def dataset(self):
        """Return all documents as one `Dataset`."""
        return stack([no_points(len(self.vectorizer.words), len(self.labels)), *self.blocks()])

    def summary(self, more=False):
        """Return what the corpus has, with `more` also how much is new, and what some documents lack, in words."""
        sizes = (self.N, "document"), (len(self.vectorizer.words), "feature"), (len(self.labels), "label")
        counted = [f"{number} {name}{'s' * (number != 1)}" for number, name in sizes]
        if more:
            counted[1:] = [f"{size} ({new or 'none'} new)" for size, new in zip(counted[1:], self.new, strict=True)]
        parts = [", ".join(counted)]
        for number, lacking in (self.without_labels, "labels"), (self.without_words, "words"):
            if number:
                parts.append(f"{number} {'documents have' if number > 1 else 'document has'} no {lacking}")
        if self.unknown_labels:
            parts.append(f"{self.unknown_labels} labels left out because no training document has them")
        return "; ".join(parts)


def vectorize(reader, vectorizer, labels=(), options=NO_OPTIONS, *, extend, labelled=True, progress=silent, **limits):
    """Vectorize a corpus (`Vectorized`) from a `LineReader` at the first line to its end.

    The vectorizer has the known words and the usual columns; `labels` are the names of known labels. With `extend`,
    other words and labels are appended to them, each kind in order: within the limits, at most the `max_features` most
    frequent words, which occur at least `min_count` times. Otherwise they are left out. Unless `labelled`, no labels
    are read. XmlgpError if there are no documents, words or labels to extend by.
    """
    documents = read_documents(reader, options, vectorizer.columns, labelled)
    found = _vectorized(documents, reader.path, vectorizer, labels, extend, progress, **limits)
    least = limits.get("min_count", 1)
    word = f"a word that occurs at least {least} times" if least > 1 else "a word"
    for some, reason in (
        (found.N, "there are no documents"),
        (found.labels, "no document has a label"),
        (found.vectorizer.words, f"no document has {word}"),
    ):
        if extend and not some:
            raise XmlgpError(f"{reader.path}: {reason}")
    return found


def as_texts(X):
    """Return documents in memory as a list of texts; raise SettingsError if they are none."""
    if isinstance(X, str | bytes):
        raise SettingsError("X must be a list of texts, not one text")
    texts = list(X)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise SettingsError(f"X must be a list of texts, but X[{place}] is {excerpt(text)}")
    return texts


def vectorize_texts(texts, vectorizer):
    """Return a vectorizer with the new words of texts (iterable of str) too, and their features, N×D in float32.

    SettingsError if there are no words, or a word is not Unicode text.
    """
    found = _vectorized((Document(0, None, text, []) for text in texts), "texts", vectorizer, (), True)
    words = found.vectorizer.words
    if not words:
        raise SettingsError("no document has a word")
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        raise SettingsError("a text has half of a surrogate pair, which is no character") from None
    return found.vectorizer, found.dataset().features


def vectorize_blocks(reader, vectorizer, labels=(), options=NO_OPTIONS, labelled=True):
    """Yield documents, a list at a time, and their points (`Dataset`); other words and labels are left out."""
    documents = read_documents(reader, options, vectorizer.columns, labelled)
    D, K = len(vectorizer.words), len(labels)
    for read, block in _numbered(documents, reader.path, vectorizer.analysis, vectorizer.numbers, LabelNumbers(labels)):
        yield read, block._replace(labels=np.where(block.labels < K, block.labels, np.int32(-1))).points(D, K)


def _vectorized(documents, path, vectorizer, labels, extend, progress=silent, min_count=1, max_features=None):
    D, K = len(vectorizer.words), len(labels)
    words = defaultdict(count(D).__next__, vectorizer.numbers) if extend else vectorizer.numbers
    known, occurrences = LabelNumbers(labels), np.zeros(D, np.int64)
    found = Vectorized(vectorizer)
    for _, block in _numbered(documents, path, vectorizer.analysis, words, known, progress):
        if extend:
            before, occurrences = occurrences, np.bincount(block.words, minlength=len(words))
            occurrences[: len(before)] += before
        else:
            found.unknown_labels += np.count_nonzero(block.labels >= K)
        found._add(block)
    names = list(words)
    kept, found._word_places = numbered_in_order(names, D, _vocabulary(names, D, occurrences, min_count, max_features))
    found.labels, found._label_places = known.ordered(extend)
    if extend:
        found.vectorizer = Vectorizer(vectorizer.analysis, kept, vectorizer.columns)
    found.new = len(kept) - D, len(found.labels) - K
    return found


def _vocabulary(names, D, occurrences, min_count, max_features):
    """Return the numbers of new words that are kept, from D on, in order of their characters."""
    kept = np.flatnonzero(occurrences >= min_count)
    kept = sorted(kept[kept >= D].tolist(), key=names.__getitem__)
    if max_features is not None and len(kept) > max_features:
        # Of equally frequent words the first.
        most = np.argsort(-occurrences[kept], kind="stable")[:max_features]
        kept = [kept[place] for place in np.sort(most).tolist()]
    return kept


def _numbered(documents, path, analysis, words, labels, progress=silent):
    """Yield documents, a list at a time, and `_Numbered`; `words` and `labels` map names to numbers."""
    analyse, word_number, label_number = analysis.function(), words.__getitem__, labels.__getitem__
    with progress(f"reading {path}", unit=" documents") as bar:
        # Numbers of words and labels, and where those of each document end. Lists take numbers faster than arrays.
        block, found, given, ends, label_ends = [], [], [], [], []
        for document in documents:
            found.extend(map(word_number, analyse(document.text)))
            try:
                given.extend(map(label_number, document.labels))
            except BadName as error:
                raise DataFormatError(path, document.line, str(error)) from None
            block.append(document)
            ends.append(len(found))
            label_ends.append(len(given))
            if len(block) == DOCUMENTS or len(found) >= WORDS:
                yield block, _finished(found, given, ends, label_ends)
                bar.update(len(block))
                block, found, given, ends, label_ends = [], [], [], [], []
        if block:
            yield block, _finished(found, given, ends, label_ends)
            bar.update(len(block))


def _finished(*lists):
    words, labels, ends, label_ends = (np.fromiter(part, np.int32, len(part)) for part in lists)
    lengths, label_counts = (np.diff(part, prepend=np.int32(0)) for part in (ends, label_ends))
    return _Numbered(lengths, label_counts, words, labels)
