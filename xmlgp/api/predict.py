"""Predict the labels of points, a ranking or those assigned."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, BinaryIO

from scipy.sparse import csr_array

from xmlgp.api.kinds import FilePath, check_count, check_exists, is_path
from xmlgp.api.points import Identifier, PointStream
from xmlgp.api.shards import ModelLocation, Scoring, score_blocks
from xmlgp.api.source import DenseFeatures, Points, Source
from xmlgp.api.trained_model import TrainedModel, opened
from xmlgp.api.training_data import TrainingData
from xmlgp.data.file_kinds import compressed_ending
from xmlgp.data.streams import check_outputs, open_output
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.label_reader import NamedScores
from xmlgp.prediction.label_writer import FORMATS, LabelExplanations, LabelWriter, ScoredPoints, format_of
from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.scores_file import Scores, write_scores
from xmlgp.runtime.errors import UsageError, memory_errors_reported
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, Reporter
from xmlgp.runtime.work import THIS_MACHINE, Work

__all__ = ["RANKED", "Predictions", "predict"]

#: Labels of a ranking by default.
RANKED = 5


@memory_errors_reported()
def predict(  # noqa: PLR0913, which are the options of the command
    model: FilePath | TrainedModel,
    data: Points | Source,
    *,
    dense: DenseFeatures | None = None,
    k: int | str | None = None,
    threshold: float | None = None,
    assign: bool = False,
    output: str | None = None,
    calibrated: bool = True,
    explain: int | None = None,
    with_std: bool = False,
    memory: int = MEMORY,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
    work: Work | None = None,
) -> Predictions:
    """Return the labels of points, a ranking or those assigned.

    With k, every point has as many labels, a ranking. A threshold assigns the labels with at least this score, and
    `assign` those of the highest expected F1, in both cases at most k. Without any of these, the 5 best labels are
    listed.

    Parameters
    ----------
    model : path or TrainedModel
    data, dense, progress, note, work
        As for `train`. A path is read when the labels are asked for.
    k : int or "all", optional
    threshold : float, optional
    assign : bool
    output : str, optional
        "probability" or "utility", by which labels are ranked. Default: as the model was trained for.
    calibrated : bool
        Whether probabilities are calibrated.
    explain : int, optional
        The number of features that speak for each label, and against it, to list. A model with dense features also
        says what each block of these adds to the utility.
    with_std : bool
        Whether scores have standard deviations.
    memory : int
        Megabytes that scoring may take besides the model.

    Returns
    -------
    Predictions
        Iterate over it, or call its `matrix` or `write`.

    Raises
    ------
    UsageError
        For arguments that contradict each other.
    SettingsError
        If the model cannot explain.
    """
    check_count("k", None if k == "all" else k, " or all")
    if assign and threshold is not None:
        raise UsageError("assign and threshold exclude each other.")
    if assign and output == "utility":
        raise UsageError("assign needs probabilities, not utilities.")
    check_count("explain", explain)
    reporter = Reporter.of(progress, note)
    work = work or THIS_MACHINE
    source = Source.of(data, None, dense)
    model = opened(model)
    check_exists(source.data, 'predict(model, ["a text"])')
    predictor = model.predictor
    if explain:
        predictor.check_explainable()
    output = "probability" if assign else output or predictor.default_output
    if not calibrated and predictor.calibration is None:
        reporter.note(f"{model} has no calibration to leave out")
    elif not calibrated and output == "utility":
        reporter.note("utilities are not calibrated anyway")
    if threshold is not None and output == "probability" and not 0 <= threshold <= 1:
        raise UsageError(f"the threshold {threshold:g} is not a probability from 0 to 1.")
    assigned = assign or threshold is not None
    if k is None and not assigned:
        k = RANKED
    rule = AssignmentRule(threshold, None if k is None or k == "all" else int(k), assign)
    folder = _folder_for(model, work)
    location = ModelLocation.of(folder) if folder else None
    scoring = Scoring(predictor, location, rule, output, with_std, memory, calibrated)
    return Predictions(model, source, scoring, assigned, explain, reporter, work)


def _folder_for(model: TrainedModel, work: Work) -> ModelFolder | None:
    """Return the folder from which the workers of a cluster open a model; on this machine that of the model, if any."""
    path = None if model.folder else work.new_folder()
    if path is None:
        return model.folder
    model.save(path)
    return ModelFolder(path)


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The labels of points with their scores, which are computed whenever they are asked for; `predict` returns one.

    It yields a dict for each point, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`, best label first,
    with `"assigned": True` unless the labels are a ranking. Identifiers are those of the file, or the index of a
    DataFrame or Series, otherwise numbers from 1. A label is its name, or its number if the model has no names; with a
    vocabulary, its preferred label after its `uri`. With standard deviations, a label also has `std`; with an
    explanation, also `for` and `against`, lists of `{"word": ..., "contribution": ...}`, and if the model has dense
    features `from`: what words, the regression and the bias of the label
    add to its utility.
    """

    _model: TrainedModel
    _source: Source
    _scoring: Scoring
    _assigned: bool
    _explain: int | None
    _reporter: Reporter
    _work: Work

    def __repr__(self) -> str:
        data: Any = self._source.data
        limit = self._scoring.rule.limit
        data = data.dataset if isinstance(data, TrainingData) else data
        shape = getattr(data, "shape", None)
        if not shape and isinstance(data, Sized) and not is_path(data):
            shape = (len(data),)
        points = counted(shape[0], "point") if shape else self._source.title
        return f"<labels of {points}{f', at most {limit} each' if limit else ''}, by {self._model!r}>"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._points() as points:
            yield from self._writer().records(self._scored(points))

    def blocks(self) -> Iterator[ScoredPoints]:
        """Yield the points with their scores, some at a time."""
        with self._points() as points:
            yield from self._scored(points)

    def matrix(self) -> csr_array:
        """Return the scores of the labels as a matrix, N×K; labels that are not listed are not stored."""
        return self.named_scores().scores.matrix

    def named_scores(self) -> NamedScores:
        """Return the scores with the names of all labels of the model, and the identifiers of the points."""
        ids: list[Identifier] = []
        blocks = []
        for block in self.blocks():
            ids += block.ids
            blocks.append(block.scores)
        scores = dataclasses.replace(Scores.stack(blocks, self._model.data["K"]), assigned=self._assigned)
        return NamedScores(scores, self._model.names.labels, ids)

    def write(self, out: FilePath = "-", format: str | None = None) -> None:
        """Write a file, or standard output (`-`); the ending of a compression compresses it.

        Parameters
        ----------
        out : path
        format : str, optional
            "scores", a scores file; "jsonl", as iterating yields; "tsv" or "csv", a table with a row for each label.
            Default: told by the ending of the name, otherwise jsonl for text and scores for numbers.
        """
        out = os.fspath(out)
        folder = self._model.folder and self._model.folder.path
        check_outputs([out], [folder, *self._source.inputs])
        format = format or format_of(out)
        if self._explain and format == "scores":
            raise UsageError(f"an explanation needs the format {', '.join(FORMATS)}")
        with self._points() as points, open_output(out) as stream:
            format = format or ("jsonl" if points.is_text or self._explain else "scores")
            # The number of points comes first in a scores file.
            N = points.count() if format == "scores" or not points.is_text else None
            scored = self._scored(points, N)
            if not compressed_ending(out):
                scored = _flushed(scored, stream)
            if format == "scores":
                scores = (block.scores for block in scored)
                write_scores(stream, N or 0, self._model.data["K"], scores, self._assigned)
            else:
                self._writer().write(stream, format, scored)

    def _points(self) -> contextlib.AbstractContextManager[PointStream]:
        return self._source.stream(self._model.known, False, self._reporter)

    def _writer(self) -> LabelWriter:
        explain = None
        names = self._model.names
        if self._explain:
            explain = LabelExplanations(self._model.predictor, names.features, self._explain, names.texts)
        output = self._scoring.output or self._model.predictor.default_output
        return LabelWriter(names.shown, output, self._scoring.with_std, explain, names.uris, self._assigned)

    def _scored(self, points: PointStream, N: int | None = None) -> Iterator[ScoredPoints]:
        """Yield blocks of points with their labels."""
        only, by_texts = self._model.predictor.uncalibrated, 0
        with memory_errors_reported(), self._reporter.progress("predict", N, " points") as bar:
            for block in score_blocks(self._scoring, points.blocks(), self._work, points.waits):
                if only is not None:
                    by_texts += int(only[block.scores.labels].sum())
                yield block
                bar.update(block.scores.N)
        if by_texts:
            self._reporter.note(f"{counted(by_texts, 'suggestion')} by texts of labels alone, which have no points")
        if points.without_words:
            verb = "has" if points.without_words == 1 else "have"
            documents = f"{counted(points.without_words, 'document')} {verb}"
            self._reporter.note(f"{self._source.title}: {documents} no word that the model knows")


def _flushed(blocks: Iterable[ScoredPoints], stream: BinaryIO) -> Iterator[ScoredPoints]:
    """Yield blocks, and flush the stream when each is written."""
    for block in blocks:
        yield block
        stream.flush()
