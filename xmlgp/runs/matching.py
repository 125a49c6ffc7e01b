"""Bring scores and true labels, of any kind, to the same points in the same order, and labels to the same numbers."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from numbers import Number
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Dataset, as_csr, widened
from xmlgp.data.label_pairs import read_pairs
from xmlgp.data.lines import LineReader
from xmlgp.data.locate import locate
from xmlgp.data.streams import open_input
from xmlgp.errors import SettingsError, UsageError
from xmlgp.model import MemoryPart, check_memory
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.label_formats import format_of
from xmlgp.prediction.label_reader import NamedScores, read_label_records, scores_of_records
from xmlgp.prediction.scores_file import Scores, read_open_scores
from xmlgp.runs.common_names import describe_difference
from xmlgp.runs.given import as_matrix, columns_of, is_matrix, is_path, label_of, labels_in_memory, unknown_labels
from xmlgp.runs.identifiers import IdentifiedPoints, matched_rows
from xmlgp.runs.predict import Predictions
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.formats import has_corpus_ending
from xmlgp.text.labels import LabelNumbers, label_matrix
from xmlgp.text.points import LabelledPoints, TrainingData, read_labels

__all__ = ["Matched", "TrainingFacts", "check_label_count", "known_model", "matched", "training_facts"]

#: The name of a label that is a number.
NUMBER = re.compile("0|[1-9][0-9]{0,17}")

#: Memory of the counts and propensities of a label, and of what these are computed from.
LABEL_BYTES = 40


#: Share of the true labels with a name that is listed, below which a note says so.
FEW = 0.1


class TrainingFacts(NamedTuple):
    """What is known of training points or a model: the names of the K labels, N, D and K, and points per label.

    `same` is as for `LabelNumbers`.
    """

    names: list | None = None
    shape: tuple | None = None
    counts: np.ndarray | None = None
    same: dict | None = None


class Matched(NamedTuple):
    """Scores and true labels, a csr_array of bool, both of N points and K labels or more.

    The first K are the known ones: those of the training points, or all without any. `unknown` has the true ones among
    the others, the most frequent first, with their points. `facts` returns the `TrainingFacts`. `columns` maps
    numbers that labels have in the data, an array, to their columns, −1 for others, or to None if they have names only.
    """

    scores: Scores
    labels: sp.csr_array
    K: int
    unknown: dict
    named: bool
    facts: Callable[[], TrainingFacts]
    columns: Callable[[np.ndarray], np.ndarray | None]

    def without(self, path: str | os.PathLike, note: Callable[[str], object]) -> Matched:
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
        labels = sp.csr_array(as_csr(None, self.labels.indices[true], indptr, self.scores.K))
        return self._replace(scores=self.scores.where(scored), labels=labels)

    def with_counts(self, train, name):
        """Return the `TrainingFacts` with points per label for all labels, 0 after the first K; SettingsError if none.

        `train` are the training points, `name` is that of the scores, for messages.
        """
        facts = self.facts()
        training = label_of(train, "the model")
        check_label_count(training, facts.shape[2], self.K, name)
        if facts.counts is None:
            raise SettingsError(f"{training}: the model has no counts of its labels; give the training data instead")
        return facts._replace(counts=np.concatenate([facts.counts, np.zeros(self.scores.K - self.K, int)]))


def check_label_count(train, K, expected, other):
    """Raise SettingsError if training data have another number of labels than what they are compared with."""
    if expected != K:
        raise SettingsError(f"{train} has {counted(K, 'label')}, but {other} has {counted(expected, 'label')}")


def matched(files, labels, train, corpus, cache, progress, note):
    """Yield `Matched` for each of several scores, see `evaluate`, with the true labels, which are read once."""
    reading = corpus, cache, progress, note
    facts_of = functools.cache(lambda named: training_facts(train, named, *reading))
    columns = functools.partial(_columns, train)
    true_of = functools.cache(lambda *how: _true_labels(labels, "test", columns, *how, *reading))
    for scores in files:
        listed = _named_scores(scores, progress)
        true = true_of(listed.names is not None, listed.scores.K > 1)
        tables = columns_of(scores, "label"), columns_of(labels, "label")
        if any(tables) and None in (listed.names, true.names) and facts_of(True).names is None:
            # Without names elsewhere, the columns of a DataFrame are labels by their places.
            listed = listed._replace(names=None)
            true = true._replace(names=None)
        named = listed.names is not None or true.names is not None
        yield _match(scores, listed, labels, true, named, functools.partial(facts_of, named), note)


def _named_scores(scores, progress):
    """Return the `NamedScores` of a scores file, of JSON Lines, or of what Python has; see `evaluate`."""
    if is_path(scores):
        path = os.fspath(scores)
        if os.path.isdir(path):
            raise SettingsError(f"{path} is a folder; the scores come first, then the data")
        if format_of(path) not in (None, "jsonl"):
            raise SettingsError(
                f"{path}: tables are not read as scores; JSON Lines are, as `xmlgp predict --format jsonl` writes them"
            )
        with open_input(path) as stream:
            reader = LineReader(stream, path)
            first = reader.peek_line()
            if has_corpus_ending(path) or first.lstrip().startswith(b"{"):
                return read_label_records(reader)
            return NamedScores(read_open_scores(reader, progress))
    if isinstance(scores, Scores):
        return NamedScores(scores)
    if isinstance(scores, Predictions):
        return scores.named_scores()
    if isinstance(scores, TrainedModel) or hasattr(scores, "predict"):
        raise UsageError("The scores are a model: give what it predicts, such as predict(model, points, k='all').")
    if not _are_numbers(scores):
        return scores_of_records(scores)
    matrix = as_matrix(scores, None, is_labels=True)
    return NamedScores(Scores(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1]), columns_of(scores, "label"))


def _true_labels(labels, part, columns, named, several, corpus, cache, progress, note):
    """Return the `LabelledPoints` of a file, a data set, a matrix or lists of names, with names if these are needed.

    `part` is as for `locate`, the others as for `read_labels`.
    """
    if is_path(labels):
        return read_labels(locate(labels, part), columns, named, several, corpus, cache, progress, note)
    names = labels.names.labels if isinstance(labels, TrainingData) else None
    dataset = labels.dataset if isinstance(labels, TrainingData) else labels
    if isinstance(dataset, Dataset):
        return LabelledPoints(dataset.labels, names, None, dataset.D)
    if isinstance(labels, Predictions | Scores):
        raise _scores_first()
    if _are_numbers(labels):
        if (as_matrix(labels, float, is_labels=True).data % 1).any():
            raise _scores_first()
        return LabelledPoints(labels_in_memory(labels, np.shape(labels)[0]), columns_of(labels, "label"))
    if any(isinstance(own, dict) or (isinstance(own, list) and own and isinstance(own[0], tuple)) for own in labels):
        raise _scores_first()
    names, matrix = label_matrix(labels)
    return LabelledPoints(matrix, names)


def training_facts(train, named, corpus, cache, progress, note):
    """Return the `TrainingFacts` of training points or of a model; without any, all is None."""
    if train is None:
        return TrainingFacts()
    model = known_model(train)
    if model is None:
        points = _true_labels(train, "train", lambda: None, named, None, corpus, cache, progress, note)
        N, K = points.labels.shape
        check_memory("evaluation", [MemoryPart("counts and propensities of labels", LABEL_BYTES * K)])
        return TrainingFacts(points.names, (N, points.D, K), np.bincount(points.labels.indices, minlength=K))
    if isinstance(model, TrainedModel):
        data = model.data
        counts = model.parameters.get("statistics.labels")
    else:
        data = model.description["data"]
        counts = model.array("parameters.statistics.labels")
    shape = tuple(data[name] for name in "NDK")
    counts = None if counts is None or counts.shape != shape[2:] else np.array(counts)
    return TrainingFacts(model.names.labels if named else None, shape, counts, model.names.same)


def known_model(train):
    """Return a `TrainedModel` or a `ModelFolder`, or None for training points."""
    if is_path(train):
        return ModelFolder(train) if ModelFolder.exists(train) else None
    return train if isinstance(train, TrainedModel) else None


def _columns(train):
    """Return the usual columns of a corpus, those of a model, or None."""
    model = None if train is None else known_model(train)
    return model and model.names.vectorizer and model.names.vectorizer.columns


def _match(scores, listed, labels, true, named, facts, note):
    """Return scores (`NamedScores`) and true labels (`LabelledPoints`), of which one may be `named`, as `Matched`.

    `scores` and `labels` are what these were made of, for messages. SettingsError if the points or the labels are
    others.
    """
    name = label_of(scores, "the table of scores")
    data = label_of(labels, "the data")
    N, K = true.labels.shape
    # A scores file and an array have the order of the points, and so have what is predicted and labels in memory.
    in_order = listed.ids is None and (listed.names is None or is_matrix(scores))
    numbered = is_path(labels) and not isinstance(scores, Predictions)
    points = IdentifiedPoints(name, listed.ids, listed.scores.N)
    table = _of_same_points(points, listed, IdentifiedPoints(data, true.ids, N), numbered, ignore if in_order else note)
    if true.open and not named and table.N == N:
        return _of_numbers(table, true.labels, facts)
    if table.N != N or not (named or table.K == K):
        sizes = [
            counted(n, "point") + f" and {counted(k, 'label')}" * (not named) for n, k in ((table.N, table.K), (N, K))
        ]
        raise SettingsError(f"{name} has {sizes[0]}, but {data} has {sizes[1]}")
    if not named:
        return Matched(table, true.labels, K, {}, named, facts, functools.partial(_below, K))
    known = facts().names or (listed.names if isinstance(scores, Predictions) or is_matrix(scores) else None)
    if known is None and listed.names is None:
        raise _nameless(name, data)
    numbers = LabelNumbers(known or ([] if true.names is not None else list(map(str, range(K)))), facts().same)
    columns = []
    for what, own, count in (data, true.names, K), (name, listed.names, table.K):
        if own is None and known and len(known) != count:
            raise SettingsError(f"{what} has {counted(count, 'label')}, but there are names of {len(known)}")
        same = own is None or own == known
        # A label without a name is called by its number.
        found = range(count) if same else [numbers[label or str(place)] for place, label in enumerate(own)]
        columns.append(np.array(found, np.int32))
    if known is None and true.names is None and len(numbers.names) > K:
        new = numbers.names[K:]
        if all(label.isascii() and label.isdigit() for label in new):
            label = max(new, key=lambda name: (len(name), name))
            raise SettingsError(f"{name}: label {excerpt(label)} is not below {K}; the numbers of labels start from 0")
        raise _nameless(data, name)
    names, places = numbers.ordered()
    table = dataclasses.replace(table, labels=places[columns[1]][table.labels], K=len(names))
    matrix = sp.csr_array(as_csr(None, places[columns[0]][true.labels.indices], true.labels.indptr, len(names)))
    matrix.sum_duplicates()
    if true.names is not None:
        own = None if listed.names is None else set(places[columns[1]].tolist())
        _check_common(names, own, set(places[columns[0]].tolist()), known and len(known), name, data)
        if own and not known:
            _note_few_common(names, own, matrix, name, data, note)
    K = len(known or names)
    unknown = unknown_labels(names, matrix, K, table.labels)
    # The labels of a corpus, whose points have identifiers or None, have no numbers other than their names.
    numbers = zip(range(len(columns[0])), places[columns[0]], strict=True) if true.ids is None else _numbers(names)
    return Matched(table, matrix, K, unknown, named, facts, functools.partial(_columns_by_number, numbers))


def _of_numbers(table: Scores, labels: sp.csr_array, facts: Callable[[], TrainingFacts]) -> Matched:
    """Return `Matched` for labels without names, whose number no file declares, and those that no score may be of."""
    known = table.K
    K = max(table.K, labels.shape[1])
    labels = sp.csr_array(widened(labels, K))
    unknown = unknown_labels(list(map(str, range(K))), labels, known, table.labels)
    return Matched(dataclasses.replace(table, K=K), labels, known, unknown, False, facts, functools.partial(_below, K))


def _below(K: int, labels: np.ndarray) -> np.ndarray:
    """Return labels that are below K, and -1 in the place of others."""
    return np.where(labels < K, labels, -1)


def _numbers(names: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of names that are numbers, and the places of these names."""
    return ((int(name), place) for place, name in enumerate(names) if NUMBER.fullmatch(name))


