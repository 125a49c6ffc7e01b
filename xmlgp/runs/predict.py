"""Predict the labels of points, a ranking or those assigned."""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, BinaryIO

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.file_kinds import compressed_ending
from xmlgp.data.streams import check_outputs, open_output
from xmlgp.errors import DataFormatError, SettingsError, UsageError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath, check_count, check_exists, is_path
from xmlgp.inputs.points import Identifier, PointStream
from xmlgp.inputs.source import DenseFeatures, Points, Source
from xmlgp.inputs.training_data import TrainingData
from xmlgp.label_index.clusters import FEWEST_LABELS, LabelIndex
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.label_choice import LabelChoice, parse_measure
from xmlgp.prediction.label_formats import FORMATS, check_format, format_of
from xmlgp.prediction.label_reader import NamedScores
from xmlgp.prediction.label_writer import LabelExplanations, LabelWriter, ScoredPoints
from xmlgp.prediction.predictor import MEMORY, RECALL
from xmlgp.prediction.scores_file import Scores, write_scores
from xmlgp.prediction.selection import MAX_STREAMED
from xmlgp.prediction.table_output import TABLES, write_table
from xmlgp.runs.allowed_labels import allowed_labels
from xmlgp.runs.shards import ModelLocation, Scoring, score_blocks
from xmlgp.runs.trained_model import TrainedModel, opened
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, Reporter
from xmlgp.work import THIS_MACHINE, Work

__all__ = ["BAD_LINES", "RANKED", "Predictions", "predict"]

#: Labels of a ranking by default.
RANKED = 5

#: What `bad_lines` can be.
BAD_LINES = ("stop", "skip", "report")


@memory_errors_reported()
def predict(  # noqa: PLR0913, which are the options of the command
    model: FilePath | TrainedModel,
    data: Points | Source | None,
    *,
    dense: DenseFeatures | None = None,
    k: int | str | None = None,
    threshold: float | None = None,
    limit: int | None = None,
    assign: bool = False,
    optimise: str | None = None,
    output: str | None = None,
    approximate: bool | float | None = None,
    calibrated: bool = True,
    only: FilePath | Sequence[str | int] | None = None,
    without: FilePath | Sequence[str | int] | None = None,
    explain: int | None = None,
    with_std: bool = False,
    memory: int = MEMORY,
    bad_lines: str = "stop",
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
    work: Work | None = None,
) -> Predictions:
    """Return the labels of points, a ranking or those assigned.

    With k, every point has as many labels, a ranking. A threshold assigns the labels with at least this score, a limit
    at most so many, `assign` those of the highest expected F1, and `optimise` chooses a ranking for a measure of all
    points together. Without any of these, the threshold and the limit that `tune` chose apply, and without them the 5
    best labels are listed.

    Parameters
    ----------
    model : path or TrainedModel
    data, dense, progress, note, work
        As for `train`. A path is read when the labels are asked for.
    k : int or "all", optional
    threshold : float, optional
    limit : int, optional
    assign : bool
    optimise : str, optional
        "macro-f1@K", "coverage@K" or "psp@K", such as "macro-f1@5": each point has the K labels, of its 64 most
        probable ones or of 4 K if these are more, by which the measure of all points is expected to be highest,
        the most probable first. The propensities of psp are those of the points that the model knows. For the other
        two, all points are scored before the first is answered, which takes about 3 KB of memory for each.
    output : str, optional
        "probability" or "utility", by which labels are ranked. Default: as the model was trained for.
    approximate : bool or float, optional
        Find the best labels by the index that a model of many labels has: about this share of the five best labels of
        each point, 0.99 if True. It is for up to 64 labels of a point. Default: labels are ranked exactly.
    calibrated : bool
        Whether probabilities are calibrated.
    only, without : path or list of (str or int), optional
        The labels that are considered, and those that are left out: a file with a label a line, or their names or
        numbers.
    explain : int, optional
        The number of features that speak for each label, and against it, to list. A model with dense features also
        says what each block of these adds to the utility.
    with_std : bool
        Whether scores have standard deviations.
    memory : int
        Megabytes that scoring may take besides the model.
    bad_lines : str
        What to do at a malformed line of a file, unless it is in libsvm format: "stop", raise its DataFormatError after
        the points before it; "skip", leave it out; "report", yield `{"id": ..., "error": ...}` in its place.

    Returns
    -------
    Predictions
        Iterate over it, or call its `matrix` or `write`.

    Raises
    ------
    UsageError
        For arguments that contradict each other.
    SettingsError
        If the model cannot explain, or no label is allowed.
    """
    _check_choice(k, threshold, limit, assign, optimise, output)
    check_count("explain", explain)
    if bad_lines not in BAD_LINES:
        raise UsageError(f"bad_lines is one of {', '.join(BAD_LINES)}, not {bad_lines!r}.")
    reporter = Reporter.of(progress, note)
    work = work or THIS_MACHINE
    source = Source.of(data, None, dense)
    model = opened(model)
    check_exists(source.data, 'predict(model, ["a text"])')
    predictor = model.predictor
    if explain:
        predictor.check_explainable()
    uncalibrated = not calibrated and predictor.calibration is not None
    output = "probability" if assign or optimise else output or predictor.default_output
    if not calibrated and not (uncalibrated and output == "probability"):
        effect = "utilities are not calibrated anyway" if uncalibrated else f"{model} has no calibration to leave out"
        reporter.note(effect)
    if threshold is not None and output == "probability" and not 0 <= threshold <= 1:
        raise UsageError(f"the threshold {threshold:g} is not a probability from 0 to 1.")
    choice = None if optimise is None else _label_choice(optimise, model)
    rule = None
    if threshold is not None or limit is not None or assign:
        rule = AssignmentRule(threshold, limit, assign)
    elif choice:
        k = choice.listed
    elif k is None:
        rule = _tuned_rule(model, output, uncalibrated, reporter.note)
    assigned = rule is not None
    rule = rule or AssignmentRule(limit=None if k == "all" else int(RANKED if k is None else k))
    allowed = allowed_labels(only, without, model.names, predictor.label_count)
    recall = _recall(approximate, model, rule, reporter.note)
    folder = _folder_for(model, work)
    location = ModelLocation.of(folder) if folder else None
    scoring = Scoring(predictor, location, rule, output, with_std, memory, calibrated, allowed, recall)
    return Predictions(model, source, scoring, assigned, explain, bad_lines, reporter, work, (only, without), choice)


