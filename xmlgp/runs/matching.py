"""Bring scores and true labels, of any kind, to the same points in the same order, and labels to the same numbers."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr, widened
from xmlgp.data.dense_files import read_matrix
from xmlgp.data.file_kinds import refusal
from xmlgp.data.label_pairs import read_pairs
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.repository_format import INDEX_BOUND
from xmlgp.data.streams import open_any
from xmlgp.errors import SettingsError, UsageError
from xmlgp.inputs.kinds import FilePath, is_matrix, is_path, title_of
from xmlgp.inputs.memory import as_matrix, columns_of
from xmlgp.inputs.source import Source
from xmlgp.inputs.true_labels import LabelledPoints, Purpose, are_numbers, true_labels
from xmlgp.inputs.unknown_labels import unknown_labels
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.label_formats import format_of
from xmlgp.prediction.label_reader import (
    NamedScores,
    label_table_delimiter,
    read_label_records,
    read_label_table,
    scores_of_records,
)
from xmlgp.prediction.scores_file import Scores, read_open_scores
from xmlgp.prediction.table_output import TABLES
from xmlgp.runs.common_names import describe_difference
from xmlgp.runs.identifiers import IdentifiedPoints, matched_rows
from xmlgp.runs.predict import Predictions
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Reporter, ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.delimited import read_rows
from xmlgp.text.documents import Columns
from xmlgp.text.formats import has_corpus_ending
from xmlgp.text.labels import LabelNumbers
from xmlgp.text.table_files import open_table

__all__ = ["Matched", "TrainingFacts", "check_label_count", "known_model", "matched", "training_facts"]

#: The name of a label that is a number.
NUMBER = re.compile("0|[1-9][0-9]{0,17}")


#: Share of the true labels with a name that is listed, below which a note says so.
FEW = 0.1


class TrainingFacts(NamedTuple):
    """What is known of training points or a model: the names of the K labels, N, D and K, and points per label.

    `same` is as for `LabelNumbers`.
    """

    names: Sequence[str] | None = None
    shape: tuple[int, int, int] | None = None
    counts: NDArray[Any] | None = None
    same: Mapping[str, str] | None = None


class Matched(NamedTuple):
    """Scores and true labels, a csr_array of bool, both of N points and K labels or more.

    The first K are the known ones: those of the training points, or all without any. `unknown` has the true ones among
    the others, the most frequent first, with their points. `facts` returns the `TrainingFacts`. `columns` maps
    numbers that labels have in the data, an array, to their columns, −1 for others, or to None if they have names only.
    `names` are those of all labels if these are `named`, and `ids` the identifiers of the points, or None. Messages
    call the scores `name`.
    """

    scores: Scores
    labels: csr_array
    K: int
    unknown: dict[str, int]
    named: bool
    facts: Callable[[], TrainingFacts]
    columns: Callable[[NDArray[Any]], NDArray[Any] | None]
    names: Sequence[str] | None = None
    ids: Sequence[Any] | None = None
    name: str = ""

    def without(self, path: FilePath, note: Callable[[str], object]) -> Matched:
        """Return the same without the pairs of a point and a label in a file, neither as scores nor as true labels."""
        pairs = read_pairs(path, self.scores.N)
        columns = self.columns(pairs[:, 1])
        if columns is None:
            raise SettingsError(f"{os.fspath(path)} has numbers of labels, but the labels of the data have names")
        # A label that is neither scored nor true of any point has no column.
        left_out = (pairs[:, 0] * self.scores.K + columns)[columns >= 0]
        true_points = np.repeat(np.arange(self.scores.N), np.diff(self.labels.indptr))
        scored, true = (
            ~np.isin(points * self.scores.K + labels, left_out)
            for points, labels in ((self.scores.points, self.scores.labels), (true_points, self.labels.indices))
        )
        counts = [
            counted(int(np.count_nonzero(~kept)), noun) for kept, noun in ((scored, "score"), (true, "true label"))
        ]
        note(
            f"{os.fspath(path)}: {counted(len(pairs), 'pair')} of a point and a label left out: {' and '.join(counts)}"
        )
        indptr = np.concatenate([[0], np.cumsum(np.bincount(true_points[true], minlength=self.scores.N))])
        labels = csr_array(as_csr(None, self.labels.indices[true], indptr, self.scores.K))
        return self._replace(scores=self.scores.where(scored), labels=labels)

    def with_counts(self, train: Any, name: str) -> TrainingFacts:
        """Return the `TrainingFacts` with points per label for all labels, 0 after the first K; SettingsError if none.

        `train` are the training points, `name` is that of the scores, for messages.
        """
        facts = self.facts()
        training = title_of(train, "the model")
        check_label_count(training, facts.shape[2] if facts.shape else 0, self.K, name)
        if facts.counts is None:
            raise SettingsError(f"{training}: the model has no counts of its labels; give the training data instead")
        return facts._replace(counts=np.concatenate([facts.counts, np.zeros(self.scores.K - self.K, int)]))


def check_label_count(train: str, K: int, expected: int, other: str) -> None:
    """Raise SettingsError if training data have another number of labels than what they are compared with."""
    if expected != K:
        raise SettingsError(f"{train} has {counted(K, 'label')}, but {other} has {counted(expected, 'label')}")


def matched(predictions: Iterable[Any], labels: Source, train: Any, reporter: Reporter) -> Iterator[Matched]:
    """Yield `Matched` for each of several scores, see `evaluate`, with the true labels, which are read once."""
    facts_of = functools.cache(lambda named: training_facts(train, named, labels, reporter))

    @functools.cache
    def true_of(named: bool, several: bool) -> LabelledPoints:
        return true_labels(labels, Purpose("test", functools.partial(_columns, train), named, several), reporter)

    for scores in predictions:
        listed = _named_scores(scores, reporter)
        true = true_of(listed.names is not None, listed.scores.K > 1)
        has_columns = any((columns_of(scores, "label"), columns_of(labels.data, "label")))
        if has_columns and None in (listed.names, true.names) and facts_of(True).names is None:
            # Without names elsewhere, the columns of a DataFrame are labels by their places.
            listed = listed._replace(names=None)
            true = true._replace(names=None)
        named = listed.names is not None or true.names is not None
        matching = _match(scores, listed, labels.data, true, functools.partial(facts_of, named), reporter.note)
        yield matching._replace(name=title_of(scores, "the table of scores"))


def _named_scores(scores: Any, reporter: Reporter) -> NamedScores:
    """Return the scores of a file or of what Python has; see `evaluate`."""
    if is_path(scores):
        return _scores_in_file(os.fspath(scores), reporter)
    if isinstance(scores, Scores):
        return NamedScores(scores)
    if isinstance(scores, Predictions):
        return scores.named_scores()
    if isinstance(scores, TrainedModel) or hasattr(scores, "predict"):
        raise UsageError("The scores are a model: give what it predicts, such as predict(model, points, k='all').")
    if not are_numbers(scores):
        return scores_of_records(scores)
    return NamedScores(_scores_in_matrix(scores, "the table of scores"), columns_of(scores, "label"))


def _scores_in_file(path: str, reporter: Reporter) -> NamedScores:
    """Return the scores of a scores file, JSON Lines, a table, or a matrix."""
    if os.path.isdir(path):
        raise SettingsError(f"{path} is a folder; the scores come first, then the data")
    if path.lower().endswith((".npy", ".npz")):
        matrix = read_matrix(path)
        if matrix.dtype.kind not in "biuf":
            raise SettingsError(f"{path}: its values are of the type {matrix.dtype}, not real numbers")
        return NamedScores(_scores_in_matrix(matrix, path))
    with open_any(path) as opened:
        if opened.kind and opened.kind in TABLES.values():
            with open_table(opened.stream, opened.kind, path, reporter.note) as table:
                return read_label_table(table.rows, path)
        if opened.kind:
            raise refusal(opened.kind, path, opened.start)
        reader = LineReader(opened.stream, path)
        first = reader.peek_line()
        delimiter = label_table_delimiter(first) or {"csv": ",", "tsv": "\t"}.get(format_of(path) or "")
        if delimiter:
            # Tab-separated values have no quotes.
            return read_label_table(read_rows(decoded_lines(reader), path, delimiter, delimiter != "\t"), path)
        if has_corpus_ending(path) or first.lstrip().startswith(b"{"):
            return read_label_records(reader)
        return NamedScores(read_open_scores(reader, reporter.progress))


def _scores_in_matrix(table: Any, name: str) -> Scores:
    """Return the scores that a matrix stores, N×K; SettingsError, which calls it by a name, if some are no scores."""
    if len(table.shape) != 2 or table.shape[1] >= INDEX_BOUND:
        raise SettingsError(f"{name}: scores are a matrix N×K, with a row for each point, not {table.shape}")
    matrix = as_matrix(table, None, is_labels=True)
    if not matrix.sorted_indices().has_canonical_format:
        raise SettingsError(f"{name}: a label occurs twice in a row")
    if not np.isfinite(matrix.data).all():
        raise SettingsError(f"{name}: a score is not a finite number")
    return Scores(matrix.indptr, matrix.indices.astype(np.int32, copy=False), matrix.data, matrix.shape[1])


def training_facts(train: Any, named: bool, test: Source, reporter: Reporter) -> TrainingFacts:
    """Return the facts of training points, which are read as the `test` ones are, or of a model; all None without."""
    if train is None:
        return TrainingFacts()
    model = known_model(train)
    if model is None:
        source = train if isinstance(train, Source) else dataclasses.replace(test, data=train, labels=None, dense=None)
        points = true_labels(source, Purpose("train", lambda: None, named, None), reporter)
        N, K = points.labels.shape
        return TrainingFacts(points.names, (N, points.D, K), np.bincount(points.labels.indices, minlength=K))
    if isinstance(model, TrainedModel):
        data = model.data
        counts = model.label_counts
    else:
        data = model.description["data"]
        counts = model.array("parameters.statistics.labels")
    shape = data["N"], data["D"], data["K"]
    counts = None if counts is None or counts.shape != shape[2:] else np.array(counts)
    return TrainingFacts(model.names.labels, shape, counts, model.names.same)


def known_model(train: Any) -> TrainedModel | ModelFolder | None:
    """Return a model, or None for training points."""
    if is_path(train):
        return ModelFolder(train) if ModelFolder.exists(train) else None
    return train if isinstance(train, TrainedModel) else None


def _columns(train: Any) -> Columns | None:
    """Return the usual columns of a corpus, those of a model, if there is one."""
    model = None if train is None else known_model(train)
    return model.names.vectorizer.columns if model and model.names.vectorizer else None


def _match(
    scores: Any,
    listed: NamedScores,
    labels: Any,
    true: LabelledPoints,
    facts: Callable[[], TrainingFacts],
    note: Callable[[str], object],
) -> Matched:
    """Return scores and true labels with the same points and numbers of labels.

    `scores` and `labels` are what these were made of, for messages. SettingsError if the points or the labels are
    others.
    """
    name = title_of(scores, "the table of scores")
    data = title_of(labels, "the data")
    named = listed.names is not None or true.names is not None
    N, K = true.labels.shape
    if listed.scores.open:
        # Labels that the file does not list may be known to the model, the training points or the data.
        declared = len(facts().names or ()) if named else (true.open and facts().shape or (0, 0, K))[2]
        listed = listed._replace(scores=dataclasses.replace(listed.scores, K=max(listed.scores.K, declared)))
    # A scores file and an array have the order of the points, and so have what is predicted and labels in memory.
    in_order = listed.ids is None and (listed.names is None or is_matrix(scores))
    numbered = is_path(labels) and not isinstance(scores, Predictions)
    points = IdentifiedPoints(name, listed.ids, listed.scores.N, listed.complete)
    table = _of_same_points(points, listed, IdentifiedPoints(data, true.ids, N), numbered, ignore if in_order else note)
    if true.open and not named and table.N == N:
        return _of_numbers(table, true.labels, facts)._replace(ids=true.ids)
    if table.N != N or not (named or table.K == K):
        sizes = [
            counted(n, "point") if named else f"{counted(n, 'point')} and {counted(k, 'label')}"
            for n, k in ((table.N, table.K), (N, K))
        ]
        raise SettingsError(f"{name} has {sizes[0]}, but {data} has {sizes[1]}")
    if not named:
        return Matched(table, true.labels, K, {}, named, facts, functools.partial(_below, K), None, true.ids)
    known = facts().names or (listed.names if isinstance(scores, Predictions) or is_matrix(scores) else None)
    if known is None and listed.names is None:
        raise _nameless(name, data)
    return _of_names(table, listed.names, true, known, facts, _Titles(name, data, note))


class _Titles(NamedTuple):
    """What messages call scores and true labels, and what takes messages."""

    scores: str
    labels: str
    note: Callable[[str], object]


def _of_names(
    table: Scores,
    listed: Sequence[str] | None,
    true: LabelledPoints,
    known: Sequence[str] | None,
    facts: Callable[[], TrainingFacts],
    titles: _Titles,
) -> Matched:
    """Return `Matched` for labels with names: those `listed` in scores, true ones, and those `known` before."""
    K = true.labels.shape[1]
    numbers = LabelNumbers(known or ([] if true.names is not None else list(map(str, range(K)))), facts().same)
    of_true = _columns_of(true.names, K, titles.labels, known, numbers)
    of_listed = _columns_of(listed, table.K, titles.scores, known, numbers)
    if known is None and true.names is None and len(numbers.names) > K:
        new = numbers.names[K:]
        if all(label.isascii() and label.isdigit() for label in new):
            label = max(new, key=lambda name: (len(name), name))
            raise SettingsError(
                f"{titles.scores}: label {excerpt(label)} is not below {K}; the numbers of labels start from 0"
            )
        raise _nameless(titles.labels, titles.scores)
    names, positions = numbers.ordered()
    true_columns = positions[of_true]
    listed_columns = positions[of_listed]
    table = dataclasses.replace(table, labels=listed_columns[table.labels], K=len(names))
    matrix = csr_array(as_csr(None, true_columns[true.labels.indices], true.labels.indptr, len(names)))
    matrix.sum_duplicates()
    if true.names is not None:
        in_scores = None if listed is None else set(listed_columns.tolist())
        _check_common(names, in_scores, set(true_columns.tolist()), len(known) if known else None, titles)
        if in_scores and not known:
            _note_few_common(names, in_scores, matrix, titles)
    K = len(known or names)
    unknown = unknown_labels(names, matrix, K, table.labels)
    # The labels of a corpus, whose points have identifiers or None, have no numbers other than their names.
    pairs = zip(range(len(of_true)), true_columns.tolist(), strict=True) if true.ids is None else _numbers(names)
    columns = functools.partial(_columns_by_number, pairs)
    return Matched(table, matrix, K, unknown, True, facts, columns, names, true.ids)


def _columns_of(
    names: Sequence[str] | None, count: int, title: str, known: Sequence[str] | None, numbers: LabelNumbers
) -> NDArray[np.int32]:
    """Return the numbers of labels with some names; a label without a name is called by its number."""
    if names is None and known and len(known) != count:
        raise SettingsError(f"{title} has {counted(count, 'label')}, but there are names of {len(known)}")
    if names is None or names == known:
        return np.arange(count, dtype=np.int32)
    return np.array([numbers[label or str(position)] for position, label in enumerate(names)], np.int32)


def _of_numbers(table: Scores, labels: csr_array, facts: Callable[[], TrainingFacts]) -> Matched:
    """Return `Matched` for labels without names, whose number no file declares, and those that no score may be of."""
    known = table.K
    K = max(table.K, labels.shape[1])
    labels = csr_array(widened(labels, K))
    unknown = unknown_labels(list(map(str, range(K))), labels, known, table.labels)
    return Matched(dataclasses.replace(table, K=K), labels, known, unknown, False, facts, functools.partial(_below, K))


def _below(K: int, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels that are below K, and -1 in the place of others."""
    return np.where(labels < K, labels, -1)


