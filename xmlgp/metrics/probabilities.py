"""Measures of probabilities: log loss, reliability, and the expected calibration error, also of the top k labels.

Probabilities are a csr_array, N×K, that lists some or all labels of each point; true labels are a csr_array of bool,
N×K. All functions raise SettingsError if the shapes disagree, if there are no probabilities or if one is not in [0, 1].
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import are_true, check_shapes, ranks_of, top_entries

__all__ = [
    "Bin",
    "ReliabilityCurve",
    "frequency_groups",
    "log_loss",
    "reliability_by_frequency",
    "reliability_by_rank",
    "reliability_curve",
    "top_calibration_errors",
]

#: Number of bins of Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, ICML 2017.
_BINS = 15

#: Number of bins for the top k labels; smaller, because there are fewer entries.
_TOP_BINS = 10

#: Entries that are processed at a time, so that the whole is never copied: 8 MB of float64.
_BLOCK_ENTRIES = 1 << 20


class Bin(NamedTuple):
    """A bin of a `ReliabilityCurve`: name, number of entries, their mean probability and the share that is true."""

    bin: str
    count: int
    probability: float
    true: float


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Probabilities and observed frequencies in bins, of equal width over [0, 1] or by another quantity.

    `names` are the names of the bins. A bin of probabilities includes its lower edge, the last one also 1. `sums`,
    3×bins, has the number of entries in each bin, the sum of their probabilities and the number of true entries. Curves
    of different entries can be added: the bins of the shorter curve are the first bins of the longer one.
    """

    names: list[str]
    sums: np.ndarray

    @classmethod
    def of_entries(cls, names, bins, p, y):
        """Return the curve of n entries, given the bin and the probability of each, and whether it is true."""
        return cls(names, np.array([np.bincount(bins, weights, len(names)) for weights in (None, p, y)]))

    @classmethod
    def empty(cls):
        """Return a curve without entries, the start of a sum."""
        return cls([], np.zeros((3, 0)))

    def __add__(self, other):
        more, fewer = (self, other) if len(self.names) >= len(other.names) else (other, self)
        sums = more.sums.copy()
        sums[:, : len(fewer.names)] += fewer.sums
        return ReliabilityCurve(more.names, sums)

    @property
    def count(self):
        """The number of entries in each bin, an ndarray of int."""
        return self.sums[0].astype(np.int64)

    @property
    def confidence(self):
        """The mean probability in each bin; NaN if it is empty."""
        return self.sums[1] / np.where(self.count, self.count, np.nan)

    @property
    def frequency(self):
        """The share of true entries in each bin; NaN if it is empty."""
        return self.sums[2] / np.where(self.count, self.count, np.nan)

    @property
    def error(self):
        """The expected calibration error (ECE), Σ_b n_b/n |frequency_b − confidence_b|, from 0 to 1.

        Each entry is a binary event. Confidence is the probability that it is true; in multi-class classification it
        is the probability of the most likely class.
        """
        gaps = np.abs(self.frequency - self.confidence)
        return float(np.nansum(self.count * gaps) / self.count.sum())

    @property
    def filled(self):
        """The bins that are not empty, a list of `Bin`."""
        columns = (values.tolist() for values in (self.count, self.confidence, self.frequency))
        return [row for row in map(Bin, self.names, *columns) if row.count]


def log_loss(probabilities, labels):
    """Compute the mean of −log p(y) over the listed entries, in nats. A top-k prediction lists only the top k labels.

    As in scikit-learn, p is clipped to [ε, 1 − ε] with the machine epsilon of its type.
    """
    count = 0
    total = 0.0
    for p, y in _listed_entries(probabilities, labels):
        epsilon = np.finfo(p.dtype).eps
        p = np.clip(p, epsilon, 1 - epsilon)
        count += y.size
        total += -np.log(np.where(y, p, 1 - p)).sum(dtype=np.float64)
    return float(total / count)


def reliability_curve(probabilities, labels, bins=_BINS):
    """Compare the listed probabilities with observed frequencies in bins of equal width (`ReliabilityCurve`)."""
    names = [f"{100 * i / bins:.0f} to {100 * (i + 1) / bins:.0f} %" for i in range(bins)]
    entries = _listed_entries(probabilities, labels)
    curves = (ReliabilityCurve.of_entries(names, _bin_of(p, bins), p, y) for p, y in entries)
    return sum(curves, start=ReliabilityCurve.empty())


def top_calibration_errors(probabilities, labels, ks):
    """Compute the expected calibration error of the k highest probabilities of each point, as {"ECE@k": error}.

    Users see these probabilities. Over all labels the error is small because most probabilities are near zero.
    """
    ranks, _, p, y = _top(probabilities, labels, max(ks))
    bins = _bin_of(p, _TOP_BINS)
    names = [""] * _TOP_BINS
    curves = {k: ReliabilityCurve.of_entries(names, *(part[ranks < k] for part in (bins, p, y))) for k in ks}
    return {f"ECE@{k}": curve.error for k, curve in curves.items()}


def reliability_by_rank(probabilities, labels, k):
    """Compare the k highest probabilities of each point with observed frequencies, rank by rank (`ReliabilityCurve`).

    The number of ranks is the largest number of probabilities of a point, at most k.
    """
    ranks, _, p, y = _top(probabilities, labels, k)
    return ReliabilityCurve.of_entries([str(rank + 1) for rank in range(ranks.max() + 1)], ranks, p, y)


def reliability_by_frequency(probabilities, labels, k, counts):
    """Compare the k highest probabilities of each point with observed frequencies, by how frequent the label is.

    The bins of the `ReliabilityCurve` are the `frequency_groups` of the number of training points of each label, K.
    """
    _, best, p, y = _top(probabilities, labels, k)
    names, groups = frequency_groups(counts)
    return ReliabilityCurve.of_entries(names, groups[best], p, y)


def frequency_groups(counts):
    """Group labels by their number of training points, K: 0, 1, 2 to 3, 4 to 7, … up to the largest.

    Returns the names of the groups, such as "4-7", and the group of each label, an ndarray of int, K.
    """
    # The number of binary digits.
    groups = np.frexp(counts)[1]
    longer = range(2, groups.max(initial=1) + 1)
    return ["0", "1", *(f"{2 ** (digits - 1)}-{2**digits - 1}" for digits in longer)], groups


def _top(probabilities, labels, k):
    """Return rank, label, probability and truth of the k highest probabilities of each point, as flat arrays."""
    _check(probabilities, labels)
    best = top_entries(probabilities, k)
    return ranks_of(best), best.indices, _in_range(best.data), are_true(best, labels)


def _bin_of(p, bins):
    return np.minimum((p * bins).astype(np.intp), bins - 1)


def _listed_entries(probabilities, labels):
    """Yield the listed probabilities and whether each is true, as flat arrays, in blocks of points."""
    _check(probabilities, labels)
    step = max(1, _BLOCK_ENTRIES * labels.shape[0] // probabilities.nnz)
    for start in range(0, labels.shape[0], step):
        block = probabilities[start : start + step]
        block.sum_duplicates()
        yield _in_range(block.data), are_true(block, labels[start : start + step])


def _check(probabilities, labels):
    check_shapes(probabilities, labels, "probabilities")
    if not probabilities.nnz:
        raise SettingsError("there are no probabilities to evaluate")


def _in_range(p):
    """Return probabilities as floating-point numbers; raise SettingsError if one is not in [0, 1]."""
    if p.dtype.kind != "f":
        p = p.astype(np.float64)
    if not (np.all(p >= 0) and np.all(p <= 1)):
        raise SettingsError("a probability is not in [0, 1]")
    return p