def _check_choice(
    k: int | str | None,
    threshold: float | None,
    limit: int | None,
    assign: bool,
    optimise: str | None,
    output: str | None,
) -> None:
    """Raise UsageError for ways to choose labels that contradict each other, see `predict`."""
    if optimise is not None and (k is not None or threshold is not None or limit or assign):
        raise UsageError("`optimise=MEASURE` says how many labels a point has: give no k, threshold, limit or assign.")
    if k is not None and (threshold is not None or limit or assign):
        raise UsageError("`k=K` is for rankings; to assign at most so many labels, give `limit=K`.")
    check_count("limit", limit)
    check_count("k", None if k == "all" else k, " or all")
    if assign and threshold is not None:
        raise UsageError("assign and threshold exclude each other.")
    if (assign or optimise) and output == "utility":
        raise UsageError(f"{'assign' if assign else 'optimise'} needs probabilities, not utilities.")


def _label_choice(optimise: str, model: TrainedModel) -> LabelChoice:
    """Return how labels are chosen for a measure, with the propensities of the model if it needs them."""
    measure, k = parse_measure(optimise)
    if measure != "psp":
        return LabelChoice(measure, k)
    if model.label_counts is None:
        raise SettingsError(f"{model} has no counts of its labels, which the propensities of psp need")
    return LabelChoice(measure, k, estimate_propensities(model.label_counts, model.data["N"], model.data["D"]).values)


def _tuned_rule(
    model: TrainedModel, output: str, uncalibrated: bool, note: Callable[[str], object]
) -> AssignmentRule | None:
    """Return the tuned rule if there is one for this output."""
    tuned = model.tuned
    if tuned is None:
        return None
    if tuned.output != output or (uncalibrated and output == "probability"):
        of = f"the output {tuned.output}" if tuned.output != output else "calibrated probabilities"
        note(f"{model} is tuned for {of}; listing the {RANKED} best labels")
        return None
    note(f"{model} is tuned for {tuned.metric}: assigning labels of {tuned}; use `k=N` to rank labels instead")
    return tuned.rule


