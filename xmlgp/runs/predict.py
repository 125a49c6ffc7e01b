"""Predict the labels of points, a ranking or those assigned."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence, Sized

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.dense_files import as_list
from xmlgp.data.file_kinds import compressed_ending
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.streams import check_outputs, open_input, open_output
from xmlgp.errors import DataFormatError, SettingsError, UsageError, memory_errors_reported
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.label_formats import FORMATS, check_format, format_of
from xmlgp.prediction.label_reader import NamedScores
from xmlgp.prediction.label_writer import LabelExplanations, LabelWriter
from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.scores_file import Scores, write_scores
from xmlgp.prediction.table_output import TABLES, write_table
from xmlgp.runs.given import DenseFeatures, FilePath, Points, check_count, check_exists, is_path, label_of, open_given
from xmlgp.runs.shards import Scoring, score_blocks
from xmlgp.runs.trained_model import TrainedModel, opened
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import ignore, silent
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.points import TrainingData
from xmlgp.work import THIS_MACHINE, ThisMachine

__all__ = ["BAD_LINES", "RANKED", "Predictions", "predict"]

#: Labels of a ranking by default.
RANKED = 5

#: What `bad_lines` can be.
BAD_LINES = ("stop", "skip", "report")


@memory_errors_reported()
def predict(
    model: FilePath | TrainedModel,
    data: Points | None,
    *,
    dense: DenseFeatures | None = None,
    k: int | str | None = None,
    threshold: float | None = None,
    limit: int | None = None,
    assign: bool = False,
    output: str | None = None,
    calibrated: bool = True,
    only: FilePath | Sequence[str | int] | None = None,
    without: FilePath | Sequence[str | int] | None = None,
    explain: int | None = None,
    with_std: bool = False,
    memory: int = MEMORY,
    bad_lines: str = "stop",
    corpus: CorpusOptions = NO_OPTIONS,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
    work: ThisMachine = THIS_MACHINE,
) -> Predictions:
    """Return the labels of points, a ranking or those assigned.

    With k, every point has as many labels, a ranking. A threshold assigns the labels with at least this score, a limit
    at most so many, `assign` those of the highest expected F1. Without any of these, the threshold and the limit that
    `tune` chose apply, and without them the 5 best labels are listed.

    Parameters
    ----------
    model : path or TrainedModel
    data, dense, corpus, progress, note, work
        As for `train`. A path is read when the labels are asked for.
    k : int or "all", optional
    threshold : float, optional
    limit : int, optional
    assign : bool
    output : str, optional
        "probability" or "utility", by which labels are ranked. Default: as the model was trained for.
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
    if k is not None and (threshold is not None or limit or assign):
        raise UsageError("k is for rankings; to assign at most so many labels, give `limit=K` in place of k.")
    check_count("limit", limit)
    check_count("explain", explain)
    check_count("k", None if k == "all" else k, " or all")
    if assign and threshold is not None:
        raise UsageError("assign and threshold exclude each other.")
    if assign and output == "utility":
        raise UsageError("assign needs probabilities, not utilities.")
    if bad_lines not in BAD_LINES:
        raise UsageError(f"bad_lines is one of {', '.join(BAD_LINES)}, not {bad_lines!r}.")
    model = opened(model)
    check_exists(data, 'predict(model, ["a text"])')
    predictor = model.predictor
    if explain:
        predictor.check_explainable()
    uncalibrated = not calibrated and predictor.calibration is not None
    output = "probability" if assign else output or predictor.default_output
    if not calibrated and not (uncalibrated and output == "probability"):
        note("utilities are not calibrated anyway" if uncalibrated else f"{model} has no calibration to leave out")
    if threshold is not None and output == "probability" and not 0 <= threshold <= 1:
        raise UsageError(f"the threshold {threshold:g} is not a probability from 0 to 1.")
    rule = None
    if threshold is not None or limit is not None or assign:
        rule = AssignmentRule(threshold, limit, assign)
    elif k is None:
        rule = _tuned_rule(model, output, uncalibrated, note)
    assigned = rule is not None
    rule = rule or AssignmentRule(limit=None if k == "all" else int(RANKED if k is None else k))
    allowed = _allowed_labels(only, without, predictor.label_count, model.names)
    scoring = Scoring(predictor, _folder_for(model, work), rule, output, with_std, memory, calibrated, allowed)
    inputs = model.folder and model.folder.path, data, only, without, *as_list(dense)
    return Predictions(model, data, dense, scoring, assigned, explain, bad_lines, corpus, progress, note, work, inputs)


