"""Measures of probabilities: log loss, the reliability curve and the expected calibration error.

Probabilities come as an N×K array or as a csr_array that lists some of the labels of each point. They are worked
through in blocks of points, so no copy of the whole is made.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import true_entries

__all__ = ["ReliabilityCurve", "expected_calibration_error", "log_loss", "reliability_curve"]

#: The usual number of bins (Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, ICML 2017).
_BINS = 15

#: Entries worked on at once: 8 MB of float64.
_BLOCK_ENTRIES = 1 << 20


class ReliabilityCurve(NamedTuple):
    """Probabilities and what came true, by bins of equal width over [0, 1].

    Parameters
    ----------
    count : array of int, bins
        Entries whose probability falls into the bin; a bin holds its lower edge, the last also 1.
    confidence : array of float, bins
        Their mean probability, NaN where there are none.
    frequency : array of float, bins
        The share of them that is true, NaN where there are none.
    """

    count: np.ndarray
    confidence: np.ndarray
    frequency: np.ndarray

    @property
    def error(self):
        """The expected calibration error, see `expected_calibration_error`."""
        gaps = np.abs(self.frequency - self.confidence)
        return float(np.nansum(self.count * gaps) / self.count.sum())


def log_loss(probabilities, labels, unlisted=None):
    """Return the mean of −log p(y) over the entries.

    Parameters
    ----------
    probabilities : array or csr_array of float, N×K
        p(y = 1) of each entry; moved away from 0 and 1 by the machine epsilon of its type, as scikit-learn does.
    labels : csr_array of bool, N×K
        The true labels.
    unlisted : float, optional
        The probability of the entries a csr_array does not list. Without it they are left out, and the loss is the
        mean over the listed ones: of all N×K where each label is listed, of the top labels alone after a top-k
        prediction.

    Returns
    -------
    float
        The loss in nats.

    Raises
    ------
    SettingsError
        Where the shapes disagree, a number is no probability or there is no entry.
    """
    n_listed = n_true = 0
    total = 0.0
    for p, y in _listed_entries(probabilities, labels):
        n_listed, n_true = n_listed + y.size, n_true + np.count_nonzero(y)
        total += _losses(p, y).sum(dtype=np.float64)
    if unlisted is None:
        return float(total / n_listed)
    loss_of_true, loss_of_false = _losses(np.full(2, unlisted, dtype=np.float64), np.array([True, False]))
    n_entries, n_missed = labels.shape[0] * labels.shape[1], labels.count_nonzero() - n_true
    return float((total + n_missed * loss_of_true + (n_entries - n_listed - n_missed) * loss_of_false) / n_entries)


def reliability_curve(probabilities, labels, bins=_BINS):
    """Compare probabilities with frequencies, bin by bin.

    Parameters
    ----------
    probabilities : array or csr_array of float, N×K
        p(y = 1) of each entry; the entries a csr_array does not list are left out.
    labels : csr_array of bool, N×K
        The true labels.
    bins : int
        The number of bins.

    Returns
    -------
    ReliabilityCurve
        What falls into each bin.

    Raises
    ------
    SettingsError
        Where the shapes disagree, a number is no probability or there is no entry.
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
    """Return how far probabilities stand from frequencies on average, Σ_b n_b/n |frequency_b − confidence_b|.

    Each entry is an event of its own, predicted with its probability of being true (not with that of the likelier
    outcome, as for a classifier of exclusive classes).

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
        Where the shapes disagree, a number is no probability or there is no entry.
    """
    return reliability_curve(probabilities, labels, bins).error


def _losses(p, y):
    """Return −log of the probability of what came true."""
    margin = np.finfo(p.dtype).eps
    p = np.clip(p, margin, 1 - margin)
    return -np.log(np.where(y, p, 1 - p))


def _listed_entries(probabilities, labels):
    """Yield the probabilities listed and whether each is true, flat, in blocks of points."""
    if probabilities.shape != labels.shape:
        raise SettingsError(
            f"the probabilities are {probabilities.shape[0]}×{probabilities.shape[1]}, "
            f"the true labels {labels.shape[0]}×{labels.shape[1]}"
        )
    n_entries = probabilities.nnz if issparse(probabilities) else probabilities.size
    if not n_entries:
        raise SettingsError("there is no probability to measure")
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
            raise SettingsError("a probability is a number from 0 to 1, these are not all")
        yield p, y
