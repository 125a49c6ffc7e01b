"""Measures of probabilities: log loss, reliability, and the expected calibration error, also of the first labels.

Probabilities are an N×K array or a csr_array that lists some of the labels of each point. They are processed in blocks
of points, so the whole is never copied.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import ranks_of, top_entries, true_entries

__all__ = [
    "ReliabilityCurve",
    "expected_calibration_error",
    "frequency_groups",
    "log_loss",
    "reliability_by_frequency",
    "reliability_by_rank",
    "reliability_curve",
    "top_calibration_errors",
]

#: Number of bins of Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, ICML 2017.
_BINS = 15

#: Number of bins for the first labels of each point, of which there are fewer.
_TOP_BINS = 10

#: Entries in a block: 8 MB of float64.
_BLOCK_ENTRIES = 1 << 20


class ReliabilityCurve(NamedTuple):
    """Probabilities and observed frequencies in bins, of equal width over [0, 1] or by another quantity.

    Parameters
    ----------
    count : ndarray of int, bins
        Entries in each bin; a bin of probabilities contains its lower edge, the last also 1.
    confidence : ndarray of float, bins
        Their mean probability; NaN in an empty bin.
    frequency : ndarray of float, bins
        The share of them that is true; NaN in an empty bin.
    """

    count: np.ndarray
    confidence: np.ndarray
    frequency: np.ndarray

    @property
    def error(self):
        """The expected calibration error, see `expected_calibration_error`."""
        gaps = np.abs(self.frequency - self.confidence)
        return float(np.nansum(self.count * gaps) / self.count.sum())


def log_loss(probabilities, labels):
    """Compute the mean of −log p(y) over the listed entries.

    Parameters
    ----------
    probabilities : ndarray or csr_array of float, N×K
        p(y = 1) of each entry, clipped to [ε, 1 − ε] with the machine epsilon of its type, as in scikit-learn. Entries
        that a csr_array does not list are left out: after a top-k prediction the loss is that of the top labels only.
    labels : csr_array of bool, N×K
        The true labels.

    Returns
    -------
    float
        The loss in nats.

    Raises
    ------
    SettingsError
        If the shapes disagree, a probability is not in [0, 1] or there are no entries.
    """
    count, total = 0, 0.0
    for p, y in _listed_entries(probabilities, labels):
        epsilon = np.finfo(p.dtype).eps
        p = np.clip(p, epsilon, 1 - epsilon)
        count += y.size
        total += -np.log(np.where(y, p, 1 - p)).sum(dtype=np.float64)
    return float(total / count)


def reliability_curve(probabilities, labels, bins=_BINS):
    """Compare probabilities with observed frequencies, bin by bin.

    Parameters
    ----------
    probabilities : ndarray or csr_array of float, N×K
        p(y = 1) of each entry; entries that a csr_array does not list are left out.
    labels : csr_array of bool, N×K
        The true labels.
    bins : int
        Number of bins.

    Returns
    -------
    ReliabilityCurve

    Raises
    ------
    SettingsError
        If the shapes disagree, a probability is not in [0, 1] or there are no entries.
    """
    sums = np.zeros((3, bins))
    for p, y in _listed_entries(probabilities, labels):
        sums += _sums(_bin_of(p, bins), p, y, bins)
    return _curve(sums)


def expected_calibration_error(probabilities, labels, bins=_BINS):
    """Compute the expected calibration error (ECE), Σ_b n_b/n |frequency_b − confidence_b|.

    Each entry is a binary event with the probability that it is true, not with the probability of the more likely
    outcome as for a classifier of exclusive classes.

    Parameters
    ----------
    probabilities, labels, bins
        As for `reliability_curve`.

    Returns
    -------
    float
        The error, between 0 and 1.

    Raises
    ------
    SettingsError
        If the shapes disagree, a probability is not in [0, 1] or there are no entries.
    """
    return reliability_curve(probabilities, labels, bins).error


def top_calibration_errors(probabilities, labels, ks):
    """Compute the expected calibration error of the k highest probabilities of each point, with ten bins.

    These are the ones that users see. Over all labels the error is small because most probabilities are near zero.

    Parameters
    ----------
    probabilities : csr_array of float, N×K
    labels : csr_array of bool, N×K
    ks : sequence of int

    Returns
    -------
    dict of str to float
        `ECE@1`, …, between 0 and 1.

    Raises
    ------
    SettingsError
        If the shapes disagree, a probability is not in [0, 1] or there are no entries.
    """
    ranks, p, y = _top(probabilities, labels, max(ks))
    errors = {}
    for k in ks:
        first = ranks < k
        errors[f"ECE@{k}"] = _curve(_sums(_bin_of(p[first], _TOP_BINS), p[first], y[first], _TOP_BINS)).error
    return errors


def reliability_by_rank(probabilities, labels, k):
    """Compare the k highest probabilities of each point with observed frequencies, rank by rank.

    Parameters
    ----------
    probabilities : csr_array of float, N×K
    labels : csr_array of bool, N×K
    k : int

    Returns
    -------
    ReliabilityCurve
        A bin for each rank, the highest probability first; as many as the longest point has, at most k.

    Raises
    ------
    SettingsError
        As `top_calibration_errors` does.
    """
    ranks, p, y = _top(probabilities, labels, k)
    return _curve(_sums(ranks, p, y, int(ranks.max()) + 1))


def reliability_by_frequency(probabilities, labels, k, counts):
    """Compare the k highest probabilities of each point with observed frequencies, by the frequency of the label.

    Parameters
    ----------
    probabilities : csr_array of float, N×K
    labels : csr_array of bool, N×K
    k : int
    counts : ndarray of int, K
        The number of training points of each label.

    Returns
    -------
    ReliabilityCurve
        A bin for each group of `frequency_groups`.

    Raises
    ------
    SettingsError
        As `top_calibration_errors` does.
    """
    _, p, y = _top(probabilities, labels, k)
    starts = np.array([low for low, _ in frequency_groups(counts)])
    group = np.searchsorted(starts, counts[top_entries(probabilities, k).indices], side="right") - 1
    return _curve(_sums(group, p, y, len(starts)))


def frequency_groups(counts):
    """Return groups of labels by their number of training points: 0, 1, 2 to 3, 4 to 7, … up to the largest.

    Parameters
    ----------
    counts : ndarray of int, K

    Returns
    -------
    list of (int, int)
        The least and the greatest number of each group.
    """
    groups = [(0, 0), (1, 1)]
    while groups[-1][1] < max(counts, default=0):
        low = groups[-1][1] + 1
        groups.append((low, 2 * low - 1))
    return groups


def _top(probabilities, labels, k):
    """Return rank, probability and truth of the k highest probabilities of each point, as flat arrays."""
    _check(probabilities, labels)
    best = top_entries(probabilities, k)
    true = np.zeros(best.nnz, bool)
    true[true_entries(best, labels)] = True
    return ranks_of(best), _in_range(best.data), true


def _bin_of(p, bins):
    return np.minimum((p * bins).astype(np.intp), bins - 1)


def _sums(bin_of, p, y, bins):
    """Return the number of entries, and the sums of probabilities and of true entries, of each bin."""
    return np.array([np.bincount(bin_of, weights, bins) for weights in (None, p, y)])


def _curve(sums):
    count, confidence, frequency = sums
    filled = np.where(count, count, np.nan)
    return ReliabilityCurve(count.astype(np.int64), confidence / filled, frequency / filled)


def _listed_entries(probabilities, labels):
    """Yield the listed probabilities and whether each is true, as flat arrays, in blocks of points."""
    n_entries = _check(probabilities, labels)
    n_points = labels.shape[0]
    step = max(1, _BLOCK_ENTRIES * n_points // n_entries)
    for start in range(0, n_points, step):
        block, true = probabilities[start : start + step], labels[start : start + step]
        if issparse(block):
            block.sum_duplicates()
            p, y = block.data, np.zeros(block.nnz, dtype=bool)
            y[true_entries(block, true)] = True
        else:
            p, y = np.ravel(block), true.toarray().ravel()
        yield _in_range(p), y


def _check(probabilities, labels):
    """Return the number of listed probabilities; raise SettingsError if there are none or the shapes disagree."""
    if probabilities.shape != labels.shape:
        raise SettingsError(
            f"the probabilities are {probabilities.shape[0]}×{probabilities.shape[1]}, "
            f"the true labels {labels.shape[0]}×{labels.shape[1]}"
        )
    n_entries = probabilities.nnz if issparse(probabilities) else probabilities.size
    if not n_entries:
        raise SettingsError("there are no probabilities to evaluate")
    return n_entries


def _in_range(p):
    """Return probabilities as floating-point numbers; raise SettingsError if one is not in [0, 1]."""
    if p.dtype.kind != "f":
        p = p.astype(np.float64)
    if not (np.all(p >= 0) and np.all(p <= 1)):
        raise SettingsError("a probability is not in [0, 1]")
    return p
