"""Bring scores and true labels to the same points in the same order, and labels to the same numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from xmlgp.api.memory import as_array, as_matrix, columns_of
from xmlgp.api.points import LabelledPoints, is_matrix
from xmlgp.api.predict import Predictions, named_scores
from xmlgp.api.source import Source, is_path, title_of
from xmlgp.api.trained_model import TrainedModel, load
from xmlgp.api.true_labels import is_table_of_numbers, true_labels
from xmlgp.data.dataset import as_csr, widen
from xmlgp.data.files import open_input
from xmlgp.data.lines import LineReader
from xmlgp.data.matrix_files import listed_entries, read_matrix
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.label_reader import NamedScores, read_label_records, read_label_table, scores_of_records
from xmlgp.prediction.label_writer import format_of
from xmlgp.prediction.scores_file import MOST_LABELS, Scores, read_open_scores
from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Reporter
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.labels import LabelNumbers
from xmlgp.text.names import Names

__all__ = ["Matched", "TrainingFacts", "matched", "training_facts"]

Note = Callable[[str], object]


class TrainingFacts(NamedTuple):
    """Facts of training points or of a model: the names of the K labels, N, D and K, and the points of each label."""

    names: Names = Names()
    shape: tuple[int, int, int] | None = None
    counts: NDArray[Any] | None = None


class Matched(NamedTuple):
    """Scores and true labels, a csr_array of bool, both of N points and K labels; messages call the scores `name`.

    `counts` are the training points of the K labels, or None.
    """

    name: str
    scores: Scores
    labels: csr_array
    counts: NDArray[Any] | None


def training_facts(train: Any, test: Source, reporter: Reporter) -> TrainingFacts:
    """Return the facts of training points, which are read as the `test` ones are, or of a model; all None without."""
    if train is None:
        return TrainingFacts()
    if is_path(train) and ModelFolder.exists(train):
        train = load(train)
    if isinstance(train, TrainedModel):
        data = train.data
        return TrainingFacts(train.names, (data["N"], data["D"], data["K"]), train.label_counts)
    source = train if isinstance(train, Source) else replace(test, data=train, labels=None, dense=None)
    points = true_labels(source, "train", reporter)
    N, K = points.labels.shape
    return TrainingFacts(Names(points.names), (N, points.D, K), np.bincount(points.labels.indices, minlength=K))


def matched(
    predictions: Sequence[Any], test: Source, facts: TrainingFacts, most: int, reporter: Reporter
) -> list[Matched]:
    """Return each of several scores, see `evaluate`, with the true labels of a source, which are read once.

    Of a dense table, only the `most` highest scores of each point are kept, and those equal to them. SettingsError if
    the points or the labels are others.
    """
    listed = [_named_scores(scores, most, reporter) for scores in predictions]
    columns = facts.names.vectorizer.columns if facts.names.vectorizer else None
    multilabel = any(one.scores.K > 1 for one in listed)
    true = true_labels(test, "test", reporter, columns, multilabel)
    data = title_of(test.data, "the data")
    found = []
    for given, scores in zip(predictions, listed, strict=True):
        name = str(given.model) if isinstance(given, Predictions) else title_of(given, "the table of scores")
        scores = _in_order(name, scores, data, true, reporter.note)
        own = true
        if facts.names.labels is None and true.ids is None and not isinstance(test.data, list | tuple):
            # Labels of rows and of columns have numbers, which count where one of both has no names.
            own = true if scores.names else true._replace(names=None)
            by_column = true.names is None and (is_matrix(given) or isinstance(given, Predictions))
            scores = scores._replace(names=None) if by_column else scores
        matching = _match(name, scores, data, own, facts)
        _note_missing(matching, data, facts, reporter.note)
        found.append(matching)
    return found


def _named_scores(scores: Any, most: int, reporter: Reporter) -> NamedScores:
    """Return the scores of a file or of what Python has; see `evaluate`."""
    if is_path(scores):
        return _scores_in_file(os.fspath(scores), most, reporter)
    if isinstance(scores, Scores):
        return NamedScores(scores)
    if isinstance(scores, Predictions):
        listed = named_scores(scores)
        # Points without identifiers were counted.
        counted_points = list(range(1, listed.scores.N + 1))
        return listed._replace(ids=None) if listed.ids == counted_points else listed
    if isinstance(scores, TrainedModel) or hasattr(scores, "predict"):
        raise UsageError("The scores are a model: give what it predicts, such as predict(model, points, k='all').")
    if not is_table_of_numbers(scores):
        return scores_of_records(scores)
    name = "the table of scores"
    return NamedScores(_scores_in_matrix(scores, name, most, reporter.note), columns_of(scores, "label"))


def _scores_in_file(path: str, most: int, reporter: Reporter) -> NamedScores:
    """Return the scores of a scores file, JSON Lines, a table, or a matrix."""
    if os.path.isdir(path):
        raise SettingsError(f"{path} is a folder; the scores come first, then the data")
    if path.lower().endswith((".npy", ".npz")):
        return NamedScores(_scores_in_matrix(read_matrix(path), path, most, reporter.note))
    format = format_of(path)
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        first = reader.peek_line()
        if format == "jsonl" or first.lstrip().startswith(b"{"):
            return read_label_records(reader)
        for name, start in ("csv", b"id,"), ("tsv", b"id\t"):
            if format == name or first.startswith(start):
                return read_label_table(reader, name)
        return NamedScores(read_open_scores(reader))


def _scores_in_matrix(table: Any, name: str, most: int, note: Note) -> Scores:
    """Return the scores that a matrix lists, N×K; SettingsError, which calls it by a name, if some are no scores."""
    if not issparse(table):
        table = as_array(table)
    if len(table.shape) != 2 or not 1 <= table.shape[1] <= MOST_LABELS or table.dtype.kind not in "biuf":
        raise SettingsError(
            f"{name}: scores are a matrix of real numbers, N×K, not {table.shape} of {table.dtype}; of a list of K "
            "arrays N×2, which some classifiers give, take column 1 of each"
        )
    is_negative = np.min(table.data if issparse(table) else table, initial=0) < 0
    # 0 is the highest log probability; of data with one label, each point has a score.
    with_zeros = is_negative or table.shape[1] == 1
    matrix = as_matrix(table).sorted_indices() if issparse(table) else listed_entries(table, most, with_zeros)
    if not matrix.has_canonical_format:
        raise SettingsError(f"{name}: a label occurs twice in a row")
    if not np.isfinite(matrix.data).all():
        raise SettingsError(f"{name}: a score is not a finite number")
    if is_negative:
        note(f"{name} has negative scores, so none is a probability, and 0 counts as a score")
    return Scores(matrix.indptr, matrix.indices.astype(np.int32, copy=False), matrix.data, matrix.shape[1])


def _in_order(name: str, listed: NamedScores, data: str, true: LabelledPoints, note: Note) -> NamedScores:
    """Return the scores of the true points in their order, which are the same, or those with equal identifiers."""
    N = true.labels.shape[0]
    own = _identifiers(listed.ids)
    wanted = _identifiers(true.ids)
    numbers = list(map(str, range(1, N + 1)))
    if wanted is None and own is not None and (not listed.complete or sorted(own) == sorted(numbers)):
        wanted = numbers
    if own is None or wanted is None or own == wanted:
        if listed.scores.N != N:
            raise SettingsError(f"{name} has {counted(listed.scores.N, 'point')}, but {data} has {counted(N, 'point')}")
        if own != wanted and listed.names is not None:
            note(f"{name if own is None else data} has no identifiers, so points are matched by their order")
        return listed
    for title, ids in (name, own), (data, wanted):
        if len(set(ids)) < len(ids):
            raise SettingsError(f"{title} has the identifier {excerpt(max(ids, key=ids.count))} twice")
    places = dict(zip(own, range(len(own)), strict=True))
    missing = [identifier for identifier in wanted if identifier not in places]
    refused = missing if listed.complete else ()
    for title, found, other in (name, set(own).difference(wanted), data), (data, refused, name):
        if found:
            raise SettingsError(f"{title} has the point {excerpt(min(found))}, which {other} has not")
    if missing:
        note(f"{name} lists no labels of {len(missing)} of {N} points, such as {excerpt(missing[0])}")
    # One more point, at the end, has no scores.
    rows = [places.get(identifier, -1) for identifier in wanted]
    counts = np.append(np.diff(listed.scores.indptr), 0)[rows]
    return listed._replace(scores=listed.scores.gather(listed.scores.indptr[rows], counts))


def _identifiers(ids: Sequence[Any] | None) -> list[str] | None:
    """Return identifiers with plain blanks, where one is missing the number of the point from 1; None without any."""
    texts = [" ".join(str("" if id is None else id).split()) for id in ids or ()]
    return [text or str(number) for number, text in enumerate(texts, 1)] if any(texts) else None


def _match(name: str, listed: NamedScores, data: str, true: LabelledPoints, facts: TrainingFacts) -> Matched:
    """Return scores and true labels of the same points with the same numbers of labels."""
    scores = listed.scores
    labels = true.labels
    if listed.names is None and true.names is None:
        K = _label_count(name, scores, data, true, facts)
    else:
        names, of_listed, of_true = _number_names(name, listed, data, true, facts)
        K = len(names)
        scores = replace(scores, labels=of_listed[scores.labels])
        labels = as_csr(None, of_true[labels.indices], labels.indptr, K)
        labels.sum_duplicates()
    counts = None if facts.counts is None else np.pad(facts.counts, (0, K - len(facts.counts)))
    return Matched(name, replace(scores, K=K), csr_array(widen(labels, K)), counts)


def _label_count(name: str, scores: Scores, data: str, true: LabelledPoints, facts: TrainingFacts) -> int:
    """Return how many labels there are, without names; SettingsError if what says so disagrees."""
    true_count = true.labels.shape[1]
    declared = [] if facts.shape is None else [facts.shape[2]]
    declared += [] if scores.open else [scores.K]
    declared += [] if true.open else [true_count]
    # A file that does not say how many labels there are may lack the last ones; true ones may be unknown.
    if declared and (len(set(declared)) > 1 or max(declared) < scores.K):
        training = f" and the training data {facts.shape[2]}" if facts.shape else ""
        raise SettingsError(f"{name} has {counted(scores.K, 'label')}, but {data} has {true_count}{training}")
    return int(max(scores.K, true_count, *declared))


def _number_names(
    name: str, listed: NamedScores, data: str, true: LabelledPoints, facts: TrainingFacts
) -> tuple[list[str], NDArray[np.int32], NDArray[np.int32]]:
    """Return the names of all labels, and the numbers of those in scores and of the true ones among them."""
    known = facts.names.labels
    sides = [(name, listed.names, listed.scores.K), (data, true.names, true.labels.shape[1])]
    if known is None and (listed.names is None or true.names is None):
        (title, names, _), (other, _, K) = sorted(sides, key=lambda side: side[1] is None)
        # Without names, a label is called by its number.
        known = list(map(str, range(K)))
        unknown = set(names or ()).difference(known)
        if unknown:
            raise SettingsError(
                f"{title} has names of labels, such as {excerpt(min(unknown))}, but {other} has numbers below {K}; "
                "`train=MODEL` gives the names of a model"
            )
    numbers = LabelNumbers(known or listed.names or (), facts.names.same)
    found = []
    for title, names, K in sides:
        if names is None and known and len(known) < K:
            raise SettingsError(f"{title} has {counted(K, 'label')}, but there are names of {len(known)}")
        texts = (known or ())[:K] if names is None else names
        found.append([numbers[text or str(position)] for position, text in enumerate(texts)])
    all_names, positions = numbers.ordered()
    of_listed, of_true = (positions[np.array(side, np.int32)] for side in found)
    return all_names, of_listed, of_true


def _note_missing(matching: Matched, data: str, facts: TrainingFacts, note: Note) -> None:
    """Note the true labels that the scores never list, and of these the ones that are new to the model."""
    points = np.bincount(matching.labels.indices, minlength=matching.scores.K)
    points[matching.scores.labels] = 0
    missing = np.flatnonzero(points)
    if not len(missing):
        return
    share = f"{points.sum()} of {matching.labels.nnz} true labels"
    longest = np.diff(matching.scores.indptr).max()
    labels = f"{counted(len(missing), 'label')} of {data} among the first {longest}"
    note(f"{matching.name} never lists {labels} ({share}), which count as missed")
    unknown = int(np.count_nonzero(missing >= facts.shape[2])) if facts.shape else 0
    if unknown:
        note(f"{counted(unknown, 'of these is', 'of these are')} unknown to the model or the training data")
