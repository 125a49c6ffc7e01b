"""The factor model f = Φ h + b: from moments of the latent functions to the expected log likelihood.

Σ_ik E log σ(y_ik f_ik) = Σ_{i, k∈P_i} E f_ik − Σ_ik E log(1 + e^{f_ik}): the positives enter through their
means alone, so one expectation serves every label. With sampled negatives the same holds over a list of
(point, label) pairs with weights.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.label_weights import PairsByLabel
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import core_count, parallel_for, run_parallel

__all__ = ["Pairs", "Rows", "all_labels", "pair_moments", "sampled_labels", "utility_moments"]

#: Utilities of a block of labels: few enough for the cache, enough that calling is not what takes the time.
BLOCK = 1 << 18

#: Multiplications of pairwise products that are worth a thread.
PAIRWISE_GRAIN = 1 << 17


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


class Rows(NamedTuple):
    """A gradient that is zero but for some rows.

    Attributes
    ----------
    indices : ndarray of int, U
        Those rows, in ascending order.
    values : ndarray, U×... or U
        What stands in them.
    """

    indices: np.ndarray
    values: np.ndarray

    def toarray(self, count):
        """Return the whole gradient, of `count` rows."""
        whole = np.zeros((count, *self.values.shape[1:]), self.values.dtype)
        whole[self.indices] = self.values
        return whole


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


def all_labels(moments, loadings, bias, labels, expectations, value_needed=True, economical=False, own=None):
    """Return the expected log likelihood over all labels and its gradients.

    Labels are taken in blocks, so that memory grows with B + K and not with B·K.

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
    expectations : Quadrature, JaakkolaJordan or Taylor
        How E log(1 + e^f) is computed.
    value_needed : bool
        Without the value a step saves the costlier half of the expectations.
    economical : bool
        See `Quadrature.gradients`.
    own : WeightedPoints, optional
        Weights of the labels' own and the points, where utilities have that part; keeps its gradients.

    Returns
    -------
    value : float or None
        Σ_ik E log σ(y_ik f_ik).
    d_moments : Moments
    gradients : dict
        By `loadings` and `bias`.
    """
    batch, count = labels.shape
    d_loadings, d_bias = np.empty_like(loadings), np.empty_like(bias)
    # Positives label by label: a block of labels takes those of its own.
    by_label = labels.tocsc()
    positives = np.repeat(np.arange(count), np.diff(by_label.indptr))
    width = max(1, BLOCK // max(1, batch))
    # As many blocks for one core as for another.
    blocks = max(1, -(-count // (width * core_count()))) * core_count()
    bounds = np.linspace(0, count, blocks + 1).astype(int)
    values, by_moments = [0.0] * blocks, [None] * core_count()

    def of_one_core(core):
        total = Moments(*(np.zeros_like(values) for values in moments))
        for block in range(core, blocks, core_count()):
            start, stop = bounds[block : block + 2]
            first, last = by_label.indptr[[start, stop]]
            phi, here = loadings[start:stop], (by_label.indices[first:last], positives[first:last] - start)
            mean, variance = utility_moments(moments, phi, bias[start:stop])
            if own is not None:
                own.add(start, mean, variance)
            if value_needed:
                values[block] = float(mean[here].sum(dtype=np.float64))
                values[block] -= float(expectations.softplus(mean, variance).sum(dtype=np.float64))
            # In place: from here on the gradients by mean and variance, of the sign of −E log(1 + e^f).
            expectations.gradients(mean, variance, economical, out=(mean, variance))
            mean[here] -= 1
            if own is not None:
                own.collect(start, mean, variance, sign=-1)
            d_loadings[start:stop] = _loadings_gradient(mean, variance, moments, phi, total)
            d_bias[start:stop] = mean.sum(axis=0)
        by_moments[core] = total

    run_parallel(partial(of_one_core, core) for core in range(core_count()))
    np.negative(d_loadings, out=d_loadings)
    np.negative(d_bias, out=d_bias)
    d_moments = Moments(*(-sum(parts) for parts in zip(*by_moments, strict=True)))
    return sum(values) if value_needed else None, d_moments, {"loadings": d_loadings, "bias": d_bias}


def _loadings_gradient(d_mean, d_variance, moments, loadings, d_moments):
    """Return the gradient of Φ and add that of the moments to `d_moments`, given those of utilities, both B×K."""
    squares = loadings * loadings
    if moments.variance.shape[1] == 1:
        by_squares = (moments.variance[:, 0] @ d_variance)[:, None]
        d_latent_variance = (d_variance @ squares.sum(axis=1))[:, None]
    else:
        by_squares = d_variance.T @ moments.variance
        d_latent_variance = d_variance @ squares
    np.add(d_moments.mean, d_mean @ loadings, out=d_moments.mean)
    np.add(d_moments.variance, d_latent_variance, out=d_moments.variance)
    return d_mean.T @ moments.mean + 2 * by_squares * loadings


def sampled_labels(moments, loadings, bias, pairs, expectations, value_needed=True, economical=False, own=None):
    """Return the expected log likelihood over positives and sampled negatives, and its gradients.

    Its mean over samples is that of `all_labels` ([S] (23) without N/|B|).

    Parameters
    ----------
    moments, loadings, bias, expectations, value_needed, economical, own
        As in `all_labels`.
    pairs : Pairs
        Positives and sampled negatives.

    Returns
    -------
    value, d_moments, gradients
        As in `all_labels`; gradients are `Rows`, of the labels among the pairs.
    """
    indptr, columns, positive, weight = pairs
    used, columns, phi, widths = _in_use(moments, loadings, columns)
    mean, variance = _pair_moments(moments, phi, widths, bias[used], indptr, columns)
    if own is not None:
        by_label = PairsByLabel.of(indptr, used, columns)
        own.add_pairs(by_label, mean, variance)
    value = None
    if value_needed:
        value = float(mean[positive].sum(dtype=np.float64))
        value -= float(np.vdot(weight, expectations.softplus(mean, variance)))
    d_mean, d_variance = expectations.gradients(mean, variance, economical)
    d_mean *= -weight
    d_variance *= -weight
    d_mean += positive
    if own is not None:
        own.collect_pairs(by_label, d_mean, d_variance)
    shape = (len(indptr) - 1, len(used))
    by_mean = sp.csr_array((d_mean, columns, indptr), shape=shape)
    by_variance = sp.csr_array((d_variance, columns, indptr), shape=shape)
    d_moments = Moments(sparse.product(by_mean, phi), sparse.product(by_variance, widths))
    d_widths = sparse.product(by_variance.T.tocsr(), moments.variance)
    d_phi = sparse.product(by_mean.T.tocsr(), moments.mean)
    phi *= 2 * d_widths
    d_phi += phi
    d_bias = np.bincount(columns, d_mean, len(used)).astype(bias.dtype)
    return value, d_moments, {"loadings": Rows(used, d_phi), "bias": Rows(used, d_bias)}


def pair_moments(moments, loadings, bias, indptr, labels):
    """Return mean and variance of q(f_ik) for some labels of each point, both of E elements.

    Parameters
    ----------
    moments, loadings, bias
        As in `utility_moments`.
    indptr : ndarray, B+1
        Labels of point i are `labels[indptr[i]:indptr[i+1]]`.
    labels : ndarray, E
    """
    used, columns, phi, widths = _in_use(moments, loadings, labels)
    return _pair_moments(moments, phi, widths, bias[used], indptr, columns)


def _in_use(moments, loadings, labels):
    """Return the labels that occur, where each stands among them, their rows of Φ, and what variances multiply."""
    used, columns = np.unique(labels, return_inverse=True)
    phi = loadings[used]
    squares = phi * phi
    return used, columns, phi, squares.sum(axis=1, keepdims=True) if moments.variance.shape[1] == 1 else squares


def _pair_moments(moments, phi, widths, bias, indptr, columns):
    mean = _pairwise(moments.mean, phi, indptr, columns)
    mean += bias[columns]
    return mean, _pairwise(moments.variance, widths, indptr, columns)


def _pairwise(left, right, indptr, columns):
    """Return Σ_p left[i, p] right[k, p] for each pair (i, k)."""
    out = np.empty(len(columns), left.dtype)
    rows = len(indptr) - 1
    grain = PAIRWISE_GRAIN * rows // max(1, len(columns) * left.shape[1])
    parallel_for(lambda start, stop: _dots(left, right, indptr, columns, out, start, stop), rows, grain)
    return out


@compiled
def _dots(left, right, indptr, columns, out, start, stop):
    for i in range(start, stop):
        row = left[i]
        for e in range(indptr[i], indptr[i + 1]):
            other = right[columns[e]]
            total = left.dtype.type(0)
            for p in range(row.size):
                total += row[p] * other[p]
            out[e] = total
