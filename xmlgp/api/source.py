"""The one way in: points as a user gives them, whatever they are, and what they become for a model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from xmlgp.api.corpus import Corpus
from xmlgp.api.kinds import FilePath, Matrix, check_exists, is_path, title_of
from xmlgp.api.memory import InMemory
from xmlgp.api.points import PointStream
from xmlgp.api.rows import RowsFile
from xmlgp.api.training_data import Known, TrainingData
from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import DenseRows, read_dense
from xmlgp.data.label_pairs import pairs_beside
from xmlgp.data.lines import LineReader
from xmlgp.data.locate import locate, splits_beside
from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.text.analysis import Analysis
from xmlgp.text.corpus import has_corpus_ending, is_corpus, open_corpus
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.names import Names

__all__ = ["DenseFeatures", "Labels", "Points", "Source", "check_width"]

#: Points: a file or folder as for the command line, features (N×D), texts, or a data set, perhaps with names.
Points: TypeAlias = "FilePath | Matrix | Sequence[str] | Dataset | TrainingData"

#: Labels of points that are no file: N×K, nonzero where a point has a label, or the names of the labels of each point.
Labels: TypeAlias = "Matrix | Sequence[Sequence[str]]"

#: Dense features of points beside their other ones: a .npy file or an array N×E.
DenseFeatures: TypeAlias = "FilePath | Matrix"


class Opened(Protocol):
    """Points that are open: rows of numbers, a corpus, or what is in memory. Call one of the methods: it reads them."""

    def training(self, analysis: Analysis | None, same: Mapping[str, str] | None) -> TrainingData:
        """Return the points for a new model."""

    def more(self, known: Known) -> TrainingData:
        """Return the points for a model to learn."""

    def known(self, known: Known) -> TrainingData:
        """Return the points for a model that does not change."""

    def stream(self, known: Known, labelled: bool, beside: DenseRows | None) -> PointStream:
        """Return the points to be scored."""


@dataclass(frozen=True, eq=False)
class Source:
    """Points as a user gives them, and how a file of them is read.

    Parameters
    ----------
    data : path, matrix N×D, list of str or Dataset
    labels : matrix N×K or list of list of str, optional
        Of points that are a matrix or texts.
    dense : path or array N×E, optional
        Dense features beside the others, a row for each point: a .npy file or an array.
    corpus : CorpusOptions, optional
        Where a file of text has its texts and labels; any of these options makes the file a corpus.
    analysis : Analysis, optional
        Which words of texts are features of a new model. Default: all single words.
    """

    data: Points | None
    labels: Labels | None = None
    dense: DenseFeatures | None = None
    corpus: CorpusOptions | None = None
    analysis: Analysis | None = None

    @classmethod
    def of(
        cls, data: Points | Source | None, labels: Labels | None = None, dense: DenseFeatures | None = None
    ) -> Source:
        """Return a source as it is, or make one of points; UsageError if a source comes with labels or the like."""
        if not isinstance(data, Source):
            return cls(data, labels, dense)
        if labels is not None or dense is not None:
            raise UsageError("A Source has its own labels and dense features; give them to the Source.")
        return data

    @property
    def title(self) -> str:
        """What messages call the points."""
        return title_of(self.data)

    @property
    def inputs(self) -> list[object]:
        """The data and dense features, some of which may be files."""
        return [self.data, self.dense]

    def check(self, labels_needed: bool = True) -> None:
        """Raise UsageError if a path does not exist, or if points in memory lack labels that are needed.

        A file or a data set has labels of its own: UsageError is also raised if `labels` are given for it.
        """
        if self.data is None:
            raise UsageError("No points: give data.")
        check_exists(self.data)
        if is_path(self.data) or isinstance(self.data, Dataset | TrainingData):
            if self.labels is not None:
                raise UsageError(f"The labels are those of {title_of(self.data, 'the data set')}; leave out `labels`.")
            return
        if labels_needed and self.labels is None:
            raise UsageError("points in memory need labels: give `labels=Y`, a matrix or lists of names.")

    def training(
        self, folder: FilePath | None = None, same: Mapping[str, str] | None = None, reporter: Reporter = QUIET
    ) -> TrainingData:
        """Return the points for a new model, in a folder or in memory.

        `same` maps names of labels to preferred names, see `LabelNumbers`. SettingsError is raised if there is an
        `Analysis` and the points are not texts.
        """
        self.check()
        source, rows = self.without_dense()
        with source._open("train", None, reporter) as opened:
            source._check_training_file(folder, reporter)
            return opened.training(self.analysis, same).beside(rows)

    def more(self, known: Known, reporter: Reporter = QUIET) -> TrainingData:
        """Return the points for a model to learn, with its names extended by new words and labels."""
        self.check()
        source, rows = self.without_dense()
        with source._open("train", known, reporter) as opened:
            source._check_training_file(known.folder)
            return opened.more(known).beside(rows)

    def known(self, known: Known, part: str, reporter: Reporter = QUIET) -> TrainingData:
        """Return the points for a model that does not change, without words that it does not know.

        In a folder they are those of the file of a `part`, see `locate`.
        """
        self.check(labels_needed=False)
        source, rows = self.without_dense()
        with source._open(part, known, reporter) as opened:
            return opened.known(known).beside(rows)

    def numbered(self, names: Names, extend: bool) -> TrainingData:
        """Return points in memory with words and labels numbered by names; see `InMemory.numbered`."""
        source, rows = self.without_dense()
        return InMemory(source.data, source.labels).numbered(names, extend).beside(rows)

    @contextlib.contextmanager
    def stream(self, known: Known, labelled: bool, reporter: Reporter = QUIET) -> Iterator[PointStream]:
        """Open the points to be scored by a model; SettingsError if it does not know their features.

        If they are `labelled`, their labels are read, and the model must know these too; otherwise a different number
        of labels is noted. Without labels, a line may be a text alone, and the lines of a pipe come as soon as they are
        there.
        """
        self.check(labels_needed=labelled)
        source, rows = self.without_dense()
        with source._open("test", known, Reporter(note=reporter.note)) as opened:
            if isinstance(opened, RowsFile | Corpus) and not labelled:
                opened.reader.answer_at_once()
            points = opened.stream(known, labelled, rows)
            check_width(points.E, known.E, self.data)
            if points.D != known.D:
                text = f"the points have {points.D} features, but the model was trained on {known.D}"
                raise SettingsError(f"{self.title}: {text}")
            if points.K != known.K and (labelled or points.K):
                text = f"{self.title} has {counted(points.K, 'label')}, but the model was trained on {known.K}"
                if labelled:
                    raise SettingsError(text)
                reporter.note(text)
            yield points

    @contextlib.contextmanager
    def labelled_file(self, part: str, reporter: Reporter) -> Iterator[RowsFile | Corpus]:
        """Open the file of a path, whose labels are to be read."""
        with self._open(part, None, reporter) as opened:
            if not isinstance(opened, RowsFile | Corpus):
                raise TypeError("the points are not in a file")
            yield opened

    def without_dense(self) -> tuple[Source, DenseRows | None]:
        """Return the points without their dense features, and the dense features, or None."""
        return replace(self, dense=None), read_dense(self.dense, title_of(self.data, "`data`"))

    @contextlib.contextmanager
    def _open(self, part: str, known: Known | None, reporter: Reporter) -> Iterator[Opened]:
        """Open the points once; the name of a file, its first line and the options decide whether it is a corpus.

        Without `known`, the points are for a new model, which may be trained on text. SettingsError if the file is text
        and the model was not trained on text.
        """
        if not is_path(self.data):
            yield InMemory(self.data, self.labels)
            return
        path = locate(os.fspath(self.data), part)
        corpus = self.corpus or NO_OPTIONS
        with open_corpus(path, corpus, reporter.note) as reader:
            if not isinstance(reader, LineReader) or self._is_text(reader, known and known.names):
                yield Corpus(reader, corpus, reporter)
            else:
                # Text without a sign of a corpus gets an error here that says what is wrong with its first line.
                yield RowsFile(reader, reporter)

    def _is_text(self, reader: LineReader, names: Names | None) -> bool:
        """Return whether a file of lines is a corpus for a model with such names, or for a new model without any."""
        has_options = any(self.corpus or ())
        if has_options or has_corpus_ending(reader.path):
            return True
        if names is not None and not names.vectorizer:
            return False
        for_text = names is not None
        first = reader.peek_line()
        # To a model of text, an empty file is a corpus without documents.
        return is_corpus(reader.path, first, for_text) if first else for_text

    def _check_training_file(self, folder: FilePath | None, reporter: Reporter = QUIET) -> None:
        """Note files beside the training file that are not used; UsageError if it is in the model's `folder`."""
        if not is_path(self.data):
            return
        file = locate(os.fspath(self.data), "train")
        for split in splits_beside(file):
            reporter.note(f"{split} is not used: all points of {file} are for training")
        for pairs in pairs_beside(file, "train"):
            reporter.note(f"{pairs} is not used: its pairs of a point and a label stay in the training data")
        data_folder = file if os.path.isdir(file) else os.path.dirname(file) or os.curdir
        are_folders = folder is not None and file != "-" and os.path.isdir(folder) and os.path.isdir(data_folder)
        if folder is not None and are_folders and os.path.samefile(data_folder, folder):
            raise UsageError(f"{folder} is the folder of the training data; choose another folder for the model.")


def check_width(E: int, known: int, data: object) -> None:
    """Raise SettingsError if `data` have another number of dense features, E, than is `known` to a model."""
    if known == E:
        return
    title = "standard input" if is_path(data) and os.fspath(data) == "-" else title_of(data, "`data`")
    if not known:
        raise SettingsError(f"{title} has {E} dense features, but the model was trained without any")
    if not E:
        raise SettingsError(
            f"{title} has no dense features, but the model was trained with {known}; give them by `dense=FILE`"
        )
    raise SettingsError(f"{title} has {E} dense features, but the model was trained with {known}")
