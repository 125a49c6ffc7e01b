"""Vectorize a corpus: one pass over the text numbers words and labels, a second one over the numbers counts them.

The text is read once, so a corpus may come through a pipe. Memory is bounded, apart from the vocabulary.
"""

import contextlib
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from numbers import Number
from typing import NamedTuple

import numpy as np

from xmlgp.data.dataset import Dataset, no_points, stack
from xmlgp.data.features import Dense, Features
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError, up_to_error
from xmlgp.runtime.progress import ignore, silent
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import Vectorizer, counts
from xmlgp.text.corpus import read_documents
from xmlgp.text.documents import NO_OPTIONS, Document
from xmlgp.text.doubtful_texts import note_texts
from xmlgp.text.labels import BadName, LabelNumbers, matrix_of_labels, numbered_in_order
from xmlgp.text.transformer import Transformed, Transformer
from xmlgp.text.written_names import is_missing

__all__ = ["Vectorized", "as_texts", "vectorize", "vectorize_blocks", "vectorize_texts"]

#: A block ends after this many documents, or at the document that has this many words.
DOCUMENTS = 4096
WORDS = 1 << 18

#: Bytes of numbers up to which they stay in memory; more go to a file.
IN_MEMORY = 1 << 24


class _Numbered(NamedTuple):
    """B consecutive documents: how many words and labels each has, and the numbers of these, document after document.

    All are int32. Unknown words and labels are −1.
    """

    lengths: np.ndarray
    label_counts: np.ndarray
    words: np.ndarray
    labels: np.ndarray

    def points(self, D, K):
        """Return the documents as a `Dataset`."""
        return Dataset(
            Features(counts(self.words, self.lengths, D)), matrix_of_labels(self.labels, self.label_counts, K)
        )


class Vectorized:
    """A corpus of N documents whose words and labels are numbers: those of the `vectorizer`, and of the names `labels`.

    `new` has the number of new words and that of new labels; `unknown_labels` counts the unknown labels of documents;
    `without_labels` and `without_words` count documents that have none, once `blocks` has ended; those of training data
    are `extended`.
    """

    def __init__(self, vectorizer):
        self.vectorizer = vectorizer
        self.labels = []
        self.new = (0, 0)
        self.unknown_labels = 0
        self.N = 0
        self.without_labels = self.without_words = 0
        self.extended = False
        #: The errors of malformed documents that the reader keeps, by their places from 0.
        self.errors = {}
        # The column of each number of the first pass; the last entry is for the number −1.
        self._word_columns = self._label_columns = None
        # Deleted when this object or the process ends.
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 it stays open as long as the corpus
        weakref.finalize(self, self._file.close)
        self._sizes = []
        # Embeddings, from which they are mapped into memory.
        self._embeddings = None

    def _add(self, block, embeddings=None):
        with _temporary_folder_named():
            for part in block:
                self._file.write(part.tobytes())
        self._sizes.append([len(part) for part in block])
        self.N += len(block.lengths)
        if embeddings is not None:
            with _temporary_folder_named():
                if self._embeddings is None:
                    self._embeddings = tempfile.TemporaryFile()  # noqa: SIM115 as above
                    weakref.finalize(self, self._embeddings.close)
                self._embeddings.write(embeddings)

    def _dense(self):
        """Return the embeddings of all documents (`Dense`), or None without an encoder."""
        encoder = self.vectorizer.analysis.encoder
        if encoder is None:
            return None
        shape = self.N, encoder.width
        if not self.N:
            return Dense((np.empty(shape, np.float32),))
        with _temporary_folder_named():
            self._embeddings.flush()
        return Dense((np.memmap(self._embeddings, np.float32, "r", shape=shape),))

    def blocks(self):
        """Yield the documents as points, a `Dataset` at a time."""
        first = 0
        dense = self._dense()
        for points in self._sparse_blocks():
            rows = slice(first, first + points.N)
            yield points if dense is None else Dataset(points.features.beside(dense[rows]), points.labels)
            first = rows.stop

    def _sparse_blocks(self):
        self.without_labels = self.without_words = 0
        self._file.seek(0)
        for sizes in self._sizes:
            *lengths, words, labels = (np.frombuffer(self._file.read(4 * size), np.int32) for size in sizes)
            block = _Numbered(*lengths, self._word_columns[words], self._label_columns[labels])
            points = block.points(len(self.vectorizer.words), len(self.labels))
            self.without_labels += np.count_nonzero(np.diff(points.labels.indptr) == 0)
            if self.vectorizer.analysis.analyzer != "none":
                self.without_words += np.count_nonzero(np.diff(points.features.sparse.indptr) == 0)
            yield points

    def dataset(self):
        """Return all documents as one `Dataset`."""
        points = stack([no_points(len(self.vectorizer.words), len(self.labels)), *self._sparse_blocks()])
        dense = self._dense()
        return points if dense is None else Dataset(points.features.beside(dense), points.labels)

    def summary(self, with_new=False):
        """Return a sentence with the sizes of the corpus, `with_new` also how much is new, and what documents lack."""
        sizes = (self.N, "document"), (len(self.vectorizer.words), "feature"), (len(self.labels), "label")
        counted = [f"{number} {name}{'s' * (number != 1)}" for number, name in sizes]
        if with_new:
            counted[1:] = [f"{size} ({new or 'none'} new)" for size, new in zip(counted[1:], self.new, strict=True)]
        parts = [", ".join(counted)]
        for number, lacking in (self.without_labels, "labels"), (self.without_words, "words"):
            if number:
                parts.append(f"{number} {'documents have' if number > 1 else 'document has'} no {lacking}")
                if lacking == "labels" and self.extended:
                    parts[-1] += " and will train as having none; leave out those whose labels are not known yet"
        if self.unknown_labels:
            parts.append(f"{self.unknown_labels} labels left out because no training document has them")
        return "; ".join(parts)


