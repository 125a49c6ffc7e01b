"""The race of a search: candidates are trained fold by fold, and those that cannot win are dropped."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from xmlgp.data.dataset import Dataset
from xmlgp.metrics.intervals import ALPHA, Difference, Interval, differences
from xmlgp.metrics.statistics import Statistic
from xmlgp.runs.candidates import Candidate
from xmlgp.runs.interrupted import advise
from xmlgp.runs.search_metric import Metric, shown
from xmlgp.runs.train import train
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.npy import map_array, write_array
from xmlgp.runtime.progress import Bar, Progress, Reporter, silent
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.version import __version__

__all__ = ["Folds", "Judged", "Race", "Store", "allowing_for", "hopeless"]


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
        return csr_array(vstack([self.split(fold)[1].labels for fold in range(count)], "csr"))

    @property
    def facts(self) -> dict[str, Any]:
        """What the results of a fold depend on, in JSON types."""
        validation = self.validation and self.validation.fingerprint
        return {"data": self.dataset.fingerprint, "folds": [self.count, self.seed], "validation": validation}


class Judged(NamedTuple):
    """What a metric keeps of the predictions for one fold, and the seconds of training."""

    kept: NDArray[np.float64]
    seconds: float


@dataclass(frozen=True, eq=False)
class Store:
    """Results in a folder, each in a file that is named by what it depends on; or nowhere."""

    folder: Path | None
    facts: Mapping[str, Any]

    def read(self, candidate: Candidate, fold: int, shape: tuple[int, int]) -> Judged | None:
        """Return a result with as many rows and columns, or None if there is none, or a damaged one."""
        file = self._file(candidate, fold)
        if file is None:
            return None
        try:
            rows = map_array(file)
        except (OSError, ValueError):
            return None
        # The last column repeats the seconds.
        return Judged(rows[:, :-1], float(rows[0, -1])) if rows.shape == (shape[0], shape[1] + 1) else None

    def write(self, candidate: Candidate, fold: int, judged: Judged) -> None:
        """Store a result."""
        if file := self._file(candidate, fold):
            seconds = np.full(len(judged.kept), judged.seconds)
            with atomic_write(file) as stream:
                write_array(stream, np.column_stack([judged.kept, seconds]))

    def _file(self, candidate: Candidate, fold: int) -> Path | None:
        about = {**self.facts, "version": __version__, "settings": candidate.settings.with_model(), "fold": fold}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        return self.folder and self.folder / f"{digest[:32]}.npy"


@dataclass(frozen=True, eq=False)
class Race:
    """Candidates, the first of which is the default and is never dropped, and what they are compared by."""

    candidates: Sequence[Candidate]
    folds: Folds
    metric: Metric
    propensities: NDArray[np.floating] | None
    store: Store
    reporter: Reporter
    #: The results of each candidate by its name, one for each fold until it is dropped.
    judged: dict[str, list[Judged]] = field(default_factory=dict)

    def run(self) -> None:
        """Train and judge the candidates."""
        racing = list(self.candidates)
        self.judged.update((candidate.name, []) for candidate in racing)
        pairs = [(candidate, fold) for candidate in racing for fold in range(self.folds.count)]
        missing = {pair for pair in pairs if self._stored(*pair) is None}
        if len(missing) < len(pairs):
            self.reporter.note(f"{len(pairs) - len(missing)} of {len(pairs)} trainings are done already")
        with self._what_is_left(), self.reporter.progress("search", len(missing), None) as bar:
            for fold in range(self.folds.count):
                for candidate in racing:
                    bar.update(0, fold=f"{fold + 1}/{self.folds.count}", settings=candidate.name)
                    self.judged[candidate.name].append(self._judge(candidate, fold, bar))
                racing = self._without_losers(racing, fold)
                left = set(racing)
                bar.update(sum(later > fold and candidate not in left for candidate, later in missing))
                missing = {pair for pair in missing if pair[0] in left}

    def statistic(self, name: str, count: int) -> Statistic:
        """Return the metric of a candidate on the points that the first folds hold out."""
        kept = np.concatenate([judged.kept for judged in self.judged[name][:count]])
        return self.metric.statistic(kept, self.folds.labels(count), self.propensities)

    def _stored(self, candidate: Candidate, fold: int) -> Judged | None:
        """Return a result that is stored, or None."""
        shape = self.folds.split(fold)[1].N, self.metric.width(self.folds.dataset.K)
        return self.store.read(candidate, fold, shape)

    def _judge(self, candidate: Candidate, fold: int, bar: Bar) -> Judged:
        """Return the result of a candidate on a fold, and store it."""
        if stored := self._stored(candidate, fold):
            return stored
        points, held_out = self.folds.split(fold)
        began = time.perf_counter()
        with _as_one(bar) as progress:
            model = train(points, settings=candidate.settings, progress=progress)
        seconds = time.perf_counter() - began
        judged = Judged(self.metric.kept(model.predictor, held_out), seconds)
        self.store.write(candidate, fold, judged)
        return judged

    def _without_losers(self, racing: Sequence[Candidate], fold: int) -> list[Candidate]:
        """Return the candidates that may still win after a fold."""
        done = fold + 1
        if done == self.folds.count or not self.folds.labels(done).nnz:
            return list(racing)
        statistics = {candidate.name: self.statistic(candidate.name, done) for candidate in racing}
        looks = (len(self.candidates) - 1) * (self.folds.count - 1)
        losers = hopeless(statistics, looks, self.metric.sign)
        losers.pop(self.candidates[0].name, None)
        for name, difference in losers.items():
            behind = shown(self.metric.name, difference.difference, sign="+")
            after = f"after {done} of {self.folds.count} folds"
            self.reporter.note(f"{name} is dropped {after} ({behind} {self.metric.name} from the best)")
        return [candidate for candidate in racing if candidate.name not in losers]

    @contextlib.contextmanager
    def _what_is_left(self) -> Iterator[None]:
        """Say in an interruption how many trainings are done."""
        try:
            yield
        except (Interrupted, KeyboardInterrupt) as error:
            done = sum(map(len, self.judged.values()))
            total = len(self.candidates) * self.folds.count
            advise(error, f"stopped after {done} of {total} trainings", resumable=self.store.folder is not None)
            raise


def hopeless(statistics: Mapping[str, Statistic], comparisons: int, sign: int) -> dict[str, Difference]:
    """Return the difference from the best candidate of those that are worse, allowing for so many comparisons.

    `sign` is −1 if lower values are better.
    """
    best = max(statistics, key=lambda name: sign * statistics[name].value)
    compared = differences(statistics, dict.fromkeys(statistics, statistics[best]))
    worse: dict[str, Difference] = {}
    for name, difference in compared.items():
        interval = allowing_for(difference, comparisons)
        if max(sign * interval.low, sign * interval.high) < 0:
            worse[name] = difference
    return worse


def allowing_for(difference: Difference, comparisons: int) -> Interval:
    """Return the interval of one of several differences: all are within theirs in 95 % of cases (Bonferroni)."""
    quantile = NormalDist().inv_cdf
    wider = quantile(1 - ALPHA / 2 / comparisons) / quantile(1 - ALPHA / 2)
    value = difference.difference
    low, high = (value + wider * (end - value) for end in difference.interval)
    return Interval(low, high)


class _Share:
    """A bar of one training of a search: its share moves the bar of the search."""

    def __init__(self, bar: Bar, total: float) -> None:
        self._bar = bar
        self._total = total
        self.moved = 0.0

    def update(self, n: float = 1, **facts: object) -> None:
        step = min(n / self._total, 1 - self.moved)
        self.moved += step
        self._bar.update(step)


@contextlib.contextmanager
def _as_one(bar: Bar) -> Iterator[Progress]:
    """Yield a `progress` for training that moves a bar by one in all."""
    shares: list[_Share] = []

    @contextlib.contextmanager
    def show(label: str, total: float | None = None, unit: str | None = "it") -> Iterator[Bar]:
        if label == "train" and total and not shares:
            shares.append(_Share(bar, total))
            yield shares[0]
        else:
            with silent(label, total, unit) as hidden:
                yield hidden

    yield show
    bar.update(1 - sum(share.moved for share in shares))
