"""Vectorize a corpus: number its words and labels in one pass over the text, count them in a second over the numbers.

The text is read once, so a corpus may come through a pipe. Besides the vocabulary, memory is bounded.
"""

from collections import defaultdict
from itertools import count, islice

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr, stack
from xmlgp.errors import DataFormatError, XmlgpError
from xmlgp.runtime.progress import silent
from xmlgp.text.corpus import read_documents
from xmlgp.text.label_numbers import BadName, LabelNumbers, ordered_labels
from xmlgp.text.spool import Numbered, Spool
from xmlgp.text.vectorizer import Vectorizer, counts
from xmlgp.text.vocabulary import vocabulary

__all__ = ["Vectorized", "vectorize_known", "vectorize_more", "vectorize_new"]

#: Documents and words that are numbered at a time.
DOCUMENTS, WORDS = 4096, 1 << 18


class Vectorized:
    """A corpus whose words and labels are numbers.

    Attributes
    ----------
    vectorizer : Vectorizer
    labels : list of str
        The names of the K labels.
    N : int
        Documents.
    unknown_labels : int
        Labels of documents that are not among `labels`, counted as often as they occur.
    new : tuple of int or None
        How many words and labels were appended to known ones; None if there were none before, or no others are taken.
    without_labels, without_words : int
        Documents that have none of the labels, or none of the words. They are known once `blocks` has ended.
    """

    def __init__(self, vectorizer, labels, spool, words=None, numbers=None, unknown_labels=0, new=None):
        self.vectorizer, self.labels, self.unknown_labels, self.new = vectorizer, labels, unknown_labels, new
        self.without_labels = self.without_words = 0
        self._spool, self._words, self._numbers = spool, words, numbers

    @property
    def N(self):
        """The number of documents."""
        return self._spool.documents

    def blocks(self):
        """Yield the documents as points, a `Dataset` at a time."""
        D, K = len(self.vectorizer.words), len(self.labels)
        self.without_labels = self.without_words = 0
        for block in self._spool:
            words = block.words if self._words is None else self._words[block.words]
            labels = block.labels if self._numbers is None else self._numbers[block.labels]
            counted = counts(labels, block.label_counts, K)
            features = counts(words, block.lengths, D)
            self.without_labels += np.count_nonzero(np.diff(counted.indptr) == 0)
            self.without_words += np.count_nonzero(np.diff(features.indptr) == 0)
            yield Dataset(features, as_csr(None, counted.indices, counted.indptr, K))

    def summary(self):
        """Return what the corpus has, and what some documents lack, in words; known once `blocks` has ended."""
        sizes = (self.N, "document"), (len(self.vectorizer.words), "feature"), (len(self.labels), "label")
        counted = [f"{number} {name}{'s' * (number != 1)}" for number, name in sizes]
        if self.new is not None:
            counted[1:] = [f"{size} ({new or 'none'} new)" for size, new in zip(counted[1:], self.new, strict=True)]
        counts = [", ".join(counted)]
        for number, lacking in (self.without_labels, "labels"), (self.without_words, "words"):
            if number:
                counts.append(f"{number} {'documents have' if number > 1 else 'document has'} no {lacking}")
        if self.unknown_labels:
            counts.append(f"{self.unknown_labels} labels left out because no training document has them")
        return "; ".join(counts)

    def dataset(self):
        """Return all documents as one `Dataset`."""
        empty = np.empty(0, np.int32)
        D, K = len(self.vectorizer.words), len(self.labels)
        none = Dataset(counts(empty, empty, D), as_csr(None, empty, np.zeros(1, np.int32), K))
        return stack([none, *self.blocks()])


def vectorize_new(
    reader, analysis, columns=None, name=None, *, min_count=1, max_features=None, folder=None, progress=silent
):
    """Vectorize a training corpus, whose words and labels become the vocabulary (`Vectorized`).

    Parameters
    ----------
    reader : LineReader
        At the first line.
    analysis : Analysis
    columns : Columns, optional
    name : str, optional
        The format, one of `xmlgp.text.corpus.FORMATS`. By default the file tells.
    min_count : int
        Words that occur less often are left out.
    max_features : int, optional
        At most so many words are kept, those that occur most often.
    folder : path, optional
        Of the temporary file.
    progress : callable
        See `xmlgp.runtime.progress`.

    Raises
    ------
    DataFormatError
        If the corpus is malformed; it names the line.
    XmlgpError
        If it has no documents, no words or no labels.
    """
    words, labels = defaultdict(), LabelNumbers()
    words.default_factory = words.__len__
    occurrences, spool = np.zeros(0, np.int64), Spool(folder)
    documents = read_documents(reader, columns, name)
    for block in _numbered(documents, reader.path, analysis.function(), words, labels, progress):
        occurrences = _add(occurrences, np.bincount(block.words, minlength=len(words)))
        spool.add(block)
    _check_documents(spool, reader.path)
    if not labels.names:
        raise XmlgpError(f"{reader.path}: no document has a label")
    kept, numbers = vocabulary(words, occurrences, min_count, max_features)
    if not kept:
        rarer = f" that occurs at least {min_count} times" if words else ""
        raise XmlgpError(f"{reader.path}: no document has a word{rarer}")
    ordered, label_numbers = ordered_labels(labels.names)
    return Vectorized(Vectorizer(analysis, kept, columns), ordered, spool, numbers, label_numbers)


