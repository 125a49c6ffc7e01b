"""The one way in: points as a user gives them, whatever they are, and what they become for a model."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeGuard, cast

from xmlgp.api.corpus import Corpus
from xmlgp.api.memory import InMemory
from xmlgp.api.points import FilePath, Matrix, PointStream, Signature, TrainingData
from xmlgp.api.rows import RowsFile
from xmlgp.data.dataset import Dataset, check_sizes
from xmlgp.data.dense_files import DenseRows, read_dense
from xmlgp.data.files import NoSuchFileError, format_ending, locate, open_input
from xmlgp.data.formats import is_rows
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import HEADER
from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.corpus import ENDINGS
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions
from xmlgp.text.names import VECTORIZER, Names
from xmlgp.text.options_file import followed
from xmlgp.text.tables import TABLE_ENDINGS
from xmlgp.text.vocabulary import Vocabulary, read_vocabulary
from xmlgp.text.word_counts import Analysis, WordCounts

__all__ = [
    "DenseFeatures",
    "Labels",
    "Points",
    "Source",
    "check_width",
    "is_path",
    "new_signature",
    "open_lines",
    "title_of",
]

#: Points: a file or folder as for the command line, features (N×D), texts, or a data set, perhaps with names.
Points: TypeAlias = "FilePath | Matrix | Sequence[str] | Dataset | TrainingData"

#: Labels of points that are no file: N×K, nonzero where a point has a label, or the names of the labels of each point.
Labels: TypeAlias = "Matrix | Sequence[Sequence[str]]"

#: Dense features of points beside their other ones: a .npy file or an array N×E.
DenseFeatures: TypeAlias = "FilePath | Matrix"


class OpenPoints(Protocol):
    """Points that are open: rows of numbers, a corpus, or what is in memory. Call one of the methods: it reads them.

    `columns` are those of a corpus; None if the points are not text.
    """

    columns: Columns | None

    def read(self, model: Signature) -> TrainingData:
        """Return all points, for a model to be trained on; new names follow those of the model."""

    def stream(self, model: Signature, labelled: bool) -> PointStream:
        """Return the points to be scored by a model."""


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
        Where a file of text has its texts and labels; any of these options makes the file a corpus. Those that are not
        given are in the file `corpus.json` beside the parts that `xmlgp split` writes.
    analysis : Analysis, optional
        Which words of texts are features of a new model. Default: all single words.
    vocabulary : path, optional
        A vocabulary with URIs and preferred labels, by which predictions name the labels; see docs/text.md.
    vocabulary_language : str, optional
        The language of preferred labels. Default: English if there are any, otherwise that of most labels.
    label_texts : path, optional
        Texts of labels, lines `label<TAB>text`: names, alternative names or descriptions, by which documents may have
        labels that no training document has; see docs/text.md.
    """

    data: Points | None = None
    labels: Labels | None = None
    dense: DenseFeatures | None = None
    corpus: CorpusOptions | None = None
    analysis: Analysis | None = None
    vocabulary: FilePath | None = None
    vocabulary_language: str | None = None
    label_texts: FilePath | None = None

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
        self.check_exists()
        if is_path(self.data) or isinstance(self.data, Dataset | TrainingData):
            if self.labels is not None:
                raise UsageError(f"The labels are those of {title_of(self.data, 'the data set')}; leave out `labels`.")
            return
        if labels_needed and self.labels is None:
            raise UsageError("points in memory need labels: give `labels=Y`, a matrix or lists of names.")

    def check_exists(self, example: str = '["a text"]') -> None:
        """Raise NoSuchFileError if the data are a str that names no file or folder.

        It may be a text: the error says that texts must be in a list, with an `example`. `-` is standard input.
        """
        data = self.data
        if isinstance(data, str) and data != "-" and not os.path.exists(data):
            error = OSError(errno.ENOENT, os.strerror(errno.ENOENT), data)
            text = f"there is no file or folder {excerpt(data)}; a text must be in a list: {example}"
            raise NoSuchFileError(error, text)

    def read_vocabulary(self) -> Vocabulary | None:
        """Return the vocabulary of the labels, if there is one."""
        return None if self.vocabulary is None else read_vocabulary(self.vocabulary, self.vocabulary_language)

    def read(
        self,
        model: Signature | None = None,
        *,
        folder: FilePath | None = None,
        same: Mapping[str, str] | None = None,
        reporter: Reporter = QUIET,
    ) -> TrainingData:
        """Return the points for a model to be trained on; new words and labels follow those of the `model`, if any.

        A new model is for a `folder`, or for memory, and `same` maps names of labels to preferred names, see
        `LabelNumbers`. SettingsError if there is an `Analysis` and the points are not texts, or if they have fewer
        features or labels than the model.
        """
        self.check()
        analysis = self.analysis or Analysis()
        analysis.check()
        dense = self._dense()
        with reporter.progress("reading"), self._open("train", model, reporter) as points:
            self._check_training_file(model.folder if model else folder)
            if points.columns is None and analysis != Analysis():
                advice = "to choose words or n-grams, give the text, or vectorize it again"
                raise SettingsError(f"{self.title}: these are rows of numbers; {advice}")
            if model is None:
                model = new_signature(points.columns, analysis, same)
            data = points.read(model)
            check_sizes(data.dataset, model.D, model.K, self.title)
            if dense:
                dense.check(data.dataset.N)
                data = data._replace(dataset=dense.beside(data.dataset))
            return data

    @contextlib.contextmanager
    def stream(self, model: Signature, labelled: bool, reporter: Reporter = QUIET) -> Iterator[PointStream]:
        """Open the points to be scored by a model; SettingsError if it does not know their features.

        If they are `labelled`, their labels are read, and the model must know these too; otherwise a different number
        of labels is noted. Without labels, a line may be a text alone, and the lines of a pipe come as soon as they are
        there.
        """
        self.check(labels_needed=labelled)
        dense = self._dense()
        with self._open("test", model, Reporter(note=reporter.note), labelled) as opened:
            points = opened.stream(model, labelled)
            if dense:
                points.add_dense(dense)
            check_width(points.E, model.E, self.data)
            if points.D != model.D:
                text = f"the points have {points.D} features, but the model was trained on {model.D}"
                raise SettingsError(f"{self.title}: {text}")
            if points.K != model.K and (labelled or points.K):
                text = f"{self.title} has {counted(points.K, 'label')}, but the model was trained on {model.K}"
                if labelled:
                    raise SettingsError(text)
                reporter.note(text)
            yield points

    @contextlib.contextmanager
    def labelled_file(self, part: str, reporter: Reporter) -> Iterator[RowsFile | Corpus]:
        """Open the file of a path, whose labels are to be read."""
        with self._open(part, None, reporter) as opened:
            yield cast("RowsFile | Corpus", opened)

    def _dense(self) -> DenseRows | None:
        """Return the dense features from another file, if there are any."""
        return None if self.dense is None else read_dense(self.dense, title_of(self.data, "`data`"))

    @contextlib.contextmanager
    def _open(
        self, part: str, model: Signature | None, reporter: Reporter, labelled: bool = True
    ) -> Iterator[OpenPoints]:
        """Open the points once; the name of a file, its first line and the options decide whether it is a corpus.

        Without a `model`, the points are for a new one, which may be trained on text. SettingsError if the file is text
        and the model was not trained on text.
        """
        if not is_path(self.data):
            yield InMemory(self.data, self.labels)
            return
        path = locate(os.fspath(self.data), part)
        corpus = followed(self.corpus or NO_OPTIONS, path)
        with open_lines(path, corpus.encoding) as reader:
            if reader is None or _is_text(reader, corpus, model, labelled, reporter):
                yield Corpus(path, reader, corpus, reporter)
            else:
                # Text without a sign of a corpus gets an error here that says what is wrong with its first line.
                yield RowsFile(reader, reporter)

    def _check_training_file(self, folder: FilePath | None) -> None:
        """Raise UsageError if the training file is in the model's `folder`."""
        if not is_path(self.data):
            return
        file = locate(os.fspath(self.data), "train")
        data_folder = file if os.path.isdir(file) else os.path.dirname(file) or os.curdir
        if folder is not None and file != "-" and os.path.isdir(folder) and os.path.samefile(data_folder, folder):
            raise UsageError(f"{folder} is the folder of the training data; choose another folder for the model.")


