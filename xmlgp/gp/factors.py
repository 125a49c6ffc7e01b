"""The factor model f = Φ h + b: from moments of the latent functions to the expected log likelihood.

Σ_ik E log σ(y_ik f_ik) = Σ_{i, k∈P_i} E f_ik − Σ_ik E log(1 + e^{f_ik}): the positives enter through their
means alone, so one expectation serves every label. With sampled negatives the same holds over a list of
(point, label) pairs with weights.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.gp import expectations
from xmlgp.gp.posteriors.moments import Moments

__all__ = ["Pairs", "all_labels", "sampled_labels", "utility_moments"]


class Pairs(NamedTuple):
    """The (point, label) pairs of a minibatch with sampled negatives.

    Attributes
    ----------
    indptr : ndarray, B+1
        Pairs of point i are `indptr[i]:indptr[i+1]`.
    labels : ndarray, E
        Label of each pair.
    positive : ndarray of bool, E
        Whether the label is one of P_i.
    weight : ndarray, E
        1 for positives, |N_i| / |L_i| for negatives.
    """

    indptr: np.ndarray
    labels: np.ndarray
    positive: np.ndarray
    weight: np.ndarray


def utility_moments(moments, loadings, bias):
    """Return mean and variance of q(f_ik) for all labels, both B×K ([S] (21)).

    f_ik has mean Σ_p φ_kp m_ip + b_k and variance Σ_p φ_kp² s_ip.

    Parameters
    ----------
    moments : Moments
        Of the latent functions, B×P (variance B×1 where shared).
    loadings : ndarray, K×P
        Φ.
    bias : ndarray, K
        b.
    """
    mean = moments.mean @ loadings.T
    mean += bias
    squares = loadings * loadings
    if moments.variance.shape[1] == 1:
        return mean, moments.variance * squares.sum(axis=1)
    return mean, moments.variance @ squares.T


def all_labels(moments, loadings, bias, labels, nodes, value_needed=True, economical=False):
    """Return the expected log likelihood over all labels and its gradients.

    Parameters
    ----------
    moments : Moments
        Of the latent functions at the points of a minibatch.
    loadings : ndarray, K×P
        Φ.
    bias : ndarray, K
        b.
    labels : csr_array, B×K
        Y, its positives.
    nodes : int
        Quadrature nodes.
    value_needed : bool
        Without the value a step saves the costlier half of the quadrature.
    economical : bool
        See `expectations.logistic_gradients`.

    Returns
    -------
    value : float or None
        Σ_ik E log σ(y_ik f_ik).
    d_moments : Moments
    gradients : dict
        By `loadings` and `bias`.
    """
    mean, variance = utility_moments(moments, loadings, bias)
    value = None
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
    if value_needed:
        value = float(mean[rows, labels.indices].sum(dtype=np.float64))
        value -= float(expectations.softplus(mean, variance, nodes).sum(dtype=np.float64))
    d_mean, d_variance = expectations.logistic_gradients(mean, variance, nodes, economical)
    np.negative(d_mean, out=d_mean)
    np.negative(d_variance, out=d_variance)
    d_mean[rows, labels.indices] += 1
    squares = loadings * loadings
    if moments.variance.shape[1] == 1:
        d_squares = moments.variance[:, 0] @ d_variance
        d_latent_variance = (d_variance @ squares.sum(axis=1))[:, None]
        d_loadings = d_mean.T @ moments.mean + (2 * d_squares)[:, None] * loadings
    else:
        d_latent_variance = d_variance @ squares
        d_loadings = d_mean.T @ moments.mean + 2 * loadings * (d_variance.T @ moments.variance)
    d_moments = Moments(d_mean @ loadings, d_latent_variance)
    return value, d_moments, {"loadings": d_loadings, "bias": d_mean.sum(axis=0)}


def sampled_labels(moments, loadings, bias, pairs, nodes, value_needed=True, economical=False):
    """Return the expected log likelihood over positives and sampled negatives, and its gradients.

    Its mean over samples is that of `all_labels` ([S] (23) without N/|B|).

    Parameters
    ----------
    moments, loadings, bias, nodes, value_needed, economical
        As in `all_labels`.
    pairs : Pairs
        Positives and sampled negatives.

    Returns
    -------
    value, d_moments, gradients
        As in `all_labels`; gradients have the shapes of Φ and b, zero at labels not among the pairs.
    """
    indptr, columns, positive, weight = pairs
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    # Only the rows of Φ and b in use are gathered, once each.
    used, columns = np.unique(columns, return_inverse=True)
    phi, squares = loadings[used], np.square(loadings[used])
    mean = _pairwise(moments.mean, phi, rows, columns) + bias[used][columns]
    shared = moments.variance.shape[1] == 1
    if shared:
        variance = moments.variance[rows, 0] * squares.sum(axis=1)[columns]
    else:
        variance = _pairwise(moments.variance, squares, rows, columns)
    value = None
    if value_needed:
        value = float(mean[positive].sum(dtype=np.float64))
        value -= float(np.vdot(weight, expectations.softplus(mean, variance, nodes)))
    d_mean, d_variance = expectations.logistic_gradients(mean, variance, nodes, economical)
    d_mean *= -weight
    d_variance *= -weight
    d_mean += positive
    shape = (len(indptr) - 1, len(used))
    by_mean = sp.csr_array((d_mean, columns, indptr), shape=shape)
    by_variance = sp.csr_array((d_variance, columns, indptr), shape=shape)
    if shared:
        d_latent_variance = (by_variance @ squares.sum(axis=1))[:, None]
        d_phi = by_mean.T @ moments.mean + (2 * (by_variance.T @ moments.variance)) * phi
    else:
        d_latent_variance = by_variance @ squares
        d_phi = by_mean.T @ moments.mean + 2 * phi * (by_variance.T @ moments.variance)
    d_loadings, d_bias = np.zeros_like(loadings), np.zeros_like(bias)
    d_loadings[used] = d_phi
    d_bias[used] = np.bincount(columns, d_mean, len(used))
    d_moments = Moments(by_mean @ phi, d_latent_variance)
    return value, d_moments, {"loadings": d_loadings, "bias": d_bias}


def _pairwise(left, right, rows, columns):
    """Return Σ_p left[rows, p] right[columns, p], gathered a chunk at a time."""
    chunk = max(1, expectations.CHUNK * 16 // left.shape[1])
    out = np.empty(len(rows), left.dtype)
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        np.einsum("ep,ep->e", left[rows[part]], right[columns[part]], out=out[part])
    return out