def _columns_by_number(numbers: Iterable[tuple[int, int]], labels: np.ndarray) -> np.ndarray | None:
    """Return the columns of labels if there are pairs of their numbers and columns, −1 for those without one."""
    column_of = dict(numbers)
    return np.array([column_of.get(label, -1) for label in labels.tolist()], np.int64) if column_of else None


def _check_common(names, listed, true, K, name, data):
    """Raise SettingsError if none of the true labels is known, or none of those that are listed is known or true.

    Both are sets of numbers of `names`, `listed` of the file `name` or None, `true` of `data`. The first K are known;
    without any, K is None.
    """
    known = set(range(K or 0))
    if K and true and not true & known:
        difference = describe_difference(names[:K], _names_of(names, true))
        raise SettingsError(f"no label of {data} is known to the model or the training data, {difference}")
    if listed and true and not listed & (true | known):
        difference = describe_difference(_names_of(names, listed), _names_of(names, true))
        advice = "" if K else "; if these are other labels, `train=MODEL` tells which there are"
        raise SettingsError(f"{name} and {data} have no label in common, {difference}{advice}")


def _note_few_common(names, listed, labels, name, data, note):
    """Note that few true labels, N×K, have a name that is `listed`."""
    common = np.isin(labels.indices, list(listed)).sum()
    if labels.nnz and common < FEW * labels.nnz:
        true = set(np.unique(labels.indices).tolist())
        text = f"only {common} of {labels.nnz} true labels in {data} have a name that {name} lists"
        if listed - true:
            text += (
                f"; others are {describe_difference(_names_of(names, listed - true), _names_of(names, true - listed))}"
            )
        note(text)


def _names_of(names, numbers):
    return [names[number] for number in sorted(numbers)]


def _scores_first():
    return SettingsError("the true labels are scores or predictions; the scores come first: evaluate(scores, labels)")


def _nameless(one, other):
    return SettingsError(
        f"{one} has numbers of labels, but {other} has names; `train=MODEL` gives the names of a model"
    )


def _of_same_points(predicted, listed, true, numbered, note):
    """Return the `Scores` of the true points, by identifier if both have them; see `matched_rows`."""
    rows = matched_rows(predicted, true, numbered, note)
    if rows is None:
        return listed.scores
    return listed.scores.gather(listed.scores.indptr[rows], np.diff(listed.scores.indptr)[rows])


def _are_numbers(rows):
    """Return whether rows are a table of numbers, not lists of names or records."""
    if is_matrix(rows):
        return True
    if any(isinstance(row, Number) for row in rows):
        raise SettingsError("numbers in one dimension are no labels; one label is a column, np.reshape(y, (-1, 1))")
    return any(isinstance(next(iter(row), None), Number) for row in rows)