def _recall(
    approximate: bool | float | None, model: TrainedModel, rule: AssignmentRule, note: Callable[[str], object]
) -> float | None:
    """Return the recall with which the best labels are found by an index; None, and perhaps a note, if exactly."""
    if approximate is None or approximate is False:
        return None
    if not isinstance(approximate, numbers.Real):
        raise UsageError(f"approximate is True or the share of the best labels to find, not {approximate!r}.")
    recall = RECALL if approximate is True else float(approximate)
    if not 0 < recall <= 1:
        raise UsageError(f"the share of the best labels that approximate has is above 0 and at most 1, not {recall:g}.")
    most = model.predictor.label_count if rule.limit is None else rule.limit
    if rule.expected_f1 or (rule.threshold is None and most > MAX_STREAMED):
        note(f"approximate has no effect on `assign`, on all labels of a point, or on more than {MAX_STREAMED}")
    elif model.predictor.searching(recall) is None:
        index = LabelIndex.of(model.parameters)
        least = f"{FEWEST_LABELS:,} labels or more"
        reason = f"{model} has no index of labels; training makes one of {least}, without regression"
        if index is not None:
            reason = f"the index of {model} finds at most {index.recall[-1]:.1%} of the best labels, not {recall:.1%}"
        note(f"approximate has no effect: {reason}")
    else:
        return recall
    return None


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
    features `from`: what words, each dense block (`dense 1`, ...), the regression and the bias of the label
    add to its utility.
    """

    _model: TrainedModel
    _source: Source
    _scoring: Scoring
    _assigned: bool
    _explain: int | None
    _bad_lines: str
    _reporter: Reporter
    _work: Work
    _label_files: tuple[object, ...]
    _choice: LabelChoice | None = None

    def __repr__(self) -> str:
        data: Any = self._source.data
        limit = self._choice.k if self._choice else self._scoring.rule.limit
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
        """Yield the points with their scores, some at a time; a malformed line has an error and no scores."""
        with self._points() as points:
            yield from self._scored(points)

    def matrix(self) -> csr_array:
        """Return the scores of the labels as a matrix, N×K; labels that are not listed are not stored.

        Points of malformed lines have no scores.
        """
        return self.named_scores().scores.matrix

    def named_scores(self) -> NamedScores:
        """Return the scores with the names of all labels of the model, and the identifiers of the points."""
        ids: list[Identifier | None] = []
        blocks = []
        for block in self.blocks():
            ids += block.ids
            blocks.append(block.scores)
        scores = dataclasses.replace(Scores.stack(blocks, self._model.data["K"]), assigned=self._assigned)
        return NamedScores(scores, self._model.names.labels, ids)

    def write(self, out: FilePath = "-", format: str | None = None) -> None:
        """Write a file, or standard output (`-`); the endings `.gz`, `.bz2`, `.xz` and `.zst` compress it.

        Parameters
        ----------
        out : path
        format : str, optional
            "scores", a scores file; "jsonl", as iterating yields; "tsv", "csv", "xlsx" (Excel) or "parquet", a table
            with a row for each label. Default: told by the ending of the name, otherwise jsonl for text and scores for
            numbers.
        """
        out = os.fspath(out)
        folder = self._model.folder and self._model.folder.path
        check_outputs([out], [folder, *self._source.inputs, *self._label_files])
        format = format or format_of(out)
        check_format(out, format)
        if self._explain and format == "scores":
            raise UsageError(f"an explanation needs the format {', '.join(FORMATS)}")
        with self._points() as points:
            report = self._bad_lines == "report"
            format = format or ("jsonl" if points.is_text or self._explain or report else "scores")
            if report and format != "jsonl":
                raise UsageError(f"a report of bad lines needs the format jsonl, not {format}.")
            self._write(out, format, points)

    def _write(self, out: str, format: str, points: PointStream) -> None:
        with open_output(out) as stream:
            # The number of points comes first in a scores file.
            N = points.count() if format == "scores" or not points.is_text else None
            scored = self._scored(points, N)
            if not compressed_ending(out):
                scored = _flushed(scored, stream)
            if format == "scores":
                scores = (block.scores for block in scored)
                write_scores(stream, N or 0, self._model.data["K"], scores, self._assigned)
            elif format in TABLES:
                write_table(stream, format, out, *self._writer().table(scored))
            else:
                self._writer().write(stream, format, scored)

    def _points(self) -> contextlib.AbstractContextManager[PointStream]:
        return self._source.stream(self._model.known, False, self._reporter, keep_errors=self._bad_lines != "stop")

    def _writer(self) -> LabelWriter:
        explain = None
        names = self._model.names
        if self._explain:
            blocks = self._model.block_names
            explain = LabelExplanations(self._model.predictor, names.features, self._explain, blocks)
        output = self._scoring.output or self._model.predictor.default_output
        return LabelWriter(names.shown, output, self._scoring.with_std, explain, names.uris, self._assigned)

    def _scored(self, points: PointStream, N: int | None = None) -> Iterator[ScoredPoints]:
        """Yield blocks of points with their labels."""
        blocks = self._listed(points, N)
        if not self._choice:
            return blocks
        if not self._explain:
            # Features that nobody needs would be kept until all points are scored.
            blocks = (block._replace(features=block.features.empty_rows(0)) for block in blocks)
        return self._choice.of_blocks(blocks, self._reporter.progress)

    def _listed(self, points: PointStream, N: int | None) -> Iterator[ScoredPoints]:
        left_out: list[DataFormatError] = []
        with memory_errors_reported(), self._reporter.progress("predict", N, " points") as bar:
            for block in score_blocks(self._scoring, points.blocks(), self._work, points.waits):
                if block.errors:
                    sizes = np.diff(block.scores.indptr)
                    sizes[list(block.errors)] = 0
                    block = block._replace(scores=block.scores.first(sizes))
                if block.errors and self._bad_lines == "skip":
                    left_out += block.errors.values()
                    ids = [None if row in block.errors else id for row, id in enumerate(block.ids)]
                    block = block._replace(ids=ids, errors={})
                yield block
                bar.update(block.scores.N)
        if left_out:
            lines = "line was" if len(left_out) == 1 else "lines were"
            self._reporter.note(f"{len(left_out)} malformed {lines} left out; the first: {left_out[0]}")
        if points.without_words:
            verb = "has" if points.without_words == 1 else "have"
            documents = f"{counted(points.without_words, 'document')} {verb}"
            self._reporter.note(f"{self._source.title}: {documents} no word that the model knows")


def _flushed(blocks: Iterable[ScoredPoints], stream: BinaryIO) -> Iterator[ScoredPoints]:
    """Yield blocks, and flush the stream when each is written."""
    for block in blocks:
        yield block
        stream.flush()
