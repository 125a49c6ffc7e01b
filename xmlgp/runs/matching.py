"""Bring scores and true labels, of any kind, to the same points in the same order, and labels to the same numbers."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from numbers import Number
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.errors import SettingsError, UsageError
from xmlgp.model import MemoryPart, check_memory, counted
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.label_files import NamedScores, format_of, read_label_records, scores_of_records
from xmlgp.prediction.scores_file import Scores, read_open_scores
from xmlgp.runs.given import as_matrix, columns_of, is_matrix, is_path, label_of, labels_in_memory, unknown_labels
from xmlgp.runs.predict import Predictions
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.corpus import has_corpus_ending
from xmlgp.text.labels import LabelNumbers, label_matrix
from xmlgp.text.points import LabelledPoints, TrainingData, read_labels

__all__ = ["Matched", "TrainingFacts", "check_label_count", "known_model", "matched", "training_facts"]

#: Memory of the counts and propensities of a label, and of what these are computed from.
LABEL_BYTES = 40


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
    the others, the most frequent first, with their points. `facts` returns the `TrainingFacts`.
    """

    scores: Scores
    labels: sp.csr_array
    K: int
    unknown: dict
    named: bool
    facts: Callable[[], TrainingFacts]

    def with_counts(self, train, name):
        """Return the `TrainingFacts` with points per label for all labels, 0 after the first K; SettingsError if none.

        `train` are the training points, `name` is that of the scores, for messages.
        """
        facts, training = self.facts(), label_of(train, "the model")
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
    true_of = functools.cache(lambda named: _true_labels(labels, "test", named, lambda: _columns(train), *reading))
    for scores in files:
        listed = _named_scores(scores, progress)
        true = true_of(listed.names is not None)
        tables = columns_of(scores, "label"), columns_of(labels, "label")
        if any(tables) and None in (listed.names, true.names) and facts_of(True).names is None:
            # Without names elsewhere, the columns of a DataFrame are labels by their places.
            listed, true = listed._replace(names=None), true._replace(names=None)
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
                f"{path}: tables are not read as scores; `xmlgp predict --format jsonl` writes JSON Lines, which are"
            )
        with open_input(path) as stream:
            reader = LineReader(stream, path)
            first = reader.peek_line()
            if has_corpus_ending(path) or first.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
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
    matrix = sp.csr_array(scores)
    return NamedScores(Scores(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1]), columns_of(scores, "label"))


def _true_labels(labels, part, named, columns, corpus, cache, progress, note):
    """Return the `LabelledPoints` of a file, a data set, a matrix or lists of names, with names if these are needed.

    `part` and `columns` are as for `read_labels`.
    """
    if is_path(labels):
        return read_labels(labels, part, columns, named, corpus, cache, progress, note)
    names = labels.names.labels if isinstance(labels, TrainingData) else None
    dataset = labels.dataset if isinstance(labels, TrainingData) else labels
    if isinstance(dataset, Dataset):
        return LabelledPoints(dataset.labels, names, None, dataset.D)
    if isinstance(labels, Predictions | Scores):
        raise _scores_first()
    if _are_numbers(labels):
        if (as_matrix(labels, float).data % 1).any():
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
        points = _true_labels(train, "train", named, lambda: None, corpus, cache, progress, note)
        N, K = points.labels.shape
        check_memory("evaluation", [MemoryPart("counts and propensities of labels", LABEL_BYTES * K)])
        return TrainingFacts(points.names, (N, points.D, K), np.bincount(points.labels.indices, minlength=K))
    if isinstance(model, TrainedModel):
        data, counts = model.data, model.parameters.get("statistics.labels")
    else:
        data, counts = model.description["data"], model.array("parameters.statistics.labels")
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
    name, data = label_of(scores, "the table of scores"), label_of(labels, "the data")
    N, K = true.labels.shape
    table = _of_same_points(name, listed, data, true.ids, N, note)
    if table.N != N or not (named or table.K == K):
        sizes = [
            counted(n, "point") + f" and {counted(k, 'label')}" * (not named) for n, k in ((table.N, table.K), (N, K))
        ]
        raise SettingsError(f"{name} has {sizes[0]}, but {data} has {sizes[1]}")
    if not named:
        return Matched(table, true.labels, K, {}, named, facts)
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
    K = len(known or names)
    return Matched(table, matrix, K, unknown_labels(names, matrix, K, table.labels), named, facts)


def _scores_first():
    return SettingsError("the true labels are scores or predictions; the scores come first: evaluate(scores, labels)")


def _nameless(one, other):
    return SettingsError(
        f"{one} has numbers of labels, but {other} has names; `train=MODEL` gives the names of a model"
    )


def _of_same_points(name, listed, data, ids, N, note):
    """Return the `Scores` of the points with these identifiers, by which points are matched if both have them.

    Those of data without any are the numbers from 1.
    """
    if listed.ids is None or (ids is None and len(listed.ids) != N):
        return listed.scores
    pair = listed.ids, ids or [None] * N
    own, wanted = ([str(number if i is None else i) for number, i in enumerate(part, 1)] for part in pair)
    numbers = [str(number) for number in range(1, max(len(own), N) + 1)]
    places = dict(zip(own, range(len(own)), strict=True))
    missing = next((i for i in wanted if i not in places), None)
    # What was predicted without identifiers is numbered, from 0 by pandas.
    counted_own = own in (numbers[: len(own)], ["0", *numbers][: len(own)])
    if own == wanted or (missing is not None and (counted_own or wanted == numbers[:N])):
        if not counted_own and own != wanted:
            note(f"{name} has identifiers, but {data} has none, so points are matched by their order")
        return listed.scores
    if missing is not None:
        raise SettingsError(f"{name} has no labels of {excerpt(missing)}, a point of {data}")
    if len(places) < len(own):
        twice = next(i for place, i in enumerate(own) if places[i] != place)
        raise SettingsError(f"{name} has {excerpt(twice)} twice")
    if len(own) > len(set(wanted)):
        note(f"{name}: {len(own) - len(set(wanted))} of {len(own)} points are not in {data} and left out")
    rows = np.array([places[i] for i in wanted])
    return listed.scores.gather(listed.scores.indptr[rows], np.diff(listed.scores.indptr)[rows])


def _are_numbers(rows):
    """Return whether rows are a table of numbers, not lists of names or records."""
    return is_matrix(rows) or any(isinstance(next(iter(row), None), Number) for row in rows)