def _is_text(
    reader: LineReader, corpus: CorpusOptions, model: Signature | None, labelled: bool, reporter: Reporter
) -> bool:
    """Return whether a file of lines is a corpus for a model, or for a new one, whose file its first line tells.

    For a model of text, unless documents are `labelled`, any first line may be a text: rows are in a vectorized
    folder, or in a file named `.svm`.
    """
    if any(corpus) or format_ending(reader.path) in ENDINGS:
        return True
    if model is not None and not model.names.vectorizer:
        return False
    first = reader.peek_line()
    if model is None:
        return bool(first) and not is_rows(first)
    if format_ending(reader.path) == ".svm":
        return False
    if not HEADER.fullmatch(first):
        return True
    beside = os.path.join(os.path.dirname(reader.path), VECTORIZER)
    if labelled or (reader.path != "-" and os.path.isfile(beside)):
        return False
    reporter.note(f"{reader.path}: taking the lines as texts; rows of numbers need {VECTORIZER} beside their file")
    return True


@contextlib.contextmanager
def open_lines(path: str, encoding: str | None = None) -> Iterator[LineReader | None]:
    """Open the lines of a file of text or of `-`; yield None for a folder, a workbook or a Parquet file."""
    if os.path.isdir(path) or path.lower().endswith(TABLE_ENDINGS):
        yield None
        return
    with open_input(path, encoding) as stream:
        yield LineReader(stream, path, encoding)


def new_signature(columns: Columns | None, analysis: Analysis, same: Mapping[str, str] | None = None) -> Signature:
    """Return the `Signature` of a new model, of text with these columns or not, which has no words and labels yet."""
    vectorizer = None if columns is None else WordCounts(analysis, [], columns)
    return Signature(Names([], None, vectorizer), same=same)


def check_width(E: int, expected: int, data: object) -> None:
    """Raise SettingsError if `data` have another number of dense features, E, than a model expects."""
    if expected != E:
        advice = "" if E else "; give them by `dense=FILE`"
        raise SettingsError(
            f"{title_of(data, '`data`')} has {E} dense features, but the model was trained with {expected}{advice}"
        )


def is_path(data: object) -> TypeGuard[FilePath]:
    """Return whether data are given by a path."""
    return isinstance(data, str | os.PathLike)


def title_of(data: object, other: str = "the points") -> str:
    """Return what messages call data: their path, or `other`."""
    return os.fspath(data) if is_path(data) else other
