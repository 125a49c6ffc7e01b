"""Vectorize a corpus: number its words and labels in one pass over the text, count them in a second over the numbers.

The text is read once, so a corpus may come through a pipe. Besides the vocabulary, memory is bounded.
"""

from collections import defaultdict
from itertools import count, islice

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr, no_points, stack
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.runtime.progress import silent
from xmlgp.text.corpus import read_documents
from xmlgp.text.documents import NO_OPTIONS, Document
from xmlgp.text.label_numbers import BadName, LabelNumbers, ordered_labels
from xmlgp.text.spool import Numbered, Spool
from xmlgp.text.vectorizer import Vectorizer, counts

__all__ = ["Vectorized", "vectorize", "vectorize_blocks", "vectorize_texts"]

#: Documents and words that are numbered at a time.
DOCUMENTS, WORDS = 4096, 1 << 18


class Vectorized:
    """A corpus whose words and labels are numbers.

    Attributes
    ----------
    vectorizer : Vectorizer
    labels : list of str
        The names of the K labels.
    new : tuple of int
        How many words and labels were appended to known ones.
    unknown_labels : int
        Labels of documents that are not among `labels`, counted as often as they occur.
    without_labels, without_words : int
        Documents that have none of the labels, or none of the words; complete once `blocks` has ended.
    """

    def __init__(self, vectorizer, labels, spool, numbers=(None, None), new=(0, 0), unknown_labels=0):
        self.vectorizer, self.labels, self.new, self.unknown_labels = vectorizer, labels, new, unknown_labels
        self.without_labels = self.without_words = 0
        self._spool, (self._words, self._labels) = spool, numbers

    @property
    def N(self):
        """The number of documents."""
        return self._spool.documents

    def blocks(self):
        """Yield the documents as points, a `Dataset` at a time."""
        self.without_labels = self.without_words = 0
        for block in self._spool:
            if self._words is not None:
                block = block._replace(words=self._words[block.words], labels=self._labels[block.labels])
            points = _points(block, len(self.vectorizer.words), len(self.labels))
            self.without_labels += np.count_nonzero(np.diff(points.labels.indptr) == 0)
            self.without_words += np.count_nonzero(np.diff(points.features.indptr) == 0)
            yield points

    def dataset(self):
        """Return all documents as one `Dataset`."""
        return stack([no_points(len(self.vectorizer.words), len(self.labels)), *self.blocks()])

    def summary(self, more=False):
        """Return what the corpus has, with `more` also how much is new, and what some documents lack, in words.

        It is known once `blocks` has ended.
        """
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


def vectorize(
    reader,
    vectorizer,
    labels=(),
    options=NO_OPTIONS,
    *,
    extend,
    labelled=True,
    min_count=1,
    max_features=None,
    progress=silent,
):
    """Vectorize a corpus (`Vectorized`), for which it is read to its end.

    Parameters
    ----------
    reader : LineReader
        At the first line.
    vectorizer : Vectorizer
        Has the known words, which may be none, and the usual columns of the corpus.
    labels : list of str
        The names of the known labels.
    options : CorpusOptions
    extend : bool
        Whether other words and labels are appended to the known ones, each kind in order; otherwise they are left out.
    labelled : bool
        Whether documents have labels; otherwise none are read.
    min_count : int
        New words that occur less often are left out.
    max_features : int, optional
        At most so many new words are kept, those that occur most often.
    progress : callable
        See `xmlgp.runtime.progress`.

    Raises
    ------
    DataFormatError
        If the corpus is malformed; it names the line.
    XmlgpError
        If there are no documents, no words or no labels, but `extend`.
    """
    documents = read_documents(reader, options, vectorizer.columns, labelled)
    if not extend:
        return _with_known(documents, reader.path, vectorizer, labels, progress)
    found = _with_new(documents, reader.path, vectorizer, labels, min_count, max_features, progress)
    if not found.N:
        raise XmlgpError(f"{reader.path}: there are no documents")
    if not found.labels:
        raise XmlgpError(f"{reader.path}: no document has a label")
    if not found.vectorizer.words:
        rarer = f" that occurs at least {min_count} times" if min_count > 1 else ""
        raise XmlgpError(f"{reader.path}: no document has a word{rarer}")
    return found