def vectorize_known(
    reader, vectorizer, labels, columns=None, name=None, *, labelled=True, folder=None, progress=silent
):
    """Vectorize a corpus with the words and labels of another one; others are left out (`Vectorized`).

    Parameters
    ----------
    reader : LineReader
    vectorizer : Vectorizer
    labels : list of str
        The names of the K labels.
    columns : Columns, optional
        By default those of the vectorizer.
    labelled : bool
        Whether documents have labels; otherwise none are read.
    name, folder, progress
        As in `vectorize_new`.

    Raises
    ------
    DataFormatError
        If the corpus is malformed; it names the line.
    """
    known, spool = LabelNumbers(labels), Spool(folder)
    K, unknown = len(labels), 0
    documents = read_documents(reader, columns, name, labelled, vectorizer.columns)
    for block in _numbered(documents, reader.path, vectorizer.analysis.function(), vectorizer.numbers, known, progress):
        new = block.labels >= K
        unknown += np.count_nonzero(new)
        spool.add(block._replace(labels=np.where(new, np.int32(-1), block.labels)))
    return Vectorized(vectorizer, labels, spool, unknown_labels=unknown)


def vectorize_more(reader, vectorizer, labels, columns=None, name=None, *, folder=None, progress=silent):
    """Vectorize a corpus with the words and labels of another one, and append those that it lacks (`Vectorized`).

    Known words and labels keep their numbers. New ones follow, in the order that `vectorize_new` gives them.

    Parameters
    ----------
    reader, vectorizer, labels, columns
        As in `vectorize_known`. The vectorizer of the result has these columns too.
    name, folder, progress
        As in `vectorize_new`.

    Raises
    ------
    DataFormatError
        If the corpus is malformed; it names the line.
    XmlgpError
        If it has no documents. It may lack words and labels, new ones or any.
    """
    D, K = len(vectorizer.words), len(labels)
    words, known, spool = defaultdict(count(D).__next__, vectorizer.numbers), LabelNumbers(labels), Spool(folder)
    documents = read_documents(reader, columns, name, usual=vectorizer.columns)
    for block in _numbered(documents, reader.path, vectorizer.analysis.function(), words, known, progress):
        spool.add(block)
    _check_documents(spool, reader.path)
    new_words, word_numbers = vocabulary(islice(words, D, None), np.ones(len(words) - D))
    new_labels, label_numbers = ordered_labels(known.names[K:])
    longer = Vectorizer(vectorizer.analysis, [*vectorizer.words, *new_words], vectorizer.columns)
    numbers = _appended(D, word_numbers), _appended(K, label_numbers)
    return Vectorized(longer, [*labels, *new_labels], spool, *numbers, new=(len(new_words), len(new_labels)))


def _check_documents(spool, path):
    if not spool.documents:
        raise XmlgpError(f"{path}: there are no documents")


def _appended(known, numbers):
    """Return the numbers of known things, which stay, and those of new things, counted from there; −1 stays too."""
    return np.concatenate([np.arange(known, dtype=np.int32), np.where(numbers < 0, numbers, numbers + known)])


def _numbered(documents, path, analyse, words, labels, progress):
    """Yield blocks of `Numbered` documents; `words` and `labels` are mappings from names to numbers."""
    word_number, label_number = words.__getitem__, labels.__getitem__
    with progress(f"reading {path}", unit=" documents") as bar:
        # Numbers of words and labels, and where those of each document end. Lists take numbers faster than arrays.
        found, given, ends, label_ends = [], [], [], []
        for line, _, text, names in documents:
            found.extend(map(word_number, analyse(text)))
            try:
                given.extend(map(label_number, names))
            except BadName as error:
                raise DataFormatError(path, line, str(error)) from None
            ends.append(len(found))
            label_ends.append(len(given))
            if len(ends) == DOCUMENTS or len(found) >= WORDS:
                yield _finished(found, given, ends, label_ends)
                bar.update(len(ends))
                found, given, ends, label_ends = [], [], [], []
        if ends:
            yield _finished(found, given, ends, label_ends)
            bar.update(len(ends))


def _finished(*lists):
    words, labels, ends, label_ends = (np.fromiter(part, np.int32, len(part)) for part in lists)
    lengths, label_counts = (np.diff(part, prepend=np.int32(0)) for part in (ends, label_ends))
    return Numbered(lengths, label_counts, words, labels)


def _add(total, counts):
    """Return the sum of counts, of which the second may be longer."""
    counts = counts.astype(np.int64, copy=False)
    counts[: len(total)] += total
    return counts
