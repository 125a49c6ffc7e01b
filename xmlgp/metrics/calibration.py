"""Measures of probabilities: log loss, the reliability curve and the expected calibration error.

Probabilities are an N×K array or a csr_array that lists some of the labels of each point. They are processed in blocks
of points, so the whole is never copied.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import true_entries

__all__ = ["ReliabilityCurve", "expected_calibration_error", "log_loss", "reliability_curve"]

#: Number of bins of Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, ICML 2017.
_BINS = 15

#: Entries in a block: 8 MB of float64.
_BLOCK_ENTRIES = 1 << 20


class ReliabilityCurve(NamedTuple):
    """Probabilities and observed frequencies in bins of equal width over [0, 1].

    Parameters
    ----------
    count : ndarray of int, bins
        Entries in each bin; a bin contains its lower edge, the last also 1.
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
    count, confidence, frequency = np.zeros((3, bins))
    for p, y in _listed_entries(probabilities, labels):
        bin_of = np.minimum((p * bins).astype(np.intp), bins - 1)
        count += np.bincount(bin_of, minlength=bins)
        confidence += np.bincount(bin_of, weights=p, minlength=bins)
        frequency += np.bincount(bin_of, weights=y, minlength=bins)
    filled = np.where(count, count, np.nan)
    return ReliabilityCurve(count.astype(np.int64), confidence / filled, frequency / filled)


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


def _listed_entries(probabilities, labels):
    """Yield the listed probabilities and whether each is true, as flat arrays, in blocks of points."""
    if probabilities.shape != labels.shape:
        raise SettingsError(
            f"the probabilities are {probabilities.shape[0]}×{probabilities.shape[1]}, "
            f"the true labels {labels.shape[0]}×{labels.shape[1]}"
        )
    n_entries = probabilities.nnz if issparse(probabilities) else probabilities.size
    if not n_entries:
        raise SettingsError("there are no probabilities to evaluate")
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
        if p.dtype.kind != "f":
            p = p.astype(np.float64)
        if not (np.all(p >= 0) and np.all(p <= 1)):
            raise SettingsError("a probability is not in [0, 1]")
        yield p, y
