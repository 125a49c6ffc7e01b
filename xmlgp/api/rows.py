"""A file of rows of numbers, perhaps with names beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from xmlgp.api.memory import check_columns
from xmlgp.api.points import Block, LabelledPoints, PointStream, Signature, TrainingData
from xmlgp.data.dataset import Dataset
from xmlgp.data.formats import MULTILABEL, REPOSITORY, fit_to_model, is_libsvm, read_blocks, read_rows
from xmlgp.data.lines import LineReader
from xmlgp.runtime.errors import SettingsError, XmlgpError
from xmlgp.runtime.progress import Reporter
from xmlgp.text.documents import Columns
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER, Names, read_names

__all__ = ["RowsFile"]


class RowsFile:
    """Rows of numbers in an open file; every method reads it, and raises DataFormatError if it is malformed."""

    columns: Columns | None = None

    def __init__(self, lines: LineReader, reporter: Reporter) -> None:
        self.lines = lines
        self._note = reporter.note
        self.path = lines.path
        self._folder = Path(os.path.dirname(self.path))

    def read(self, model: Signature) -> TrainingData:
        """Return the points to train on, with the names beside the file, as many as a trained model has kinds of them.

        SettingsError if names are missing or others than those of the model.
        """
        self._check_first_feature(model)
        dataset, data_format = read_rows(self.lines, model.K > 1 if model.K else None, self._note, model.first_feature)
        if model.K and data_format != REPOSITORY:  # which alone declares its sizes
            dataset = fit_to_model(dataset, max(model.D, dataset.D), model.K, self.path)
        beside = self._names_beside(dataset.D, dataset.K)
        if not model.K:
            return TrainingData(dataset, data_format, beside)
        self._check_names(beside, model.names)
        vectorizer = model.names.vectorizer
        if vectorizer and dataset.D > model.D:
            reason = f"the points have {dataset.D} features, but the model has {model.D} words"
            raise SettingsError(f"{self.path}: {reason}; it learns new words from text")
        features = self._more_names(FEATURES, model.names.features, beside.features, dataset.D)
        labels = self._more_names(LABELS, model.names.labels, beside.labels, dataset.K)
        return TrainingData(dataset, data_format, Names(labels, features, vectorizer))

    def stream(self, model: Signature, labelled: bool) -> PointStream:
        """Return the points to be scored; names beside them that are not those of the model are a SettingsError."""
        if not labelled:
            self.lines.answer_at_once()
        self._check_first_feature(model)
        header, blocks = read_blocks(self.lines, model.D, model.K, labelled, self._note, model.first_feature)
        self._check_names(self._names_beside(header.D, header.K), model.names)
        return PointStream(header, _numbered(blocks), waits=self.lines.waits)

    def labels(self, multilabel: bool | None) -> LabelledPoints:
        """Return the labels of the points; `multilabel` is that of `read_rows`."""
        # How the features are numbered does not matter here.
        dataset, data_format = read_rows(self.lines, multilabel)
        beside = self._names_beside(None, dataset.K)
        return LabelledPoints(dataset.labels, beside.labels, None, dataset.D, data_format == MULTILABEL)

    def _check_first_feature(self, model: Signature) -> None:
        """Raise SettingsError if features of the file may have other numbers than those of a trained model."""
        if model.K < 2:
            return
        declared = not is_libsvm(self.lines.peek_line())
        if declared and model.first_feature == 1:
            raise SettingsError(
                f"{self.path}: after a first line `N D K` features count from 0, but those of the training data from "
                "1; give rows without it, or train on rows with such a line"
            )
        if not declared and model.first_feature is None:
            reason = f"{model.title} does not say whether its features count from 0 or from 1"
            raise SettingsError(f"{self.path}: {reason}; give rows with a first line `N D K`, which count from 0")

    def _names_beside(self, D: int | None, K: int) -> Names:
        """Return the `Names` beside the points, those of labels only if D is None."""
        if self.path == "-" or not os.path.isfile(self.path):
            return Names()
        try:
            return read_names(self._folder, D, K)
        except XmlgpError as error:
            # Without a vectorizer, files of these names may be something else.
            if (self._folder / VECTORIZER).is_file():
                raise
            self._note(f"names are not used: {error}")
            return Names()

    def _check_names(self, beside: Names, model: Names) -> None:
        """Raise SettingsError if names beside the points are others than those of a model in the same place."""
        check_columns("feature", beside.features, model.features, f"{self._folder / FEATURES}: number")
        check_columns("label", beside.labels, model.labels, f"{self._folder / LABELS}: number")

    def _more_names(self, name: str, known: list[str] | None, beside: list[str] | None, count: int) -> list[str] | None:
        """Return `count` names, first those of the model; the file called `name` has those `beside` the points."""
        if known is None or (beside is None and count <= len(known)):
            return known
        if beside is None:
            reason = f"the points have {count}, but the model has names for {len(known)}"
            raise SettingsError(f"{self.path}: {reason}; those of all must be in {name} beside the file")
        return beside


def _numbered(blocks: Iterable[Dataset]) -> Iterator[Block]:
    """Yield blocks of points, identified by their numbers."""
    first = 1
    for points in blocks:
        yield Block(points, range(first, first + points.N))
        first += points.N
