"""Predict the labels of points, the k best or those that a rule assigns, on this machine or on a Dask cluster.

Points are scored in shards of a fixed number of rows, whatever the sizes of the blocks that are read. The order of sums
in BLAS depends on the shapes of matrices, so only equal shards give equal scores, to the last digit.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple

from scipy.sparse import csr_array

from xmlgp.api.points import Block, FilePath, Identifier, PointStream, check_count, never
from xmlgp.api.source import Points, Source
from xmlgp.api.trained_model import TrainedModel, as_trained_model
from xmlgp.data.dataset import Features
from xmlgp.data.files import check_outputs, open_output
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.assignment import assign as assign_labels
from xmlgp.prediction.label_reader import NamedScores
from xmlgp.prediction.label_writer import LabelExplanations, LabelWriter, ScoredPoints, format_of
from xmlgp.prediction.predictor import Predictor
from xmlgp.prediction.scores_file import Scores, write_scores
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.errors import UsageError
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.text.names import Names

__all__ = ["DEFAULT_K", "Predictions", "matrix", "named_scores", "predict", "write"]

#: The number of labels that are listed for each point by default.
DEFAULT_K = 5

#: Points in a shard: enough for 16 cores with 256 points each (`xmlgp.prediction.top_k.ROWS`).
SHARD_ROWS = 4096


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
    executor: Executor = LOCAL_EXECUTOR,
) -> Predictions:
    """Predict the labels of points.

    With k alone, the k best labels of every point are ranked. `threshold` assigns the labels with at least this score,
    and `assign` the set of labels with the highest expected F1; k then limits their number. Without any of these, the 5
    best labels are ranked.

    Parameters
    ----------
    model : path or TrainedModel
    data, reporter, executor
        As for `train`. A path is read when the predictions are iterated over or written.
    k : int or "all", optional
        The number of labels, or the largest number if labels are assigned.
    threshold : float, optional
        The least score of an assigned label.
    assign : bool
        Whether to assign the labels of highest expected F1. Excludes a threshold.
    output : str, optional
        "probability" or "utility", by which labels are scored and ranked. Default: as the model was trained for.
    explain : int, optional
        The number of features to list for each label, of those that contribute most to its score, and the number of
        those that contribute most against it. Default: none.
    with_std : bool
        Whether scores get standard deviations.

    Returns
    -------
    Predictions
        Iterate over it, or pass it to `matrix` or `write`.

    Raises
    ------
    UsageError
        If arguments contradict each other or are out of range.
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
        k = DEFAULT_K
    rule = AssignmentRule(threshold, None if k is None or k == "all" else int(k), assign)
    return Predictions(model, source, Scoring(rule, output, with_std), is_assigned, explain, reporter, executor)


class Scoring(NamedTuple):
    """How points are scored and labels are chosen."""

    rule: AssignmentRule
    output: str
    with_std: bool = False


class _Sent(NamedTuple):
    """A model that is sent to the workers of a cluster, of which each makes the predictor once, and the scoring."""

    model: TrainedModel
    scoring: Scoring

    def prepare_shared(self) -> tuple[Predictor, Scoring]:
        """Return the predictor and the scoring; see `Executor.map`."""
        return self.model.predictor, self.scoring


@dataclass(frozen=True, eq=False)
class Predictions:
    """The labels of points with their scores, computed anew by every iteration.

    Iterating yields a dict for each point, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`, best label
    first, with `"assigned": True` unless the labels are a ranking. Identifiers are those of the file, or of the index
    of a DataFrame or Series, otherwise the numbers of the points from 1. A label is its name, or its number if the
    model has no names; with a vocabulary, its preferred label after its `uri`. With standard deviations, a label also
    has `std`; with an explanation, also `for` and `against`, lists of `{"word": ..., "contribution": ...}`, and if
    the model has an index of training points, `from`: the contributions of words, neighbours and the bias to its
    utility.
    """

    model: TrainedModel
    source: Source
    scoring: Scoring
    is_assigned: bool
    explain: int | None = None
    reporter: Reporter = QUIET
    executor: Executor = LOCAL_EXECUTOR

    def __repr__(self) -> str:
        return f"<labels of {self.source.title}, by {self.model!r}>"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from self.writer().records(self.blocks())

    def blocks(self) -> Iterator[ScoredPoints]:
        """Yield the points with their scores, in blocks."""
        with self.points() as points:
            yield from self.score(points)

    def points(self) -> contextlib.AbstractContextManager[PointStream]:
        """Open the points without reading their labels."""
        return self.source.stream(self.model.signature, False, self.reporter)

    def score(self, points: PointStream) -> Iterator[ScoredPoints]:
        """Yield open points with their scores, in blocks."""
        with self.reporter.progress("predict"):
            yield from _score_blocks(self.model, self.scoring, points.blocks(), self.executor, points.waits)
        if points.without_words:
            verb = "has" if points.without_words == 1 else "have"
            documents = f"{counted(points.without_words, 'document')} {verb}"
            self.reporter.note(f"{self.source.title}: {documents} no word that the model knows")

    def writer(self) -> LabelWriter:
        """Return the writer that turns scores into records, with the names of labels and the explanations."""
        names = self.model.names
        explanations = None
        if self.explain:
            explanations = LabelExplanations(self.model.predictor, names.features, self.explain, names.texts)
        scoring = self.scoring
        return LabelWriter(names.shown, scoring.output, scoring.with_std, explanations, names.uris, self.is_assigned)


