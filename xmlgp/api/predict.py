"""Predict the labels of points, a ranking or those assigned."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from scipy.sparse import csr_array

from xmlgp.api.points import FilePath, Identifier, PointStream, check_count
from xmlgp.api.shards import Scoring, score_blocks
from xmlgp.api.source import Points, Source
from xmlgp.api.trained_model import TrainedModel, as_trained_model
from xmlgp.data.files import check_outputs, open_output
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.label_reader import NamedScores
from xmlgp.prediction.label_writer import LabelExplanations, LabelWriter, ScoredPoints, format_of
from xmlgp.prediction.scores_file import Scores, write_scores
from xmlgp.runtime.errors import UsageError
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter

__all__ = ["RANKED", "Predictions", "matrix", "named_scores", "predict", "write"]

#: Labels of a ranking by default.
RANKED = 5


def predict(
    model: FilePath | TrainedModel,
    data: Points | Source,
    *,
    k: int | str | None = None,
    threshold: float | None = None,
    assign: bool = False,
    output: str | None = None,
    explain: int | None = None,
    with_std: bool = False,
    reporter: Reporter = QUIET,
    work: Executor = LOCAL_EXECUTOR,
) -> Predictions:
    """Return the labels of points, a ranking or those assigned.

    With k, every point has as many labels, a ranking. A threshold assigns the labels with at least this score, and
    `assign` those of the highest expected F1, in both cases at most k. Without any of these, the 5 best labels are
    listed.

    Parameters
    ----------
    model : path or TrainedModel
    data, reporter, work
        As for `train`. A path is read when the labels are asked for.
    k : int or "all", optional
    threshold : float, optional
    assign : bool
    output : str, optional
        "probability" or "utility", by which labels are ranked. Default: as the model was trained for.
    explain : int, optional
        The number of features that speak for each label, and against it, to list.
    with_std : bool
        Whether scores have standard deviations.

    Returns
    -------
    Predictions
        Iterate over it, or give it to `matrix` or `write`.

    Raises
    ------
    UsageError
        For arguments that contradict each other.
    SettingsError
        If the model cannot explain.
    """
    check_count("k", None if k == "all" else k, " or all")
    check_count("explain", explain)
    if assign and threshold is not None:
        raise UsageError("assign and threshold exclude each other.")
    if assign and output == "utility":
        raise UsageError("assign needs probabilities, not utilities.")
    source = Source.of(data)
    model = as_trained_model(model)
    source.check_exists('predict(model, ["a text"])')
    if explain:
        model.predictor.check_explainable()
    output = "probability" if assign else output or model.predictor.default_output
    if threshold is not None and output == "probability" and not 0 <= threshold <= 1:
        raise UsageError(f"the threshold {threshold:g} is not a probability from 0 to 1.")
    is_assigned = assign or threshold is not None
    if k is None and not is_assigned:
        k = RANKED
    rule = AssignmentRule(threshold, None if k is None or k == "all" else int(k), assign)
    return Predictions(model, source, Scoring(rule, output, with_std), is_assigned, explain, reporter, work)


@dataclass(frozen=True, eq=False)
class Predictions:
    """The labels of points with their scores, which are computed each time that somebody iterates over them.

    It yields a dict for each point, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`, best label first,
    with `"assigned": True` unless the labels are a ranking. Identifiers are those of the file, or the index of a
    DataFrame or Series, otherwise numbers from 1. A label is its name, or its number if the model has no names; with a
    vocabulary, its preferred label after its `uri`. With standard deviations, a label also has `std`; with an
    explanation, also `for` and `against`, lists of `{"word": ..., "contribution": ...}`, and if the model has an index
    of training points `from`: what words, neighbours and the bias of the label add to its utility.
    """

    model: TrainedModel
    source: Source
    scoring: Scoring
    is_assigned: bool
    explain: int | None = None
    reporter: Reporter = QUIET
    work: Executor = LOCAL_EXECUTOR

    def __repr__(self) -> str:
        return f"<labels of {self.source.title}, by {self.model!r}>"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from self.writer().records(self.blocks())

    def blocks(self) -> Iterator[ScoredPoints]:
        """Yield the points with their scores, some at a time."""
        with self.points() as points:
            yield from self.scored(points)

    def points(self) -> contextlib.AbstractContextManager[PointStream]:
        """Open the points, whose labels are not read."""
        return self.source.stream(self.model.signature, False, self.reporter)

    def scored(self, points: PointStream, N: int | None = None) -> Iterator[ScoredPoints]:
        """Yield open points with their scores, some at a time; their number N is for the progress."""
        with self.reporter.progress("predict", N, " points") as bar:
            for block in score_blocks(self.model, self.scoring, points.blocks(), self.work, points.waits):
                yield block
                bar.update(block.scores.N)
        if points.without_words:
            verb = "has" if points.without_words == 1 else "have"
            documents = f"{counted(points.without_words, 'document')} {verb}"
            self.reporter.note(f"{self.source.title}: {documents} no word that the model knows")

    def writer(self) -> LabelWriter:
        """Return what says in which words labels are written."""
        names = self.model.names
        explanations = None
        if self.explain:
            explanations = LabelExplanations(self.model.predictor, names.features, self.explain, names.texts)
        scoring = self.scoring
        return LabelWriter(names.shown, scoring.output, scoring.with_std, explanations, names.uris, self.is_assigned)


def matrix(predictions: Predictions) -> csr_array:
    """Return the scores of predicted labels as a matrix, N×K; labels that are not listed are not stored."""
    return named_scores(predictions).scores.matrix


def named_scores(predictions: Predictions) -> NamedScores:
    """Return the scores of predicted labels, the names of all labels, and the identifiers of the points."""
    ids: list[Identifier] = []
    blocks = []
    for block in predictions.blocks():
        ids += block.ids
        blocks.append(block.scores)
    model = predictions.model
    scores = replace(Scores.stack(blocks, model.data["K"]), assigned=predictions.is_assigned)
    return NamedScores(scores, model.names.labels, ids)


def write(predictions: Predictions, out: FilePath = "-", format: str | None = None) -> None:
    """Write predicted labels to a file, or standard output (`-`); the ending of a compression compresses it.

    Parameters
    ----------
    predictions : Predictions
    out : path
    format : str, optional
        "scores", a scores file; "jsonl", as iterating yields; "tsv" or "csv", a table with a row for each label.
        Default: told by the ending of the name, otherwise jsonl for text and scores for numbers.
    """
    out = os.fspath(out)
    model = predictions.model
    check_outputs([out], [model.folder and model.folder.path, *predictions.source.inputs])
    format = format or format_of(out)
    if predictions.explain and format == "scores":
        raise UsageError("an explanation needs the format jsonl, tsv or csv.")
    with predictions.points() as points, open_output(out) as stream:
        format = format or ("jsonl" if points.is_text or predictions.explain else "scores")
        # The number of points comes first in a scores file.
        N = points.count() if format == "scores" or not points.is_text else None
        blocks = _flushed(predictions.scored(points, N), stream)
        if format == "scores":
            write_scores(stream, N or 0, model.data["K"], (block.scores for block in blocks), predictions.is_assigned)
        else:
            predictions.writer().write(stream, format, blocks)


def _flushed(blocks: Iterator[ScoredPoints], stream: BinaryIO) -> Iterator[ScoredPoints]:
    """Yield blocks, and flush the stream when each is written: a reader of a pipe has the answer at once."""
    for block in blocks:
        yield block
        stream.flush()
