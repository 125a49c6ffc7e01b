"""Measures of probabilities: log loss, reliability, and the expected calibration error, also of the top k labels.

Probabilities are a csr_array, N×K, that lists some or all labels of each point; one above 1 counts as 1. True labels
are a csr_array of bool, N×K. All functions raise SettingsError if the shapes disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.metrics.ranking import are_true, canonical, check_shapes, points_of, ranks_of, top_entries
from xmlgp.metrics.statistics import Statistic, ratio
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.plurals import counted

__all__ = [
    "Bin",
    "are_probabilities",
    "calibration_statistics",
    "check_probabilities",
    "frequency_groups",
    "reliability",
    "top_calibration_statistics",
]

#: How far a probability may be above 1; then it counts as 1. fastText adds 1e-5 to a probability before it takes the
#: logarithm; its hierarchical softmax does so for each node on the way to a label.
ROUNDING = 1e-4

#: Number of bins of Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, ICML 2017.
_BINS = 15

#: Number of bins for the top k labels; smaller, because there are fewer entries.
_TOP_BINS = 10


class Bin(NamedTuple):
    """A bin of probabilities: its name, its number of entries, their mean probability and the share that is true."""

    bin: str
    entries: int
    probability: float
    true: float


def are_probabilities(scores: csr_array) -> bool:
    """Return whether all stored scores are in [0, 1], or above 1 by at most `ROUNDING`."""
    return bool(np.all((scores.data >= 0) & (scores.data <= 1 + ROUNDING)))


def check_probabilities(scores: csr_array, name: str, note: Callable[[str], object]) -> None:
    """Raise SettingsError if there are no scores, or some are not probabilities; note how many are above 1."""
    if not scores.nnz:
        raise SettingsError(f"{name} contains no scores, so there are no probabilities to evaluate")
    if not are_probabilities(scores):
        reason = "contains scores outside [0, 1], but calibration needs probabilities: give them, or leave it out"
        raise SettingsError(f"{name} {reason}; `xmlgp predict` writes them with `output=probability`")
    above = int(np.count_nonzero(scores.data > 1))
    if above:
        note(f"{name}: {counted(above, 'score')} above 1 by at most {ROUNDING}, as of fastText, are taken as 1")


def calibration_statistics(probabilities: csr_array, labels: csr_array) -> dict[str, Statistic]:
    """Return log loss and calibration error of the listed entries as statistics of the points.

    - `log_loss`, the mean of −log p(y) in nats. A top-k prediction lists only the top k labels. As in scikit-learn, p
      is clipped to [ε, 1 − ε] with the machine epsilon of its type;
    - `ECE`, the expected calibration error, Σ_b n_b/n |frequency_b − confidence_b|, from 0 to 1, in 15 bins of equal
      width. Each entry is a binary event. Confidence is the probability that it is true; in multi-class
      classification it is the probability of the most likely class.
    """
    points, p, y = _entries(canonical(probabilities), labels)
    N = labels.shape[0]
    epsilon = np.finfo(p.dtype).eps
    clipped = np.clip(p, epsilon, 1 - epsilon)
    losses = np.bincount(points, -np.log(np.where(y, clipped, 1 - clipped)), N)
    return {
        "log_loss": ratio(losses, np.bincount(points, minlength=N), 1.0, math.inf),
        "ECE": Statistic(_gaps(points, p, y, _BINS, N), _calibration_error, 1.0, is_mean=False),
    }


def reliability(probabilities: csr_array, labels: csr_array, bins: int) -> list[Bin]:
    """Compare the listed probabilities with how often they are true, in bins of equal width; empty ones are left out.

    A bin includes its lower edge, the last one also 1.
    """
    _, p, y = _entries(probabilities, labels)
    sums = [np.bincount(_bin_of(p, bins), weights, bins).tolist() for weights in (None, p, y)]
    names = [f"{100 * i / bins:.0f} to {100 * (i + 1) / bins:.0f} %" for i in range(bins)]
    return [Bin(name, n, p / n, y / n) for name, n, p, y in zip(names, *sums, strict=True) if n]


def top_calibration_statistics(probabilities: csr_array, labels: csr_array, ks: Sequence[int]) -> dict[str, Statistic]:
    """Return the expected calibration error of the k highest probabilities of each point, `ECE@k`, in 10 bins.

    Users see these probabilities. Over all labels the error is small because most probabilities are near zero.
    """
    best = top_entries(probabilities, max(ks))
    points, p, y = _entries(best, labels)
    ranks = ranks_of(best)
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


def frequency_groups(counts: NDArray[np.integer]) -> tuple[list[str], NDArray[np.integer]]:
    """Group labels by their number of training points, K: 0, 1, 2 to 3, 4 to 7, … up to the largest.

    Returns the names of the groups, such as "4-7", and the group of each label, an ndarray of int, K.
    """
    # The group is the number of binary digits.
    groups = np.frexp(counts)[1]
    ranges = [f"{2 ** (digits - 1)}-{2**digits - 1}" for digits in range(2, groups.max(initial=1) + 1)]
    return ["0", "1", *ranges], groups


def _bin_of(p: NDArray[np.floating], bins: int) -> NDArray[np.intp]:
    return np.minimum((p * bins).astype(np.intp), bins - 1)


def _entries(
    probabilities: csr_array, labels: csr_array
) -> tuple[NDArray[np.integer], NDArray[np.floating], NDArray[np.bool_]]:
    """Return the point of each listed entry, its probability, and whether it is true; SettingsError as above."""
    check_shapes(probabilities, labels, "probabilities")
    p = np.minimum(probabilities.data, 1)
    if p.dtype.kind != "f":
        p = p.astype(np.float64)
    return points_of(probabilities), p, are_true(probabilities, labels)
