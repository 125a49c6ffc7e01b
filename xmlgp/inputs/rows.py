"""A file of rows of numbers, perhaps with names beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from scipy.sparse import csr_array

from xmlgp.data import formats
from xmlgp.data.dataset import check_sizes
from xmlgp.data.dense_files import DenseRows
from xmlgp.data.formats import LIBSVM, MULTILABEL, fitted, read_blocks, read_rows
from xmlgp.data.lines import LineReader
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.inputs.points import PointStream, RowStream
from xmlgp.inputs.training_data import Known, TrainingData
from xmlgp.runtime.progress import Reporter
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import Analysis, checked_analysis
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER, Names, names_file, read_names
from xmlgp.text.word_counts import WordCounts

__all__ = ["RowsFile"]


class RowsFile:
    """Rows of numbers in an open file; every method reads it, and raises DataFormatError if it is malformed."""

    def __init__(self, reader: LineReader, cache: bool, reporter: Reporter) -> None:
        self.reader = reader
        self._cache = cache
        self._progress, self._note = reporter
        self.path = reader.path

    def training(self, analysis: Analysis | None, same: Mapping[str, str] | None) -> TrainingData:
        """Return the points for a new model, with the names beside the file."""
        checked_analysis(analysis, False, self.path)
        dataset, data_format = read_rows(self.reader, self._cache, self._progress, note=self._note)
        return TrainingData(dataset, data_format, _names_beside(self.path, dataset.D, dataset.K, self._note))

    def more(self, known: Known) -> TrainingData:
        """Return the points for a model to learn, with as many names as the model has kinds of them.

        SettingsError if the points have fewer features or labels than the model, or if names are missing or others than
        those of the model.
        """
        names = known.names
        dataset, data_format = read_rows(self.reader, self._cache, self._progress, known.K > 1, self._note)
        if data_format in (LIBSVM, MULTILABEL):  # which do not declare their sizes
            dataset = fitted(dataset, max(known.D, dataset.D), known.K, self.path)
        check_sizes(dataset, known.D, known.K, self.path)
        beside = _names_beside(self.path, dataset.D, dataset.K, self._note)
        features = self._more_names("feature", FEATURES, names.features, beside.features, dataset.D)
        labels = self._more_names("label", LABELS, names.labels, beside.labels, dataset.K)
        vectorizer = names.vectorizer
        if vectorizer and dataset.D > known.D:
            vectorizer = self._with_words(vectorizer, features, known.D)
        return TrainingData(dataset, data_format, Names(labels, features, vectorizer))

    def known(self, known: Known) -> TrainingData:
        """Return the points for a model that does not change."""
        dataset, data_format = read_rows(self.reader, self._cache, self._progress, known.K > 1, self._note)
        if data_format == MULTILABEL:
            dataset = fitted(dataset, known.D, known.K, self.path, self._note)
        return TrainingData(dataset, data_format, known.names)

    def stream(self, known: Known, labelled: bool, beside: DenseRows | None) -> PointStream:
        """Return the points to be scored; rows of another number than the `DenseRows` get their error at once."""
        header, blocks = read_blocks(self.reader, known.D, known.K, labelled, self._note)
        stream = RowStream((header.N, header.D, header.K), blocks, self.reader, beside)
        stream.count()
        return stream

    def labels(self, named: bool, several: bool | None) -> tuple[csr_array, list[str] | None, int, bool]:
        """Return Y, N×K, the names of labels if they are wanted, D, and whether there may be more labels than K."""
        matrix, D, is_open = formats.read_labels(self.reader, self._cache, self._progress, several, self._note)
        names = _names_beside(self.path, None, matrix.shape[1], self._note).labels if named else None
        return matrix, names, D, is_open

    def _with_words(self, vectorizer: WordCounts, words: list[str] | None, D: int) -> WordCounts | None:
        """Return a vectorizer with more words; None if they are not known.

        Raise SettingsError if a word after the first D ones occurs before: text could not be counted.
        """
        if words is None:
            return None
        earlier = set(words[:D])
        for number, word in enumerate(words[D:], D):
            if word in earlier:
                where = f"{names_file(os.path.dirname(self.path), FEATURES)}:{number + 1}"
                raise SettingsError(f"{where}: feature {number} is {excerpt(word)}, as an earlier one is")
            earlier.add(word)
        return WordCounts(vectorizer.analysis, words, vectorizer.columns)

    def _more_names(
        self, kind: str, name: str, known: list[str] | None, beside: list[str] | None, count: int
    ) -> list[str] | None:
        """Return the names of features or labels (`kind`) of more points, the first of which are those of the model.

        `known` are the names in the model, `beside` those in the file `name` beside the points, which have `count` of
        the kind.
        """
        file = str(names_file(os.path.dirname(self.path), name))
        if known is None:
            if beside is not None:
                self._note(f"{file} is not used: the model has no names of {kind}s")
            return None
        if beside is None:
            if count == len(known):
                return known
            in_file = _is_file(self.path)
            where = f"must be in {file}" if in_file else f"must be in {name} beside a file, which a pipe lacks"
            raise SettingsError(
                f"{self.path}: the points have {count} {kind}s, but the model has names for {len(known)}; those of all "
                f"{where}"
            )
        for number, (new, old) in enumerate(zip(beside, known, strict=False)):
            if new != old:
                raise SettingsError(
                    f"{file}:{number + 1}: names that clash: {kind} {number} is {excerpt(new)}, but the model calls it "
                    f"{excerpt(old)}"
                )
        return beside


def _is_file(path: str) -> bool:
    return path != "-" and os.path.isfile(path)


def _names_beside(path: str, D: int | None, K: int, note: Callable[[str], object]) -> Names:
    """Return the `Names` beside points, those of labels only if D is None."""
    if not _is_file(path):
        return Names()
    folder = os.path.dirname(path) or os.curdir
    try:
        return read_names(folder, D, K)
    except XmlgpError as error:
        # Without a vectorizer, files of these names may be something else.
        if os.path.isfile(os.path.join(folder, VECTORIZER)):
            raise
        if isinstance(error, DataFormatError) and error.path == str(names_file(folder, FEATURES)):
            note(f"names of features are not used: {error}")
            return read_names(folder, None, K)
        note(f"names are not used: {error}")
        return Names()
