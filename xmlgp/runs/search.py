"""Compare settings on held-out points, and say what the best ones are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xmlgp.errors import UsageError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath
from xmlgp.inputs.source import Points, Source, check_widths
from xmlgp.inputs.training_data import Known, TrainingData
from xmlgp.inputs.unknown_labels import note_unknown, unknown_labels
from xmlgp.metrics.intervals import Difference, Interval, differences, intervals
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.models import Recipe, default_model
from xmlgp.runs.candidates import DEFAULT, Candidate, candidates_of, write_recipe
from xmlgp.runs.interrupted import check_recipe_is_known
from xmlgp.runs.race import Folds, Race, allowing_for
from xmlgp.runs.search_metric import Metric, shown
from xmlgp.runs.train import check_training
from xmlgp.runtime.atomic_files import check_writable, make_folders, remove_empty
from xmlgp.runtime.progress import Progress, Reporter
from xmlgp.settings.fields import Settings
from xmlgp.work import THIS_MACHINE

__all__ = ["Compared", "SearchResult", "search"]

#: Folds, unless there are validation points.
FOLDS = 5


@dataclass(frozen=True)
class Compared:
    """Settings as a search has compared them.

    Attributes
    ----------
    name : str
        What distinguishes the settings from the default ones, such as "factors=50"; "default" for these.
    settings : Settings
    value : float
        The metric on the held-out points of the folds that were trained.
    interval : Interval
    difference : Difference
        From the default settings on the same points.
    folds : int
        Fewer than all if the settings were dropped.
    seconds : float
        Mean time of a training.
    """

    name: str
    settings: Settings
    value: float
    interval: Interval
    difference: Difference
    folds: int
    seconds: float

    @property
    def is_default(self) -> bool:
        """Whether these are the default settings."""
        return self.name == DEFAULT


@dataclass(frozen=True)
class SearchResult:
    """The settings that a search has compared.

    Attributes
    ----------
    metric : str
    folds : int
    rows : list of Compared
        The highest first; those that were dropped last.
    best : Compared
        The settings to train with: the first row, or the default settings if it is not better beyond noise.
    worth : str
        What the first row is worth, in a sentence.
    """

    metric: str
    folds: int
    rows: list[Compared]
    best: Compared
    worth: str


@memory_errors_reported()
def search(
    data: Points | Source | None,
    settings: Mapping[str, Any],
    out: FilePath | None = None,
    *,
    recipe: Recipe | None = None,
    metric: str | None = None,
    held_out: int | Points | Source = FOLDS,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> SearchResult:
    """Compare settings on points that training does not see.

    All combinations of the values are compared with the default settings. After each fold, settings that are worse than
    the best ones beyond noise are dropped. Intervals are about other points; another seed varies the results, too.

    Parameters
    ----------
    data : path, Dataset or Source
        The training points, as for `train`; points in memory as `Source(X, labels=Y)`. One vectorizer of all texts
        serves all folds: it does not see labels.
    settings : mapping
        Settings by name, and perhaps the `model`. Those with a list of values are compared; others, and the defaults,
        are the default settings. The folds are drawn by their `seed`.
    out : path, optional
        A folder for the result of each training, which a search of the same points does not repeat, and for
        `recipe.yaml`, the best settings.
    recipe : str or path, optional
        As for `train`; part of the default settings.
    metric : str, optional
        A measure of the k best labels, such as "P@k", "nDCG@k", "PSP@k" or "macro-F1@k", or "log-loss" of the
        probabilities of all labels. Default: nDCG@5, or log-loss for a single label.
    held_out : int, path, Dataset or Source
        The number of folds, each of which is held out once; or validation points, and all `data` are trained on.
    progress, note
        As for `train`.

    Raises
    ------
    UsageError
        If there is nothing to compare, or the metric does not fit the data.
    SettingsError
        For settings that are not allowed, or points that a model cannot be trained on; before training begins.
    """
    reporter = Reporter.of(progress, note)
    # An unknown metric is refused before the points are read.
    named = Metric.of(metric)
    check_recipe_is_known(recipe)
    folder = None if out is None else Path(out)
    if folder:
        _check_folder(folder)
    source = Source.of(data)
    source.refuse_unknown()
    points = source.training(out, None, reporter)
    dataset = points.dataset
    measure = Metric.for_labels(named, dataset.K)
    candidates = candidates_of(settings, recipe, dataset, default_model(points.format), reporter.note)
    folds = _folds(points, held_out, candidates[0].settings.seed, reporter)
    for candidate in candidates:
        check_training(dataset, candidate.settings, THIS_MACHINE)
    propensities = None
    if measure.needs_propensities:
        counts = np.zeros(folds.labels(1).shape[1], np.int64)
        counts[: dataset.K] = dataset.labels.sum(axis=0)
        propensities = estimate_propensities(counts, dataset.N, dataset.D).values
    if folder:
        make_folders(folder / "folds")
    race = Race(candidates, folds, measure, propensities, folder and folder / "folds", reporter)
    race.run()
    result = _result(race)
    if folder:
        comment = f"xmlgp search: {result.worth}"
        write_recipe(folder / "recipe.yaml", result.best.settings, dataset.shape, comment)
    return result


def _check_folder(folder: Path) -> None:
    """Raise OSError if the folder of a search cannot be written; it is not made before the points are checked."""
    missing = make_folders(folder / "folds")
    try:
        check_writable(folder)
    finally:
        remove_empty(missing)


def _folds(points: TrainingData, held_out: int | Points | Source, seed: int, reporter: Reporter) -> Folds:
    """Return the folds of points, or the one fold of validation points; their unknown labels are noted."""
    dataset = points.dataset
    if isinstance(held_out, int):
        if not 2 <= held_out <= dataset.N:
            raise UsageError(f"the number of folds is {held_out}, but must be from 2 to the {dataset.N} points.")
        return Folds(dataset, held_out, seed)
    source = Source.of(held_out)
    known = Known(points.names, dataset.D, dataset.K, dataset.features.widths)
    validation, _, names = source.known(known, "validation", reporter)
    check_widths(validation.features.widths, known.widths, source.data)
    note_unknown(
        source.title, unknown_labels(names.labels, validation.labels, dataset.K), validation.labels, reporter.note
    )
    if not validation.labels.nnz:
        raise UsageError(f"{source.title}: no point has a label, so there is nothing to compare.")
    if validation.fingerprint == dataset.fingerprint:
        raise UsageError(f"{source.title}: these are the points to train on, which say nothing about others.")
    return Folds(dataset, 1, seed, validation)


def _result(race: Race) -> SearchResult:
    """Return the result of a race."""
    metric = race.metric
    rows = [_compared(race, candidate) for candidate in race.candidates]
    default = rows[0]
    rows.sort(key=lambda row: (-row.folds, -metric.sign * row.value))
    first = rows[0]
    others = len(rows) - 1
    interval = allowing_for(first.difference, others)
    meaning = " (lower is better)" if metric.sign < 0 else ""
    gain = f"{shown(metric.name, first.difference.difference, interval, '+')} {metric.name}{meaning}"
    choice = f", allowing for the choice among {others + 1}" if others > 1 else ""
    best = first
    if first is default:
        worth = "no other settings are better than the default"
    elif min(metric.sign * interval.low, metric.sign * interval.high) > 0:
        worth = f"{first.name} is worth {gain} over the default{choice}"
    else:
        worth = f"{first.name} is no better than the default beyond noise ({gain}{choice}): keep the default"
        best = default
    return SearchResult(metric.name, race.folds.count, rows, best, worth)


def _compared(race: Race, candidate: Candidate) -> Compared:
    """Return what a race says of a candidate."""
    results = race.judged[candidate.name]
    count = len(results)
    statistic = {"": race.statistic(candidate.name, count)}
    default = {"": race.statistic(race.candidates[0].name, count)}
    return Compared(
        name=candidate.name,
        settings=candidate.settings,
        value=statistic[""].value,
        interval=intervals(statistic)[""],
        difference=differences(statistic, default)[""],
        folds=count,
        seconds=float(np.mean([result[0, -1] for result in results])),
    )