def vectorize_texts(texts, vectorizer):
    """Return a vectorizer with the new words of texts (iterable of str) too, and their features, N×D in float32.

    Raises
    ------
    SettingsError
        If there are no words, or a word is not Unicode text.
    """
    found = _with_new((Document(0, None, text, []) for text in texts), "texts", vectorizer, ())
    words = found.vectorizer.words
    if not words:
        raise SettingsError("no document has a word")
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        raise SettingsError("a text has half of a surrogate pair, which is no character") from None
    return found.vectorizer, found.dataset().features


def vectorize_blocks(reader, vectorizer, labels=(), options=NO_OPTIONS, labelled=True):
    """Yield documents, a list at a time, and their points (`Dataset`); other words and labels are left out.

    The arguments are those of `vectorize`.
    """
    documents = read_documents(reader, options, vectorizer.columns, labelled)
    K = len(labels)
    for read, block in _numbered(documents, reader.path, vectorizer.analysis, vectorizer.numbers, LabelNumbers(labels)):
        yield read, _points(_known_labels(block, K), len(vectorizer.words), K)


def _with_known(documents, path, vectorizer, labels, progress):
    known, spool, unknown = LabelNumbers(labels), Spool(), 0
    for _, block in _numbered(documents, path, vectorizer.analysis, vectorizer.numbers, known, progress):
        unknown += np.count_nonzero(block.labels >= len(labels))
        spool.add(_known_labels(block, len(labels)))
    return Vectorized(vectorizer, labels, spool, unknown_labels=unknown)


def _known_labels(block, K):
    return block._replace(labels=np.where(block.labels < K, block.labels, np.int32(-1)))


def _with_new(documents, path, vectorizer, labels, min_count=1, max_features=None, progress=silent):
    D, K = len(vectorizer.words), len(labels)
    words, known, spool = defaultdict(count(D).__next__, vectorizer.numbers), LabelNumbers(labels), Spool()
    occurrences = np.zeros(D, np.int64)
    for _, block in _numbered(documents, path, vectorizer.analysis, words, known, progress):
        found = np.bincount(block.words, minlength=len(words))
        found[: len(occurrences)] += occurrences
        occurrences = found
        spool.add(block)
    new_words, word_numbers = _vocabulary(list(islice(words, D, None)), occurrences[D:], min_count, max_features)
    new_labels, label_numbers = ordered_labels(known.names[K:])
    longer = Vectorizer(vectorizer.analysis, [*vectorizer.words, *new_words], vectorizer.columns)
    numbers = _appended(D, word_numbers), _appended(K, label_numbers)
    return Vectorized(longer, [*labels, *new_labels], spool, numbers, (len(new_words), len(new_labels)))


def _vocabulary(names, occurrences, min_count, max_features):
    """Return the words that are kept, in order of their characters, and the number of each name, −1 if it is not."""
    kept = sorted(np.flatnonzero(occurrences >= min_count).tolist(), key=names.__getitem__)
    if max_features is not None and len(kept) > max_features:
        # Of equally frequent words the first.
        most = np.argsort(-occurrences[kept], kind="stable")[:max_features]
        kept = [kept[place] for place in np.sort(most).tolist()]
    numbers = np.full(len(names), -1, np.int32)
    numbers[kept] = np.arange(len(kept))
    return [names[number] for number in kept], numbers


def _appended(known, numbers):
    """Return the numbers of known things, which stay, and those of new things, counted from there; −1 stays too."""
    return np.concatenate([np.arange(known, dtype=np.int32), np.where(numbers < 0, numbers, numbers + known)])


def _numbered(documents, path, analysis, words, labels, progress=silent):
    """Yield documents, a list at a time, `Numbered`; `words` and `labels` are mappings from names to numbers."""
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
    return Numbered(lengths, label_counts, words, labels)


def _points(block, D, K):
    """Return the points of `Numbered` documents (`Dataset`)."""
    labels = counts(block.labels, block.label_counts, K)
    return Dataset(counts(block.words, block.lengths, D), as_csr(None, labels.indices, labels.indptr, K))
