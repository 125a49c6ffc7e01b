"""Bring scores and true labels to the same points in the same order, and labels to the same numbers."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.api.memory import as_matrix, columns_of
from xmlgp.api.points import FilePath, LabelledPoints, TrainingData, is_matrix, is_path, title_of
from xmlgp.api.predict import Predictions, named_scores
from xmlgp.api.source import Source
from xmlgp.api.trained_model import TrainedModel
from xmlgp.api.true_labels import Purpose, are_numbers, true_labels
from xmlgp.data.dataset import Dataset, as_csr, widened
from xmlgp.data.label_pairs import read_pairs
from xmlgp.data.lines import LineReader
from xmlgp.data.matrix_files import read_matrix
from xmlgp.data.repository_format import INDEX_BOUND
from xmlgp.data.streams import open_input
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.label_reader import NamedScores, read_label_records, read_label_table, scores_of_records
from xmlgp.prediction.label_writer import format_of
from xmlgp.prediction.scores_file import Scores, read_open_scores
from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Reporter
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Columns
from xmlgp.text.labels import LabelNumbers
from xmlgp.text.names import Names

__all__ = ["Matched", "TrainingFacts", "matched", "training_facts"]

#: The name of a label that is a number.
NUMBER = re.compile("0|[1-9][0-9]{0,17}")


class TrainingFacts(NamedTuple):
    """What is known of training points or a model: the names of the K labels, N, D and K, and points per label."""

    names: Names = Names()
    shape: tuple[int, int, int] | None = None
    counts: NDArray[Any] | None = None


class Matched(NamedTuple):
    """Scores and true labels, a csr_array of bool, both of N points and K labels; messages call the scores `name`.

    The first `known` labels are those of the training points, or all without any; `counts` are the training points of
    all K, or None. `columns` maps the numbers of labels in the data to those here, if these are others.
    """

    name: str
    scores: Scores
    labels: csr_array
    known: int
    counts: NDArray[Any] | None = None
    columns: dict[int, int] | None = None

    def without(self, path: FilePath, note: Callable[[str], object]) -> Matched:
        """Return the same without the pairs of a point and a label in a file, neither as scores nor as true labels."""
        pairs = read_pairs(path, self.scores.N)
        columns = pairs[:, 1]
        if self.columns is not None:
            if not self.columns:
                raise SettingsError(f"{os.fspath(path)} has numbers of labels, but the labels of the data have names")
            columns = np.array([self.columns.get(label, -1) for label in columns.tolist()], np.int64)
        kept = (columns >= 0) & (columns < self.scores.K)
        left_out = (pairs[:, 0] * self.scores.K + columns)[kept]
        true_points = np.repeat(np.arange(self.scores.N), np.diff(self.labels.indptr))
        scored, true = (
            ~np.isin(points * self.scores.K + labels, left_out)
            for points, labels in ((self.scores.points, self.scores.labels), (true_points, self.labels.indices))
        )
        counts = [
            counted(int(np.count_nonzero(~kept)), noun) for kept, noun in ((scored, "score"), (true, "true label"))
        ]
        note(f"{os.fspath(path)}: left out {' and '.join(counts)}")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(true_points[true], minlength=self.scores.N))])
        labels = csr_array(as_csr(None, self.labels.indices[true], indptr, self.scores.K))
        return self._replace(scores=self.scores.where(scored), labels=labels)


def matched(
    predictions: Sequence[Any], labels: Source, train: Any, facts: TrainingFacts, reporter: Reporter
) -> list[Matched]:
    """Return each of several scores, see `evaluate`, with the true labels of a source, which are read once.

    SettingsError if the points or the labels are others.
    """
    listed = [_named_scores(scores, reporter) for scores in predictions]

    def columns() -> Columns | None:
        model = None if train is None else _known_model(train)
        return model.names.vectorizer.columns if model and model.names.vectorizer else None

    several = any(one.scores.K > 1 for one in listed)
    true = true_labels(labels, Purpose("test", columns, several), reporter)
    return [
        _match(scores, of_scores, labels.data, true, facts, reporter.note)
        for scores, of_scores in zip(predictions, listed, strict=True)
    ]


def _match(
    scores: Any,
    listed: NamedScores,
    labels: Any,
    true: LabelledPoints,
    facts: TrainingFacts,
    note: Callable[[str], object],
) -> Matched:
    """Return scores and true labels with the same points and numbers of labels; both are also as they were given."""
    name = title_of(scores, "the table of scores")
    data = title_of(labels, "the data")
    listed = _in_order(name, listed, data, true, note)
    known = facts.names.labels or (listed.names if isinstance(scores, Predictions) else None)
    if known is None and listed.names is None and true.ids is None and _are_rows(labels):
        # Labels of rows are numbers, even if these have names.
        true = true._replace(names=None)
    if known is None and true.names is None and is_matrix(scores):
        listed = listed._replace(names=None)
    if listed.names is None and true.names is None:
        matching = _of_numbers(name, listed.scores, data, true, facts)
    else:
        matching = _of_names(name, listed, data, true, known, facts)
    _note_missing(matching, data, facts, note)
    return matching


def _are_rows(data: Any) -> bool:
    return is_path(data) or is_matrix(data) or isinstance(data, Dataset | TrainingData)


def _named_scores(scores: Any, reporter: Reporter) -> NamedScores:
    """Return the scores of a file or of what Python has; see `evaluate`."""
    if is_path(scores):
        return _scores_in_file(os.fspath(scores), reporter)
    if isinstance(scores, Scores):
        return NamedScores(scores)
    if isinstance(scores, Predictions):
        listed = named_scores(scores)
        # Points without identifiers were counted.
        counted_points = list(range(1, listed.scores.N + 1))
        return listed._replace(ids=None) if listed.ids == counted_points else listed
    if isinstance(scores, TrainedModel) or hasattr(scores, "predict"):
        raise UsageError("The scores are a model: give what it predicts, such as predict(model, points, k='all').")
    if not are_numbers(scores):
        return scores_of_records(scores)
    return NamedScores(_scores_in_matrix(scores, "the table of scores"), columns_of(scores, "label"))


def _scores_in_file(path: str, reporter: Reporter) -> NamedScores:
    """Return the scores of a scores file, JSON Lines, a table, or a sparse matrix."""
    if os.path.isdir(path):
        raise SettingsError(f"{path} is a folder; the scores come first, then the data")
    if path.lower().endswith(".npz"):
        return NamedScores(_scores_in_matrix(read_matrix(path), path))
    kind = format_of(path)
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        first = reader.peek_line()
        if kind == "csv" or first.startswith(b"id,"):
            return read_label_table(reader, "csv")
        if kind == "tsv" or first.startswith(b"id\t"):
            return read_label_table(reader, "tsv")
        if kind == "jsonl" or first.lstrip().startswith(b"{"):
            return read_label_records(reader)
        return NamedScores(read_open_scores(reader, reporter.progress))


def _scores_in_matrix(table: Any, name: str) -> Scores:
    """Return the scores that a matrix stores, N×K; SettingsError, which calls it by a name, if some are no scores."""
    if len(table.shape) != 2 or table.shape[1] >= INDEX_BOUND or table.dtype.kind not in "biuf":
        raise SettingsError(f"{name}: scores are a matrix of real numbers, N×K, not {table.shape} of {table.dtype}")
    matrix = as_matrix(table)
    if not matrix.sorted_indices().has_canonical_format:
        raise SettingsError(f"{name}: a label occurs twice in a row")
    if not np.isfinite(matrix.data).all():
        raise SettingsError(f"{name}: a score is not a finite number")
    return Scores(matrix.indptr, matrix.indices.astype(np.int32, copy=False), matrix.data, matrix.shape[1])


def training_facts(train: Any, test: Source, reporter: Reporter) -> TrainingFacts:
    """Return the facts of training points, which are read as the `test` ones are, or of a model; all None without."""
    if train is None:
        return TrainingFacts()
    model = _known_model(train)
    if model is None:
        source = train if isinstance(train, Source) else dataclasses.replace(test, data=train, labels=None, dense=None)
        points = true_labels(source, Purpose("train", lambda: None, None), reporter)
        N, K = points.labels.shape
        return TrainingFacts(Names(points.names), (N, points.D, K), np.bincount(points.labels.indices, minlength=K))
    if isinstance(model, TrainedModel):
        data = model.data
        counts = model.label_counts
    else:
        data = model.description["data"]
        counts = model.array("parameters.statistics.labels")
    shape = data["N"], data["D"], data["K"]
    return TrainingFacts(model.names, shape, None if counts is None or counts.shape != shape[2:] else np.array(counts))


def _known_model(train: Any) -> TrainedModel | ModelFolder | None:
    """Return a model, or None for training points."""
    if is_path(train):
        return ModelFolder(train) if ModelFolder.exists(train) else None
    return train if isinstance(train, TrainedModel) else None


def _in_order(
    name: str, listed: NamedScores, data: str, true: LabelledPoints, note: Callable[[str], object]
) -> NamedScores:
    """Return the scores of the true points in their order, which are the same, or those with equal identifiers."""
    N = true.labels.shape[0]
    own = _identifiers(listed.ids)
    wanted = _identifiers(true.ids)
    numbers = [str(number) for number in range(1, N + 1)]
    if wanted is None and sorted(own or ()) == sorted(numbers):
        wanted = numbers
    if own is None or own == wanted or (wanted is None and listed.complete):
        if listed.scores.N != N:
            raise SettingsError(f"{name} has {counted(listed.scores.N, 'point')}, but {data} has {counted(N, 'point')}")
        if own != wanted and listed.names is not None:
            note(f"{name if own is None else data} has no identifiers, so points are matched by their order")
        return listed
    wanted = wanted or numbers
    places = dict(zip(own, range(len(own)), strict=True))
    for title, ids in (name, own), (data, wanted):
        if len(set(ids)) < len(ids):
            raise SettingsError(f"{title} has the identifier {excerpt(max(ids, key=ids.count))} twice")
    others = set(own).difference(wanted)
    missing = [identifier for identifier in wanted if identifier not in places]
    if others or (missing and listed.complete):
        which = (name, min(others), data) if others else (data, missing[0], name)
        raise SettingsError(f"{which[0]} has the point {excerpt(which[1])}, which {which[2]} has not")
    if missing:
        note(f"{name} has no labels of {len(missing)} of {N} points, such as {excerpt(missing[0])}")
    rows = np.array([places.get(identifier, -1) for identifier in wanted])
    scores = listed.scores
    counts = np.where(rows < 0, 0, np.diff(scores.indptr)[rows] if scores.N else 0)
    return listed._replace(scores=scores.gather(scores.indptr[rows], counts))


def _identifiers(ids: Sequence[Any] | None) -> list[str] | None:
    """Return identifiers with plain blanks, where one is missing the number of the point from 1; None without any."""
    if ids is None or all(own is None or not str(own).strip() for own in ids):
        return None
    return [" ".join(str(own or "").split()) or str(number) for number, own in enumerate(ids, 1)]


def _of_numbers(name: str, scores: Scores, data: str, true: LabelledPoints, facts: TrainingFacts) -> Matched:
    """Return `Matched` for labels without names."""
    if facts.shape:
        known = facts.shape[2]
    elif scores.open and true.open:
        known = max(scores.K, true.labels.shape[1])
    else:
        known = true.labels.shape[1] if scores.open else scores.K
    # A file that does not say how many labels there are may lack the last ones; true ones may be unknown.
    for title, count, fits in (
        (name, scores.K, known >= scores.K if scores.open else known == scores.K),
        (data, true.labels.shape[1], true.open or true.labels.shape[1] == known),
    ):
        if not fits:
            raise SettingsError(f"{title} has {counted(count, 'label')}, but there are {known}")
    K = max(known, true.labels.shape[1])
    labels = csr_array(widened(true.labels, K))
    return Matched(name, dataclasses.replace(scores, K=K), labels, known, _counts(facts, K))


def _of_names(
    name: str, listed: NamedScores, data: str, true: LabelledPoints, known: Sequence[str] | None, facts: TrainingFacts
) -> Matched:
    """Return `Matched` for labels with names: those `listed` in scores, true ones, and those known before."""
    if known is None and (listed.names is None or true.names is None):
        # Without names, a label is called by its number.
        known = list(map(str, range(true.labels.shape[1] if true.names is None else listed.scores.K)))
        known_names = set(known)
        named = data if listed.names is None else name
        other = next((label for label in listed.names or true.names or () if label not in known_names), None)
        if other is not None:
            raise SettingsError(
                f"{named} has names of labels, such as {excerpt(other)}, but {name if named == data else data} has "
                f"numbers below {len(known)}; `train=MODEL` gives the names of a model"
            )
    numbers = LabelNumbers(known or [], facts.names.same)
    of_true = _numbers_of(true.names, true.labels.shape[1], data, known, numbers)
    of_listed = _numbers_of(listed.names, listed.scores.K, name, known, numbers)
    names, positions = numbers.ordered()
    K = len(names)
    scores = dataclasses.replace(listed.scores, labels=positions[of_listed][listed.scores.labels], K=K)
    labels = csr_array(as_csr(None, positions[of_true][true.labels.indices], true.labels.indptr, K))
    labels.sum_duplicates()
    if listed.names is not None and true.names is not None and scores.labels.size and labels.nnz:
        common = set(scores.labels.tolist()).intersection([*range(len(known or ())), *labels.indices.tolist()])
        if not common:
            pair = f"such as {excerpt(listed.names[0])} and {excerpt(true.names[0])}"
            raise SettingsError(f"{name} and {data} have no label in common, {pair}")
    # The labels of documents have no numbers other than their names.
    if true.ids is None:
        columns = dict(enumerate(positions[of_true].tolist()))
    else:
        columns = {int(label): column for column, label in enumerate(names) if NUMBER.fullmatch(label)}
    return Matched(name, scores, labels, len(known or names), _counts(facts, K), columns)


def _numbers_of(
    names: Sequence[str] | None, count: int, title: str, known: Sequence[str] | None, numbers: LabelNumbers
) -> NDArray[np.int32]:
    """Return the numbers of labels with some names, or of as many as are known."""
    if names is None and known and len(known) < count:
        raise SettingsError(f"{title} has {counted(count, 'label')}, but there are names of {len(known)}")
    if names is None or names == known:
        return np.arange(count, dtype=np.int32)
    return np.array([numbers[label or str(position)] for position, label in enumerate(names)], np.int32)


def _counts(facts: TrainingFacts, K: int) -> NDArray[Any] | None:
    """Return the training points of K labels, of which those that are not known have none."""
    return None if facts.counts is None else np.pad(facts.counts, (0, K - len(facts.counts)))


def _note_missing(matching: Matched, data: str, facts: TrainingFacts, note: Callable[[str], object]) -> None:
    """Note the true labels that the scores never list, and of these the ones that are not known."""
    points = np.bincount(matching.labels.indices, minlength=matching.scores.K)
    points[matching.scores.labels] = 0
    missing = np.flatnonzero(points)
    if not len(missing):
        return
    share = f"{points.sum()} of {matching.labels.nnz} true labels"
    note(f"{matching.name} never lists {counted(len(missing), 'label')} of {data} ({share}), which count as missed")
    unknown = int(np.count_nonzero(missing >= matching.known))
    if unknown and facts.shape:
        note(f"{counted(unknown, 'of these is', 'of these are')} unknown to the model or the training data")
