"""A corpus of text in an open file, table or folder: its documents become points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from scipy.sparse import csr_array

from xmlgp.api.points import Block, LabelledPoints, PointStream, Signature, TrainingData, never
from xmlgp.data.dataset import Dataset
from xmlgp.data.formats import REPOSITORY
from xmlgp.data.lines import LineReader
from xmlgp.runtime.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Reporter
from xmlgp.text.corpus import read_documents
from xmlgp.text.documents import PAGE, Columns, CorpusOptions, Document
from xmlgp.text.labels import BadName, LabelNumbers, LabelRows, note_alike
from xmlgp.text.names import Names
from xmlgp.text.word_counts import WordCounts

__all__ = ["NO_LABELS", "Corpus", "lacking"]

#: What documents lack in a corpus to train on, and what leaves them out.
NO_LABELS = f"labels and will train as having none; {PAGE} leaves out those whose labels are not known yet"

#: A block ends after this many documents, or at the document that has this many characters.
DOCUMENTS = 4096
CHARACTERS = 1 << 18


class Corpus:
    """An open corpus; each method reads its documents once, and raises DataFormatError if one is malformed."""

    def __init__(self, path: str, lines: LineReader | None, options: CorpusOptions, reporter: Reporter) -> None:
        self.path = path
        self.lines = lines
        self.columns: Columns | None = options.columns()
        self._waits = lines.waits if lines else never
        self._options = options
        self._reporter = reporter
        self._groups: list[int] = []

    def read(self, model: Signature) -> TrainingData:
        """Return the documents as points to train on; their new words and labels follow those of the model.

        XmlgpError if there are no documents, labels or words.
        """
        earlier = self._vectorizer(model)
        rows = LabelRows(model.label_numbers)
        documents = self._with_labels(self._documents(earlier.columns), rows)
        vectorizer, features = earlier.extended(document.text for document in documents)
        labels, matrix = rows.ordered()
        points = Dataset(features, matrix, groups=np.array(self._groups) if any(self._groups) else None)
        least = vectorizer.analysis.min_count
        word = f"a word that occurs at least {least} times" if least > 1 else "a word"
        for present, reason in (
            (points.N or vectorizer.words, "there are no documents"),
            (labels, "no document has a label"),
            (vectorizer.words, f"no document has {word}"),
        ):
            if not present:
                raise XmlgpError(f"{self.path}: {reason}")
        note_alike(labels, len(model.names.labels or ()), self.path, self._reporter.note)
        self._reporter.note(f"{self.path}: {_summary(points, model)}")
        return TrainingData(points, REPOSITORY, Names(labels, vectorizer.words, vectorizer))

    def stream(self, model: Signature, labelled: bool) -> PointStream:
        """Return the documents to be scored; their labels are not read unless they are `labelled`.

        Words that the model does not have are left out; the names of labels that it does not have follow its own.
        """
        vectorizer = self._vectorizer(model)
        if self.lines and not labelled:
            self.lines.answer_at_once()
        labels = model.label_numbers if labelled else LabelNumbers()
        documents = self._documents(vectorizer.columns, labelled)
        return PointStream(
            (None, vectorizer.D, len(labels.names)),
            self._blocks(documents, vectorizer, labels),
            labels=labels.names,
            waits=self._waits,
            is_text=True,
        )

    def _blocks(self, documents: Iterator[Document], vectorizer: WordCounts, labels: LabelNumbers) -> Iterator[Block]:
        """Yield documents as points; a block also ends where the reader waits."""
        rows = LabelRows(labels)
        first = 1
        for block in _cut(self._with_labels(documents, rows), self._waits):
            texts = [document.text for document in block]
            points = Dataset(vectorizer.features(texts), rows.take())
            ids = [number if document.id is None else document.id for number, document in enumerate(block, first)]
            yield Block(points, ids, texts)
            first += points.N

    def labels(self, columns: Columns | None, with_texts: bool = False) -> LabelledPoints:
        """Return the labels of the documents; names are in order. Unless `with_texts`, texts may be missing."""
        rows = LabelRows(LabelNumbers())
        documents = self._with_labels(self._documents(columns, with_texts=with_texts), rows)
        found = [(document.id, document.line) for document in documents]
        names, matrix = rows.ordered()
        lines = [line for _, line in found]
        return LabelledPoints(matrix, names, [id for id, _ in found], lines=lines, groups=self._groups)

    def _documents(self, columns: Columns | None, labelled: bool = True, with_texts: bool = True) -> Iterator[Document]:
        return read_documents(self.path, self.lines, self._options, columns, labelled, self._reporter.note, with_texts)

    def _with_labels(self, documents: Iterable[Document], rows: LabelRows) -> Iterator[Document]:
        """Yield documents, each of which adds its labels to rows, and its group."""
        for document in documents:
            try:
                rows.add(document.labels)
            except BadName as error:
                raise DataFormatError(self.path, document.line, str(error)) from None
            self._groups.append(document.group)
            yield document

    def _vectorizer(self, model: Signature) -> WordCounts:
        """Return the vectorizer of a model; SettingsError if it was not trained on text."""
        if model.names.vectorizer is None:
            raise SettingsError(f"{self.path} is text, but the model was not trained on text")
        return model.names.vectorizer


def _cut(documents: Iterable[Document], waits: Callable[[], bool]) -> Iterator[list[Document]]:
    """Yield documents in lists."""
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


def lacking(matrix: csr_array, what: str) -> str:
    """Return in words how many documents lack what they have in a matrix, such as `NO_LABELS`; empty if none does."""
    without = int(np.count_nonzero(np.diff(matrix.indptr) == 0))
    return f"{counted(without, 'document has', 'documents have')} no {what}" if without else ""


def _summary(points: Dataset, model: Signature) -> str:
    """Return a sentence with the sizes of a corpus, how much is new to a trained model, and what documents lack."""
    new = [f" ({count or 'none'} new)" if model.K else "" for count in (points.D - model.D, points.K - model.K)]
    sizes = [counted(points.N, "document"), counted(points.D, "feature") + new[0], counted(points.K, "label") + new[1]]
    sentences = [", ".join(sizes), lacking(points.labels, NO_LABELS), lacking(points.features.sparse, "words")]
    return "; ".join(filter(None, sentences))
