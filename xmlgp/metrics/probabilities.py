"""Measures of probabilities: log loss, reliability, and the expected calibration error, also of the top k labels.

Probabilities are a csr_array, N×K, that lists some or all labels of each point; true labels are a csr_array of bool,
N×K. All functions raise SettingsError if the shapes disagree, if there are no probabilities or if one is not in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.errors import SettingsError
from xmlgp.metrics.intervals import share_interval
from xmlgp.metrics.ranking import are_true, check_shapes, points_of, ranks_of, top_entries
from xmlgp.metrics.statistics import Statistic, ratio

__all__ = [
    "Bin",
    "ReliabilityCurve",
    "calibration_statistics",
    "frequency_groups",
    "log_loss",
    "reliability_by_frequency",
    "reliability_by_rank",
    "reliability_curve",
    "top_calibration_errors",
    "top_calibration_statistics",
]

#: Number of bins of Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, ICML 2017.
_BINS = 15

#: Number of bins for the top k labels; smaller, because there are fewer entries.
_TOP_BINS = 10

#: Entries that are processed at a time, 8 MB of float64, so that no copy of all entries is needed.
_BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Bin:
    """A bin of a `ReliabilityCurve`: name, number of entries, their mean probability and the share that is true."""

    bin: str
    count: int
    probability: float
    true: float


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Probabilities and observed frequencies in bins, of equal width over [0, 1] or by another quantity.

    `names` are the names of the bins. A bin of probabilities includes its lower edge, the last bin also 1. The rows of
    `sums`, 3×bins, are the number of entries in each bin, the sum of their probabilities and the number of true
    entries. Curves of different entries can be added; the bins of the shorter curve are the first bins of the longer
    one.
    """

    names: list[str]
    sums: NDArray[np.float64]

    @classmethod
    def of_entries(
        cls, names: list[str], bins: NDArray[np.integer], p: NDArray[np.floating], y: NDArray[np.bool_]
    ) -> ReliabilityCurve:
        """Return the curve of n entries, given the bin and the probability of each, and whether it is true."""
        return cls(names, np.array([np.bincount(bins, weights, len(names)) for weights in (None, p, y)]))

    @classmethod
    def empty(cls) -> ReliabilityCurve:
        """Return a curve without entries, the start of a sum."""
        return cls([], np.zeros((3, 0)))

    def __add__(self, other: ReliabilityCurve) -> ReliabilityCurve:
        more, fewer = (self, other) if len(self.names) >= len(other.names) else (other, self)
        sums = more.sums.copy()
        sums[:, : len(fewer.names)] += fewer.sums
        return ReliabilityCurve(more.names, sums)

    @property
    def count(self) -> NDArray[np.int64]:
        """The number of entries in each bin, an ndarray of int."""
        count: NDArray[np.int64] = self.sums[0].astype(np.int64)
        return count

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The mean probability in each bin; NaN if it is empty."""
        return self._mean(self.sums[1])

    @property
    def frequency(self) -> NDArray[np.float64]:
        """The share of true entries in each bin; NaN if it is empty."""
        return self._mean(self.sums[2])

    @property
    def intervals(self) -> NDArray[np.float64]:
        """The 95 % intervals of the shares, bins×2, as if entries were independent; NaN if a bin is empty."""
        ends = np.full((len(self.names), 2), np.nan)
        for number, (share, count) in enumerate(zip(self.frequency.tolist(), self.count.tolist(), strict=True)):
            if count:
                ends[number] = share_interval(share, count)
        return ends

    def _mean(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        means = np.full(len(sums), np.nan)
        np.divide(sums, self.count, out=means, where=self.count > 0)
        return means

    @property
    def filled(self) -> list[Bin]:
        """The bins that are not empty, a list of `Bin`."""
        columns = (values.tolist() for values in (self.count, self.confidence, self.frequency))
        return [row for row in map(Bin, self.names, *columns) if row.count]


def calibration_statistics(probabilities: csr_array, labels: csr_array) -> dict[str, Statistic]:
    """Return log loss and calibration error of the listed entries as statistics of the points.

    - `log_loss`, the mean of −log p(y) in nats. A top-k prediction lists only the top k labels. As in scikit-learn, p
      is clipped to [ε, 1 − ε] with the machine epsilon of its type;
    - `ECE`, the expected calibration error, Σ_b n_b/n |frequency_b − confidence_b|, from 0 to 1, in 15 bins of equal
      width. Each entry is a binary event. Confidence is the probability that it is true; in multi-class
      classification it is the probability of the most likely class.
    """
    losses = []
    counts = []
    gaps = []
    for block, p, y in _listed_entries(probabilities, labels):
        points = points_of(block)
        epsilon = np.finfo(p.dtype).eps
        clipped = np.clip(p, epsilon, 1 - epsilon)
        losses.append(np.bincount(points, -np.log(np.where(y, clipped, 1 - clipped)), block.shape[0]))
        counts.append(np.diff(block.indptr))
        gaps.append(_gaps(points, p, y, _BINS, block.shape[0]))
    return {
        "log_loss": ratio(np.concatenate(losses), np.concatenate(counts), 1.0, math.inf),
        "ECE": Statistic(np.concatenate(gaps), _calibration_error, 1.0, is_mean=False),
    }


def log_loss(probabilities: csr_array, labels: csr_array) -> float:
    """Compute the log loss of `calibration_statistics`."""
    return calibration_statistics(probabilities, labels)["log_loss"].value


def reliability_curve(probabilities: csr_array, labels: csr_array, bins: int = _BINS) -> ReliabilityCurve:
    """Compare the listed probabilities with observed frequencies in bins of equal width (`ReliabilityCurve`)."""
    names = [f"{100 * i / bins:.0f} to {100 * (i + 1) / bins:.0f} %" for i in range(bins)]
    entries = _listed_entries(probabilities, labels)
    curves = (ReliabilityCurve.of_entries(names, _bin_of(p, bins), p, y) for _, p, y in entries)
    return sum(curves, start=ReliabilityCurve.empty())


def top_calibration_errors(probabilities: csr_array, labels: csr_array, ks: Iterable[int]) -> dict[str, float]:
    """Compute the expected calibration error of the k highest probabilities of each point, as {"ECE@k": error}.

    Users see these probabilities. Over all labels the error is small because most probabilities are near zero.
    """
    statistics = top_calibration_statistics(probabilities, labels, ks)
    return {name: statistic.value for name, statistic in statistics.items()}


def top_calibration_statistics(probabilities: csr_array, labels: csr_array, ks: Iterable[int]) -> dict[str, Statistic]:
    """Return the errors of `top_calibration_errors`, with the same parameters, as statistics of the points."""
    ks = tuple(ks)
    points, ranks, _, p, y = _top(probabilities, labels, max(ks))
    statistics = {}
    for k in ks:
        first = ranks < k
        gaps = _gaps(points[first], p[first], y[first], _TOP_BINS, labels.shape[0])
        statistics[f"ECE@{k}"] = Statistic(gaps, _calibration_error, 1.0, is_mean=False)
    return statistics


def _gaps(
    points: NDArray[np.integer], p: NDArray[np.floating], y: NDArray[np.bool_], bins: int, N: int
) -> NDArray[np.float64]:
    """Return Σ (y − p) of each of N points in each bin, and its number of entries, N×(bins + 1)."""
    places = points * (bins + 1) + _bin_of(p, bins)
    sums: NDArray[np.float64] = np.bincount(places, y - p.astype(np.float64), N * (bins + 1)).astype(np.float64)
    sums[bins :: bins + 1] = np.bincount(points, minlength=N)
    return sums.reshape(N, bins + 1)


def _calibration_error(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    error: NDArray[np.float64] = np.abs(sums[:, :-1]).sum(axis=1) / sums[:, -1]
    return error


def reliability_by_rank(probabilities: csr_array, labels: csr_array, k: int) -> ReliabilityCurve:
    """Compare the k highest probabilities of each point with observed frequencies, rank by rank (`ReliabilityCurve`).

    The number of ranks is the largest number of probabilities of a point, at most k.
    """
    _, ranks, _, p, y = _top(probabilities, labels, k)
    return ReliabilityCurve.of_entries([str(rank + 1) for rank in range(ranks.max() + 1)], ranks, p, y)


def reliability_by_frequency(
    probabilities: csr_array, labels: csr_array, k: int, counts: NDArray[np.integer]
) -> ReliabilityCurve:
    """Compare the k highest probabilities of each point with observed frequencies, by how frequent the label is.

    The bins of the `ReliabilityCurve` are the `frequency_groups` of the number of training points of each label, K.
    """
    _, _, top_labels, p, y = _top(probabilities, labels, k)
    names, groups = frequency_groups(counts)
    return ReliabilityCurve.of_entries(names, groups[top_labels], p, y)


def frequency_groups(counts: NDArray[np.integer]) -> tuple[list[str], NDArray[np.integer]]:
    """Group labels by their number of training points, K: 0, 1, 2 to 3, 4 to 7, … up to the largest.

    Returns the names of the groups, such as "4-7", and the group of each label, an ndarray of int, K.
    """
    # The group is the number of binary digits.
    groups = np.frexp(counts)[1]
    ranges = [f"{2 ** (digits - 1)}-{2**digits - 1}" for digits in range(2, groups.max(initial=1) + 1)]
    return ["0", "1", *ranges], groups


def _top(
    probabilities: csr_array, labels: csr_array, k: int
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer], NDArray[np.floating], NDArray[np.bool_]]:
    """Return point, rank, label, probability and truth of the k highest probabilities of each point, as flat arrays."""
    _check(probabilities, labels)
    best = top_entries(probabilities, k)
    return points_of(best), ranks_of(best), best.indices, _in_range(best.data), are_true(best, labels)


def _bin_of(p: NDArray[np.floating], bins: int) -> NDArray[np.intp]:
    return np.minimum((p * bins).astype(np.intp), bins - 1)


def _listed_entries(
    probabilities: csr_array, labels: csr_array
) -> Iterator[tuple[csr_array, NDArray[np.floating], NDArray[np.bool_]]]:
    """Yield blocks of points with their listed probabilities and whether each is true, as flat arrays."""
    _check(probabilities, labels)
    step = max(1, _BLOCK_ENTRIES * labels.shape[0] // probabilities.nnz)
    for start in range(0, labels.shape[0], step):
        block = probabilities[start : start + step]
        block.sum_duplicates()
        yield block, _in_range(block.data), are_true(block, labels[start : start + step])


def _check(probabilities: csr_array, labels: csr_array) -> None:
    check_shapes(probabilities, labels, "probabilities")
    if not probabilities.nnz:
        raise SettingsError("there are no probabilities to evaluate")


def _in_range(p: NDArray[Any]) -> NDArray[np.floating]:
    """Return probabilities as floating-point numbers; raise SettingsError if one is not in [0, 1]."""
    if p.dtype.kind != "f":
        p = p.astype(np.float64)
    if not (np.all(p >= 0) and np.all(p <= 1)):
        raise SettingsError("a probability is not in [0, 1]")
    return p