@contextlib.contextmanager
def _temporary_folder_named() -> Iterator[None]:
    """Make errors about temporary files, which have no name, say which folder is full."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename or not tempfile.tempdir:
            raise
        raise OSError(error.errno, error.strerror, tempfile.tempdir) from error


def vectorize(
    reader,
    vectorizer,
    labels=(),
    options=NO_OPTIONS,
    same=None,
    *,
    extend,
    labelled=True,
    cache=False,
    progress=silent,
    note=ignore,
):
    """Return the `Vectorized` corpus of a `LineReader` that is at its first line.

    `vectorizer` has the known words, `labels` known label names; `same` is as for `LabelNumbers`. New words and labels
    are left out, or with `extend` sorted and appended; of the words, only those that its `Analysis` keeps.
    Unless `labelled`, no labels are read. With `cache`, embeddings are stored in the user's cache folder. XmlgpError if
    `extend` finds no words or labels and none are known.
    """
    if isinstance(vectorizer, Transformer):
        if extend:
            advice = "`TextTagger.partial_fit` learns such texts in Python"
            raise SettingsError(f"{reader.path}: a vectorizer of scikit-learn takes no new words; {advice}")
        corpus = Transformed(no_points(len(vectorizer.words), len(labels)))
        for read, points in vectorize_blocks(reader, vectorizer, LabelNumbers(labels, same), options, labelled, note):
            corpus.errors |= _errors(read, corpus.N)
            corpus.add(points)
        return corpus
    documents = read_documents(reader, options, vectorizer.columns, labelled, note)
    if extend:
        documents = note_texts(documents, reader.path, vectorizer.analysis.analyzer, note)
    corpus = _vectorized(documents, reader.path, vectorizer, labels, extend, progress, same, cache)
    min_count = vectorizer.analysis.min_count
    word = f"a word that occurs at least {min_count} times" if min_count > 1 else "a word"
    for present, reason in (
        (corpus.N or vectorizer.words, "there are no documents"),
        (corpus.labels, "no document has a label"),
        (corpus.vectorizer.words or vectorizer.analysis.analyzer == "none", f"no document has {word}"),
    ):
        if extend and not present:
            raise XmlgpError(f"{reader.path}: {reason}")
    if extend:
        _note_case(corpus.labels, len(labels), reader.path, note)
    return corpus


def _note_case(labels, known, path, note):
    """Note the labels after the `known` ones that differ from another one only in case."""
    first = {}
    pairs = []
    for number, label in enumerate(labels):
        other = first.setdefault(label.lower(), label)
        if other != label and number >= known:
            pairs.append((other, label))
    if pairs:
        differ = f"{len(pairs)} labels differ" if len(pairs) > 1 else "1 label differs"
        note(f"{path}: {differ} from another one only in case, such as {' and '.join(map(excerpt, pairs[0]))}")


def as_texts(X):
    """Return documents in memory as a list of texts; raise SettingsError if one is not a str."""
    if isinstance(X, str | bytes):
        raise SettingsError("X must be a list of texts, not one text; write it as [text]")
    if not isinstance(X, Iterable) or isinstance(X, Mapping | set | frozenset) or getattr(X, "shape", None) == ():
        # The keys of a mapping are no texts, and a set has no order.
        raise SettingsError(f"X must be a list of texts, not {excerpt(X)}")
    if getattr(getattr(X, "dtype", None), "kind", "O") in "biuf" and len(X):
        raise SettingsError("X has numbers in one dimension. Reshape your data to N×D: X.reshape(1, -1) is one point")
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            advice = ""
            if is_missing(text):
                advice = "; a missing text is '', such as by X.fillna('')"
            elif isinstance(text, list | tuple | np.ndarray) and any(isinstance(value, Number) for value in text):
                advice = "; features are a matrix, np.array(X)"
            raise SettingsError(f"X must be a list of texts, but X[{i}] is {excerpt(text)}{advice}")
    return texts


def vectorize_texts(texts, vectorizer):
    """Return the vectorizer with the words of texts (iterable of str) added, and the features of texts, N×D float32.

    SettingsError if there are no words, or a word is not Unicode text.
    """
    documents = (Document(0, None, text, []) for text in texts)
    corpus = _vectorized(documents, "texts", vectorizer, (), True, cache=True)
    words = corpus.vectorizer.words
    if not words and vectorizer.analysis.analyzer != "none":
        raise SettingsError("no document has a word")
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        raise SettingsError("a text has half of a surrogate pair, which is no character") from None
    return corpus.vectorizer, corpus.dataset().features


def vectorize_blocks(
    reader, vectorizer, labels, options=NO_OPTIONS, labelled=True, note=ignore, progress=silent, cache=False
):
    """Yield documents, a list at a time, and their points (`Dataset`), without unknown words.

    `labels` (`LabelNumbers`) gets the names of unknown labels, which follow the known ones.
    """
    documents = read_documents(reader, options, vectorizer.columns, labelled, note)
    D = len(vectorizer.words)
    analyser = (vectorizer.analysis, vectorizer.numbers)
    for read, block in _numbered(documents, reader.path, *analyser, labels, progress, reader.waits):
        points = block.points(D, len(labels.names))
        texts = [document.text for document in read]
        if isinstance(vectorizer, Transformer):
            points = Dataset(vectorizer.features(texts), points.labels)
        elif vectorizer.analysis.encoder:
            own = vectorizer.analysis.with_embeddings(points.features.sparse, texts, cache=cache, progress=progress)
            points = Dataset(own, points.labels)
        yield read, points


def _vectorized(documents, path, vectorizer, labels, extend, progress=silent, same=None, cache=False):
    D = len(vectorizer.words)
    K = len(labels)
    encoder = vectorizer.analysis.encoder
    words = defaultdict(count(D).__next__, vectorizer.numbers) if extend else vectorizer.numbers
    label_numbers = LabelNumbers(labels, same)
    occurrences = np.zeros(D, np.int64)
    corpus = Vectorized(vectorizer)
    for read, block in _numbered(documents, path, vectorizer.analysis, words, label_numbers, progress):
        if extend:
            before = occurrences
            occurrences = np.bincount(block.words, minlength=len(words))
            occurrences[: len(before)] += before
        else:
            corpus.unknown_labels += np.count_nonzero(block.labels >= K)
        corpus.errors |= _errors(read, corpus.N)
        corpus._add(block, encoder and encoder.encode([document.text for document in read], cache, progress))
    names = list(words)
    new = _vocabulary(names, D, occurrences, vectorizer.analysis)
    kept, corpus._word_columns = numbered_in_order(names, D, new)
    corpus.labels, corpus._label_columns = label_numbers.ordered(extend)
    if extend:
        corpus.vectorizer = Vectorizer(vectorizer.analysis, kept, vectorizer.columns)
        corpus.extended = True
    corpus.new = len(kept) - D, len(corpus.labels) - K
    return corpus


def _errors(documents, first):
    """Return the errors of malformed documents by their places, which start at `first`."""
    return {place: own.id for place, own in enumerate(documents, first) if isinstance(own.id, DataFormatError)}


def _vocabulary(names, D, occurrences, analysis):
    """Return the numbers, D or more, of the new words to keep, sorted by the words."""
    kept = np.flatnonzero(occurrences >= analysis.min_count)
    kept = sorted(kept[kept >= D].tolist(), key=names.__getitem__)
    most = len(kept) if analysis.max_features is None else max(0, analysis.max_features - D)
    if len(kept) > most:
        # The sort is stable, so of equally frequent words the first in order are kept.
        frequent = np.argsort(-occurrences[kept], kind="stable")[:most]
        kept = [kept[i] for i in np.sort(frequent).tolist()]
    return kept


def _numbered(documents, path, analysis, words, labels, progress=silent, waits=lambda: False):
    """Yield lists of documents, each with its `_Numbered`; `words` and `labels` map names to numbers.

    A list also ends where the reader of the documents `waits`, and before a DataFormatError.
    """
    errors = []
    analyse = analysis.function()
    word_number = words.__getitem__
    label_number = labels.__getitem__
    with progress(f"reading {path}", unit=" documents") as bar:
        # Numbers of words and labels, and where those of each document end. Lists are faster to extend than arrays.
        block = []
        word_numbers = []
        label_numbers = []
        ends = []
        label_ends = []
        for document in up_to_error(documents, errors):
            word_numbers.extend(map(word_number, analyse(document.text)))
            try:
                label_numbers.extend(map(label_number, document.labels))
            except BadName as error:
                raise DataFormatError(path, document.line, str(error)) from None
            block.append(document)
            ends.append(len(word_numbers))
            label_ends.append(len(label_numbers))
            if len(block) == DOCUMENTS or len(word_numbers) >= WORDS or waits():
                yield block, _as_arrays(word_numbers, label_numbers, ends, label_ends)
                bar.update(len(block))
                block = []
                word_numbers = []
                label_numbers = []
                ends = []
                label_ends = []
        if block:
            yield block, _as_arrays(word_numbers, label_numbers, ends, label_ends)
            bar.update(len(block))
    if errors:
        raise errors[0]


def _as_arrays(*lists):
    words, labels, ends, label_ends = (np.fromiter(part, np.int32, len(part)) for part in lists)
    lengths, label_counts = (np.diff(part, prepend=np.int32(0)) for part in (ends, label_ends))
    return _Numbered(lengths, label_counts, words, labels)