def _tuned_rule(model, output, uncalibrated, note):
    """Return the tuned rule if there is one for this output, otherwise None."""
    tuned = model.tuned
    if tuned is None:
        return None
    if tuned.output != output or (uncalibrated and output == "probability"):
        of = f"the output {tuned.output}" if tuned.output != output else "calibrated probabilities"
        note(f"{model} is tuned for {of}; listing the {RANKED} best labels")
        return None
    note(f"{model} is tuned for {tuned.metric}: assigning labels of {tuned}; use `k=N` to rank labels instead")
    return tuned.rule


def _folder_for(model, work):
    """Return the folder from which the workers of a cluster open a model; None on this machine."""
    if model.folder or not work.is_cluster:
        return model.folder
    path = work.new_folder()
    model.save(path)
    return ModelFolder(path)


def _allowed_labels(only, without, K, names):
    """Return which of the K labels are allowed, bool, or None if all are; see `predict`."""
    if only is None and without is None:
        return None
    known = {}
    for kind in names.labels or map(str, range(K)), names.uris or (), names.preferred or ():
        for label, name in enumerate(kind):
            # Several labels can have the same name, and a label the same as name, URI and preferred label.
            known.setdefault(name, {})[label] = True
    allowed = np.full(K, only is None)
    for labels, value in (only, True), (without, False):
        if labels is not None:
            find = _in_file if is_path(labels) else _in_sequence
            allowed[[label for same in find(labels, known, K, names.labels) for label in same]] = value
    if not allowed.any():
        raise SettingsError("`only` and `without` allow no label")
    return allowed


def _in_file(path, known, K, names):
    """Yield the labels (list) of each line of a file, which has names, or numbers if the model has no names."""
    with open_input(os.fspath(path)) as stream:
        for number, line in decoded_lines(LineReader(stream, path)):
            name = line.strip()
            if name in known:
                yield known[name]
            elif name:
                expected = "" if names else f": a number below {K}"
                raise DataFormatError(path, number, f"{excerpt(name)} is not a label of the model{expected}")