def matrix(predictions: Predictions) -> csr_array:
    """Return the scores of predicted labels as a sparse matrix, N×K; only listed labels are stored."""
    return named_scores(predictions).scores.matrix


def named_scores(predictions: Predictions) -> NamedScores:
    """Return the scores of predicted labels with the names of all labels and the identifiers of the points."""
    ids: list[Identifier] = []
    blocks = []
    for block in predictions.blocks():
        ids += block.ids
        blocks.append(block.scores)
    model = predictions.model
    scores = replace(Scores.stack(blocks, model.data["K"]), assigned=predictions.is_assigned)
    return NamedScores(scores, model.names.labels, ids)


def write(predictions: Predictions, out: FilePath = "-", format: str | None = None) -> None:
    """Write predicted labels to a file or to standard output.

    Parameters
    ----------
    predictions : Predictions
    out : path
        The file, or "-" for standard output. A name that ends in `.gz` is compressed.
    format : str, optional
        "scores", a scores file; "jsonl", the dicts that iterating yields; "tsv" or "csv", a table with a row for each
        label; "table", one for people within the width of the terminal. Default: as the extension of the file says,
        otherwise jsonl for text and scores for rows of numbers.

    Raises
    ------
    UsageError
        If an explanation is to be written to a scores file, or the file is one of the inputs.
    """
    out = os.fspath(out)
    model = predictions.model
    check_outputs([out], [model.folder and model.folder.path, *predictions.source.inputs])
    format = format or format_of(out)
    if predictions.explain and format == "scores":
        raise UsageError("an explanation needs the format jsonl, tsv or csv.")
    with predictions.points() as points, open_output(out) as stream:
        format = format or ("jsonl" if points.is_text or predictions.explain else "scores")
        blocks = _flush_after_each(predictions.score(points), stream)
        if format == "scores":
            scores = (block.scores for block in blocks)
            # The file starts with the number of points.
            write_scores(stream, points.count(), model.data["K"], scores, predictions.is_assigned)
        else:
            predictions.writer().write(stream, format, blocks)


def _flush_after_each(blocks: Iterator[ScoredPoints], stream: BinaryIO) -> Iterator[ScoredPoints]:
    """Yield blocks, and flush the stream after each has been written, so that the reader of a pipe need not wait."""
    for block in blocks:
        yield block
        stream.flush()


def _score_blocks(
    model: TrainedModel,
    scoring: Scoring,
    blocks: Iterable[Block],
    executor: Executor = LOCAL_EXECUTOR,
    waits: Callable[[], bool] = never,
) -> Iterator[ScoredPoints]:
    """Yield points with their scores, in order; each shard yields the chunks that `assign_labels` splits it into.

    Memory holds only a few shards. On this machine, an incomplete shard is scored when `waits()` is true: no more
    blocks come for now.
    """
    pending: deque[tuple[list[Identifier], Features]] = deque()
    shared: object = model.predictor, scoring
    if executor.is_cluster:
        waits = never
        shared = _Sent(replace(model, names=Names(), points={}, folder=None), scoring)

    def arguments() -> Iterator[tuple[Features]]:
        for shard in _shards(blocks, waits):
            pending.append(shard)
            yield (shard[1],)

    for chunks in executor.map(_assign_shard, arguments(), shared):
        ids, features = pending.popleft()
        start = 0
        for scores in chunks:
            rows = slice(start, start + scores.N)
            yield ScoredPoints(ids[rows], features[rows], scores)
            start = rows.stop


def _assign_shard(shared: tuple[Predictor, Scoring], features: Features) -> list[Scores]:
    """Return the labels of the points in a shard, a chunk of points at a time."""
    predictor, scoring = shared
    return list(assign_labels(predictor, features, scoring.rule, scoring.output, scoring.with_std))


def _shards(blocks: Iterable[Block], waits: Callable[[], bool]) -> Iterator[tuple[list[Identifier], Features]]:
    """Yield the identifiers and features of `SHARD_ROWS` points at a time, fewer at the end or when `waits()`."""
    ids: list[Identifier] = []
    pieces: list[Features] = []
    for block in blocks:
        for rows in row_blocks(len(block.ids), SHARD_ROWS):
            ids += block.ids[rows]
            pieces.append(block.points.features[rows])
            if len(ids) >= SHARD_ROWS:
                features = Features.stack(pieces)
                yield ids[:SHARD_ROWS], features[:SHARD_ROWS]
                ids, pieces = ids[SHARD_ROWS:], [features[SHARD_ROWS:]]
        if ids and waits():
            yield ids, Features.stack(pieces)
            ids, pieces = [], []
    if ids:
        yield ids, Features.stack(pieces)
