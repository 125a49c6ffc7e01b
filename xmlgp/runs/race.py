"""The race of a search: candidates are trained fold by fold, and those that cannot win are dropped."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from xmlgp.data.dataset import Dataset
from xmlgp.metrics.intervals import ALPHA, Difference, Interval, differences
from xmlgp.metrics.statistics import Statistic
from xmlgp.runs.candidates import Candidate
from xmlgp.runs.interrupted import advise
from xmlgp.runs.search_metric import Metric
from xmlgp.runs.train import train
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.npy import map_array, write_array
from xmlgp.runtime.progress import Bar, Reporter
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.version import __version__

__all__ = ["Folds", "Race", "allowing_for", "hopeless"]


@dataclass(frozen=True, eq=False)
class Folds:
    """Points in folds, each of which is held out once; or all points to train on, and validation points."""

    dataset: Dataset
    count: int
    seed: int = 0
    validation: Dataset | None = None

    @functools.cached_property
    def _fold_of(self) -> NDArray[np.int64]:
        return random_stream(self.seed, Stream.FOLDS).permutation(self.dataset.N) % self.count

    def split(self, fold: int) -> tuple[Dataset, Dataset]:
        """Return the points to train on and the held-out ones."""
        if self.validation is not None:
            return self.dataset, self.validation
        return self.dataset.rows(self._fold_of != fold), self.dataset.rows(self._fold_of == fold)

    def labels(self, count: int) -> csr_array:
        """Return the true labels of the points that the first folds hold out."""
        if self.validation is not None:
            return self.validation.labels
        return csr_array(vstack([self.dataset.labels[self._fold_of == fold] for fold in range(count)], "csr"))

    @property
    def facts(self) -> dict[str, Any]:
        """What the results of a fold depend on, in JSON types."""
        validation = self.validation and self.validation.fingerprint
        return {"data": self.dataset.fingerprint, "folds": [self.count, self.seed], "validation": validation}


@dataclass(frozen=True, eq=False)
class Race:
    """Candidates, the first of which is the default and is never dropped, and what they are compared by.

    `judged` has the results of each candidate by its name, one for each fold until it is dropped: what the metric
    keeps of the held-out points, and in a last column the seconds of training. A folder has each result in a file that
    is named by what it depends on.
    """

    candidates: Sequence[Candidate]
    folds: Folds
    metric: Metric
    propensities: NDArray[np.floating] | None
    folder: Path | None
    reporter: Reporter
    judged: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)

    def run(self) -> None:
        """Train and judge the candidates."""
        racing = self.candidates
        count = self.folds.count
        total = len(racing) * count
        files = [self._file(candidate, fold) for candidate in racing for fold in range(count)]
        if done := sum(file is not None and file.exists() for file in files):
            self.reporter.note(f"{done} of {total} trainings are done already")
        with self._what_is_left(total), self.reporter.progress("search", total, None) as bar:
            for fold in range(count):
                for candidate in racing:
                    bar.update(0, fold=f"{fold + 1}/{count}", settings=candidate.name)
                    self.judged.setdefault(candidate.name, []).append(self._judge(candidate, fold, bar))
                left = self._without_losers(racing, fold + 1)
                bar.update((len(racing) - len(left)) * (count - fold - 1))
                racing = left

    def statistic(self, name: str, count: int) -> Statistic:
        """Return the metric of a candidate on the points that the first folds hold out."""
        results = np.concatenate(self.judged[name][:count])
        return self.metric.statistic(results[:, :-1], self.folds.labels(count), self.propensities)

    def _judge(self, candidate: Candidate, fold: int, bar: Bar) -> NDArray[np.float64]:
        """Return the result of a candidate on a fold, and store it; a damaged one is computed again."""
        file = self._file(candidate, fold)
        share = _Share(bar)
        if file:
            with contextlib.suppress(OSError, ValueError):
                stored: NDArray[np.float64] = map_array(file)
                share.finish()
                return stored
        points, held_out = self.folds.split(fold)
        began = time.perf_counter()
        model = train(points, settings=candidate.settings, progress=share.show)
        seconds = time.perf_counter() - began
        share.finish()
        judged = np.column_stack([self.metric.kept(model.predictor, held_out), np.full(held_out.N, seconds)])
        if file:
            with atomic_write(file) as stream:
                write_array(stream, judged)
        return judged

    def _file(self, candidate: Candidate, fold: int) -> Path | None:
        """Return the file of a result."""
        about = {**self.folds.facts, "fold": fold, "settings": candidate.settings.with_model()}
        about |= {"best": self.metric.depth, "version": __version__}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        return self.folder and self.folder / f"{digest[:32]}.npy"

    def _without_losers(self, racing: Sequence[Candidate], done: int) -> Sequence[Candidate]:
        """Return the candidates that may still win after some folds."""
        if done == self.folds.count or not self.folds.labels(done).nnz:
            return racing
        statistics = {candidate.name: self.statistic(candidate.name, done) for candidate in racing}
        looks = (len(self.candidates) - 1) * (self.folds.count - 1)
        losers = hopeless(statistics, looks, self.metric.sign) - {self.candidates[0].name}
        for name in sorted(losers):
            self.reporter.note(f"{name} is dropped after {done} of {self.folds.count} folds")
        return [candidate for candidate in racing if candidate.name not in losers]

    @contextlib.contextmanager
    def _what_is_left(self, total: int) -> Iterator[None]:
        """Say in an interruption how many trainings are done."""
        try:
            yield
        except (Interrupted, KeyboardInterrupt) as error:
            done = sum(map(len, self.judged.values()))
            advise(error, f"stopped after {done} of {total} trainings", resumable=self.folder is not None)
            raise


def hopeless(statistics: Mapping[str, Statistic], comparisons: int, sign: int) -> set[str]:
    """Return the names of candidates that are worse than the best one, allowing for so many comparisons.

    `sign` is −1 if lower values are better.
    """
    best = max(statistics, key=lambda name: sign * statistics[name].value)
    compared = differences(statistics, dict.fromkeys(statistics, statistics[best]))
    intervals = {name: allowing_for(difference, comparisons) for name, difference in compared.items()}
    return {name for name, ends in intervals.items() if max(sign * end for end in ends) < 0}


def allowing_for(difference: Difference, comparisons: int) -> Interval:
    """Return the interval of one of several differences: all are within theirs in 95 % of cases (Bonferroni)."""
    quantile = NormalDist().inv_cdf
    wider = quantile(1 - ALPHA / 2 / comparisons) / quantile(1 - ALPHA / 2)
    value = difference.difference
    low, high = (value + wider * (end - value) for end in difference.interval)
    return Interval(low, high)


class _Share:
    """A bar for one training of a search, which moves the bar of the search by one in all."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._total = math.inf
        self._left = 1.0

    @contextlib.contextmanager
    def show(self, label: str, total: float | None = None, unit: str | None = "it") -> Iterator[Bar]:
        """Show the steps of training, not other work; a `progress`."""
        self._total = total if label == "train" and total else math.inf
        yield self

    def update(self, n: float = 1, **facts: object) -> None:
        """Advance by some steps."""
        step = min(n / self._total, self._left)
        self._left -= step
        self._bar.update(step)

    def finish(self) -> None:
        """Advance to the end."""
        self._bar.update(self._left)
