"""A corpus of text in an open file, table or folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from scipy.sparse import csr_array

from xmlgp.api.points import Block, Identifier, PointStream
from xmlgp.api.training_data import Known, TrainingData
from xmlgp.data.dataset import Dataset, no_points, stack, widened
from xmlgp.data.dense_files import DenseRows
from xmlgp.data.formats import REPOSITORY
from xmlgp.runtime.errors import DataFormatError, SettingsError
from xmlgp.runtime.progress import Reporter
from xmlgp.text.analysis import Analysis, checked_analysis
from xmlgp.text.corpus import Reader, format_of_corpus, read_documents
from xmlgp.text.documents import Columns, CorpusOptions, Document
from xmlgp.text.labels import BadName, LabelNumbers, matrix_of_labels, note_alike
from xmlgp.text.names import Names
from xmlgp.text.vectorize import check_vocabulary, points_of, vectorize
from xmlgp.text.word_counts import WordCounts

__all__ = ["Corpus"]


class Corpus:
    """An open corpus; each method reads its documents, and raises DataFormatError if one is malformed."""

    def __init__(self, reader: Reader, options: CorpusOptions, reporter: Reporter) -> None:
        self.reader = reader
        self._options = options
        self._reporter = reporter
        self.path = reader.path

    def training(self, analysis: Analysis | None, same: Mapping[str, str] | None) -> TrainingData:
        """Return the documents as points for a new model; labels that are the `same` are one, as for `LabelNumbers`."""
        analysis = checked_analysis(analysis, True, self.path)
        return self._learned(WordCounts(analysis, [], self._options.columns()), LabelNumbers((), same), more=False)

    def more(self, known: Known) -> TrainingData:
        """Return the documents for a model to learn; new words and labels follow those of the model."""
        vectorizer = self._vectorizer(known)
        return self._learned(vectorizer, LabelNumbers(known.names.labels or (), known.names.same), more=True)

    def _learned(self, vectorizer: WordCounts, labels: LabelNumbers, more: bool) -> TrainingData:
        earlier_label_count = len(labels.names)
        documents = self._documents(vectorizer.columns)
        corpus = vectorize(documents, self.path, vectorizer, labels, True, self._reporter.progress)
        check_vocabulary(corpus, self.path)
        note_alike(corpus.labels, earlier_label_count, self.path, self._reporter.note)
        dataset = corpus.dataset
        self._reporter.note(f"{self.path}: {corpus.summary(more)}")
        return TrainingData(dataset, REPOSITORY, Names(corpus.labels, corpus.vectorizer.words, corpus.vectorizer))

    def known(self, known: Known) -> TrainingData:
        """Return the documents for a model that does not change; labels unknown to it follow its own, with names."""
        stream = self.stream(known, True, None)
        D = known.D
        blocks = [no_points(D, stream.K), *(block.points for block in stream.blocks())]
        K = len(stream.labels or ())
        dataset = stack([Dataset(block.features, widened(block.labels, K)) for block in blocks])
        return TrainingData(dataset, REPOSITORY, known.names._replace(labels=stream.labels))

    def stream(self, known: Known, labelled: bool, beside: DenseRows | None) -> PointStream:
        """Return the documents to be scored; their labels are not read unless they are `labelled`."""
        vectorizer = self._vectorizer(known)
        first_line = self.reader.peek_line()
        format = format_of_corpus(self.path, first_line, self._options, vectorizer.columns) if first_line else None
        if not labelled and not self._options.format and format == "annif":
            text = "taking what follows a tab as labels; --corpus-format lines takes it as text"
            self._reporter.note(f"{self.path}: {text}")
        labels = LabelNumbers(known.names.labels or (), known.names.same) if labelled else LabelNumbers()
        documents = read_documents(self.reader, self._options, vectorizer.columns, labelled, self._reporter.note)
        read = points_of(documents, self.path, vectorizer.features, labels, self._reporter.progress, self.reader.waits)

        def blocks() -> Iterator[Block]:
            first = 1
            for block, points in read:
                yield Block(first, points, [document.text for document in block], [document.id for document in block])
                first += points.N

        return PointStream(
            (None, vectorizer.D, len(labels.names)),
            blocks(),
            labels=labels.names,
            beside=beside,
            waits=self.reader.waits,
            is_text=True,
        )

    def labels(self, columns: Columns | None) -> tuple[csr_array, list[str], list[Identifier | None], list[int]]:
        """Return Y, N×K, the names of labels in order, and the identifiers and lines of documents, without texts."""
        label_numbers = LabelNumbers()
        numbers: list[int] = []
        lengths = []
        ids = []
        lines = []
        with self._reporter.progress(f"reading {self.path}", unit=" documents") as bar:
            for document in self._documents(columns, with_texts=False):
                try:
                    numbers.extend(map(label_numbers.__getitem__, document.labels))
                except BadName as error:
                    raise DataFormatError(self.path, document.line, str(error)) from None
                lengths.append(len(document.labels))
                ids.append(document.id)
                lines.append(document.line)
                bar.update(1)
        # Labels were numbered as they occurred; columns are in the order of names.
        names, positions = label_numbers.ordered()
        columns_of_labels = positions[np.array(numbers, np.int32)]
        return matrix_of_labels(columns_of_labels, np.array(lengths, np.int64), len(names)), names, ids, lines

    def _documents(self, columns: Columns | None, with_texts: bool = True) -> Iterator[Document]:
        return read_documents(self.reader, self._options, columns, True, self._reporter.note, with_texts)

    def _vectorizer(self, known: Known) -> WordCounts:
        """Return the vectorizer of a model; SettingsError if it was not trained on text."""
        if known.names.vectorizer is None:
            raise SettingsError(f"{self.path} is text, but the model was not trained on text")
        return known.names.vectorizer
