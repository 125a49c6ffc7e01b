"""Documents become points; those of a training corpus bring their words and labels, which are sorted at the end.

The text is read once, so a corpus may come through a pipe.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from typing import Any, NamedTuple

import numpy as np

from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.runtime.errors import DataFormatError, SettingsError, XmlgpError, up_to_error
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Document
from xmlgp.text.labels import BadName, LabelNumbers, matrix_of_labels
from xmlgp.text.word_counts import WordCounts

__all__ = ["Vectorized", "as_texts", "check_vocabulary", "points_of", "texts_of", "vectorize"]

#: A block ends after this many documents, or at the document that has this many characters.
DOCUMENTS = 4096
CHARACTERS = 1 << 18


class Vectorized(NamedTuple):
    """A corpus whose words and labels are numbers: those of a vectorizer, and of the names `labels`.

    The first numbers are those of earlier documents. If the corpus is for training (`extended`), its own words and
    labels follow, and `new` has how many; otherwise `unknown_labels` counts labels of documents that were left out.
    """

    vectorizer: WordCounts
    labels: list[str]
    new: tuple[int, int]
    unknown_labels: int
    extended: bool
    dataset: Dataset

    def summary(self, with_new: bool = False) -> str:
        """Return a sentence with the sizes of the corpus, `with_new` also how much is new, and what points lack."""
        points = self.dataset
        sizes = [counted(points.N, "document"), counted(points.D, "feature"), counted(points.K, "label")]
        if with_new:
            sizes[1:] = [f"{size} ({new or 'none'} new)" for size, new in zip(sizes[1:], self.new, strict=True)]
        without_words = int(np.count_nonzero(np.diff(points.features.sparse.indptr) == 0))
        without_labels = int(np.count_nonzero(np.diff(points.labels.indptr) == 0))
        sentences = [", ".join(sizes)]
        if without_labels:
            text = f"{counted(without_labels, 'document')} {'have' if without_labels > 1 else 'has'} no labels"
            if self.extended:
                text += " and will train as having none; leave out those whose labels are not known yet"
            sentences.append(text)
        if without_words:
            sentences.append(f"{counted(without_words, 'document')} {'have' if without_words > 1 else 'has'} no words")
        if self.unknown_labels:
            sentences.append(f"{self.unknown_labels} labels left out because no training document has them")
        return "; ".join(sentences)


def vectorize(
    documents: Iterable[Document],
    path: str,
    vectorizer: WordCounts,
    labels: LabelNumbers,
    extend: bool,
    progress: Progress = silent,
) -> Vectorized:
    """Return the documents of a corpus, whose `path` messages name, as numbers.

    New words and labels are left out, or with `extend` sorted and appended; of the words, only those that the
    `Analysis` keeps.
    """
    D, K = vectorizer.D, len(labels.names)
    numbers = array("i")
    lengths = array("i")

    def texts() -> Iterator[str]:
        with progress(f"reading {path}", unit=" documents") as bar:
            for document in documents:
                _number_labels(document, path, labels, numbers)
                lengths.append(len(document.labels))
                yield document.text
                bar.update(1)

    if extend:
        vectorizer, features = vectorizer.extended(texts())
    else:
        features = vectorizer.features(texts())
    names, columns = labels.ordered(extend)
    found, counts = np.frombuffer(numbers, np.int32), np.frombuffer(lengths, np.int32)
    matrix = matrix_of_labels(columns[found], counts, len(names))
    unknown = 0
    if not extend:
        unknown = int(np.count_nonzero(matrix_of_labels(found, counts, len(labels.names)).indices >= K))
    new = vectorizer.D - D, len(names) - K
    return Vectorized(vectorizer, names, new, unknown, extend, Dataset(features, matrix))


def _number_labels(document: Document, path: str, labels: LabelNumbers, numbers: MutableSequence[int]) -> None:
    """Append the numbers of the labels of a document."""
    try:
        numbers.extend(map(labels.__getitem__, document.labels))
    except BadName as error:
        raise DataFormatError(path, document.line, str(error)) from None


def points_of(
    documents: Iterable[Document],
    path: str,
    features: Callable[[Sequence[str]], Features],
    labels: LabelNumbers,
    progress: Progress = silent,
    waits: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[list[Document], Dataset]]:
    """Yield documents, a list at a time, and their points.

    `features` returns the features of texts; `labels` gets the names of new labels, so that later blocks may have more.
    A list also ends where the reader of the documents `waits`, and before a DataFormatError.
    """
    errors: list[DataFormatError] = []
    with progress(f"reading {path}", unit=" documents") as bar:
        for block in _blocks(up_to_error(documents, errors), waits):
            numbers: list[int] = []
            lengths = np.empty(len(block), np.int64)
            for row, document in enumerate(block):
                _number_labels(document, path, labels, numbers)
                lengths[row] = len(document.labels)
            matrix = matrix_of_labels(np.array(numbers, np.int32), lengths, len(labels.names))
            yield block, Dataset(features([document.text for document in block]), matrix)
            bar.update(len(block))
    if errors:
        raise errors[0]


def _blocks(documents: Iterable[Document], waits: Callable[[], bool]) -> Iterator[list[Document]]:
    block: list[Document] = []
    characters = 0
    for document in documents:
        block.append(document)
        characters += len(document.text)
        if len(block) == DOCUMENTS or characters >= CHARACTERS or waits():
            yield block
            block = []
            characters = 0
    if block:
        yield block


def as_texts(X: Any) -> list[str]:
    """Return documents in memory as a list of texts; raise SettingsError if one is not a str."""
    if isinstance(X, str | bytes):
        raise SettingsError("X must be a list of texts, not one text; write it as [text]")
    if not isinstance(X, Iterable) or isinstance(X, Mapping | set | frozenset) or getattr(X, "shape", None) == ():
        # The keys of a mapping are no texts, and a set has no order.
        raise SettingsError(f"X must be a list of texts, not {excerpt(X)}")
    if getattr(getattr(X, "dtype", None), "kind", "O") in "biuf" and len(list(X)):
        raise SettingsError("X has numbers in one dimension. Reshape your data to N×D: X.reshape(1, -1) is one point")
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise SettingsError(f"X must be a list of texts, but X[{i}] is {excerpt(text)}")
    return texts


def texts_of(texts: Iterable[str], vectorizer: WordCounts) -> tuple[WordCounts, Features]:
    """Return the vectorizer with the words of texts added, and the features of texts, N×D.

    SettingsError if there are no words, or a word is not Unicode text.
    """
    longer, features = vectorizer.extended(texts)
    if not longer.words:
        raise SettingsError("no document has a word")
    try:
        "".join(longer.words).encode()
    except UnicodeEncodeError:
        raise SettingsError("a text has half of a surrogate pair, which is no character") from None
    return longer, features


def check_vocabulary(corpus: Vectorized, path: str) -> None:
    """Raise XmlgpError if a training corpus, with the documents before it, lacks documents, labels or words."""
    vectorizer = corpus.vectorizer
    least = vectorizer.analysis.min_count
    word = f"a word that occurs at least {least} times" if least > 1 else "a word"
    for present, reason in (
        (corpus.dataset.N or vectorizer.words, "there are no documents"),
        (corpus.labels, "no document has a label"),
        (vectorizer.words, f"no document has {word}"),
    ):
        if not present:
            raise XmlgpError(f"{path}: {reason}")