def _numbers(names: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of names that are numbers, and the places of these names."""
    return ((int(name), place) for place, name in enumerate(names) if NUMBER.fullmatch(name))


def _columns_by_number(numbers: Iterable[tuple[int, int]], labels: NDArray[Any]) -> NDArray[Any] | None:
    """Return the columns of labels if there are pairs of their numbers and columns, −1 for those without one."""
    column_of = dict(numbers)
    return np.array([column_of.get(label, -1) for label in labels.tolist()], np.int64) if column_of else None


def _check_common(
    names: Sequence[str], listed: set[int] | None, true: set[int], K: int | None, titles: _Titles
) -> None:
    """Raise SettingsError if none of the true labels is known, or none of those that are listed is known or true.

    Both are sets of numbers of `names`. The first K are known; without any, K is None.
    """
    known = set(range(K or 0))
    if K and true and not true & known:
        difference = describe_difference(names[:K], _names_of(names, true))
        raise SettingsError(f"no label of {titles.labels} is known to the model or the training data, {difference}")
    if listed and true and not listed & (true | known):
        difference = describe_difference(_names_of(names, listed), _names_of(names, true))
        advice = "" if K else "; if these are other labels, `train=MODEL` tells which there are"
        raise SettingsError(f"{titles.scores} and {titles.labels} have no label in common, {difference}{advice}")


def _note_few_common(names: Sequence[str], listed: set[int], labels: csr_array, titles: _Titles) -> None:
    """Note that few true labels, N×K, have a name that is `listed`."""
    common = np.isin(labels.indices, list(listed)).sum()
    if not labels.nnz or common >= FEW * labels.nnz:
        return
    true = set(np.unique(labels.indices).tolist())
    text = f"only {common} of {labels.nnz} true labels in {titles.labels} have a name that {titles.scores} lists"
    if listed - true:
        difference = describe_difference(_names_of(names, listed - true), _names_of(names, true - listed))
        text += f"; others are {difference}"
    titles.note(text)


def _names_of(names: Sequence[str], numbers: Iterable[int]) -> list[str]:
    return [names[number] for number in sorted(numbers)]


def _nameless(one: str, other: str) -> SettingsError:
    return SettingsError(
        f"{one} has numbers of labels, but {other} has names; `train=MODEL` gives the names of a model"
    )


def _of_same_points(
    predicted: IdentifiedPoints,
    listed: NamedScores,
    true: IdentifiedPoints,
    numbered: bool,
    note: Callable[[str], object],
) -> Scores:
    """Return the scores of the true points, by identifier if both have them; see `matched_rows`."""
    rows = matched_rows(predicted, true, numbered, note) if predicted.N or predicted.complete else [-1] * true.N
    if rows is None:
        return listed.scores
    # The place -1 is that of points without labels.
    counts = np.append(np.diff(listed.scores.indptr), 0)
    return listed.scores.gather(listed.scores.indptr[rows], counts[rows])