def _in_sequence(entries, known, K, names):
    for entry in entries:
        found = known.get(entry, []) if isinstance(entry, str) else [entry] if entry in range(K) else []
        if not found:
            raise SettingsError(f"{excerpt(entry)} is not a label of the model")
        yield found


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The labels of points with their scores, which are computed whenever they are asked for; `predict` returns one.

    It yields a dict for each point, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`, best label first,
    with `"assigned": True` unless the labels are a ranking. Identifiers are those of the file, or the index of a
    DataFrame or Series, otherwise numbers from 1. A label is its name, or its number if the model has no names; with a
    vocabulary, its preferred label after its `uri`. With standard deviations, a label also has `std`; with an
    explanation, also `for` and `against`, lists of `{"word": ..., "contribution": ...}`, and if the model has dense
    features `from`: what words, each dense block (`encoder`, `dense 1`, ...), the regression and the bias of the label
    add to its utility.
    """

    _model: TrainedModel
    _data: Points | None
    _dense: DenseFeatures | None
    _scoring: Scoring
    _assigned: bool
    _explain: int | None
    _bad_lines: str
    _corpus: CorpusOptions
    _progress: Callable
    _note: Callable
    _work: ThisMachine
    _inputs: tuple

    def __repr__(self) -> str:
        data = self._data
        limit = self._scoring.rule.limit
        data = data.dataset if isinstance(data, TrainingData) else data
        shape = getattr(data, "shape", None)
        if not shape and isinstance(data, Sized) and not is_path(data):
            shape = (len(data),)
        points = counted(shape[0], "point") if shape else label_of(data)
        return f"<labels of {points}{f', at most {limit} each' if limit else ''}, by {self._model!r}>"

    def __iter__(self) -> Iterator[dict]:
        with self._points() as points:
            yield from self._writer().records(self._scored(points))

    def blocks(self) -> Iterator[tuple[list, csr_array, Scores]]:
        """Yield the identifiers, the features and the scores of points, some points at a time.

        A malformed line has no scores, and None or its error as identifier.
        """
        with self._points() as points:
            yield from self._scored(points)

    def matrix(self) -> csr_array:
        """Return the scores of the labels as a matrix, N×K; labels that are not listed are not stored.

        Points of malformed lines have no scores.
        """
        return self.named_scores().scores.matrix

    def named_scores(self) -> NamedScores:
        """Return the scores with the names of all labels of the model, and the identifiers of the points."""
        ids = []
        blocks = []
        for identifiers, _, scores in self.blocks():
            ids += identifiers
            blocks.append(scores)
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
        check_outputs([out], self._inputs)
        format = format or format_of(out)
        check_format(out, format)
        if self._explain and format == "scores":
            raise UsageError(f"an explanation needs the format {', '.join(FORMATS)}")
        with self._points() as points:
            report = self._bad_lines == "report"
            format = format or ("jsonl" if points.is_text or self._explain or report else "scores")
            if report and format != "jsonl":
                raise UsageError(f"a report of bad lines needs the format jsonl, not {format}.")
            # The number of points comes first in a scores file.
            N = points.count() if format == "scores" or not points.is_text else None
            with open_output(out) as stream:
                scored = self._scored(points, N)
                if not compressed_ending(out):
                    scored = _flushed(scored, stream)
                if format == "scores":
                    write_scores(stream, N, self._model.data["K"], (scores for *_, scores in scored), self._assigned)
                elif format in TABLES:
                    write_table(stream, format, out, *self._writer().table(scored))
                else:
                    self._writer().write(stream, format, scored)

    def _points(self):
        """Open the points, `Rows` or `Texts` of `xmlgp.text.points`."""
        return open_given(
            self._data, None, self._dense, self._model, self._corpus, False, self._note, self._bad_lines != "stop"
        )

    def _writer(self) -> LabelWriter:
        explain = None
        names = self._model.names
        if self._explain:
            blocks = self._model.block_names
            explain = LabelExplanations(self._model.predictor, names.features, self._explain, blocks)
        output = self._scoring.output
        return LabelWriter(names.shown, output, self._scoring.with_std, explain, names.uris, self._assigned)

    def _scored(self, points, N=None):
        blocks = ((block.identifiers, block.points.features) for block in points.blocks())
        left_out = 0
        first = None
        with memory_errors_reported(), self._progress("predict", N, " points") as bar:
            for identifiers, features, scores in score_blocks(self._scoring, blocks, self._work, points.waits):
                wrong = [isinstance(own, DataFormatError) for own in identifiers]
                if any(wrong):
                    scores = scores.first(np.where(wrong, 0, np.diff(scores.indptr)))
                if any(wrong) and self._bad_lines == "skip":
                    left_out = left_out + sum(wrong)
                    first = first or identifiers[wrong.index(True)]
                    identifiers = [None if bad else own for own, bad in zip(identifiers, wrong, strict=True)]
                yield identifiers, features, scores
                bar.update(scores.N)
        if left_out:
            lines = "line was" if left_out == 1 else "lines were"
            self._note(f"{left_out} malformed {lines} left out; the first: {first}")
        if points.without_words:
            documents = "document has" if points.without_words == 1 else "documents have"
            self._note(f"{label_of(self._data)}: {points.without_words} {documents} no word that the model knows")


def _flushed(blocks, stream):
    """Yield blocks, and flush the stream when each is written."""
    for block in blocks:
        yield block
        stream.flush()
