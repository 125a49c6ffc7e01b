"""Weights of each label on its own features: f = Φ h + b + W x, for what few labels share.

Φ h has rank P. A label of few points has little say in it; here it has weights of its own, on the features that its
training points have. Their posterior is Gaussian and independent, q(w_kd) = N(m_kd, v_kd); their prior is N(0, τ_d),
its variance learned for each feature within the bound: words that say nothing about any label lose their weight.
"""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from xmlgp.gp.log_parameters import LIMIT, ROUNDING, bounded_exp, is_inside
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import core_count, parallel_for, run_parallel

__all__ = [
    "LABEL_WEIGHTS_FIXED",
    "LABEL_WEIGHTS_RATE",
    "WEIGHTS_LIMIT",
    "LabelWeights",
    "PairsByLabel",
    "WeightedPoints",
    "fits",
    "initial_label_weights",
    "own_features",
    "useful",
]

#: Parameters that say where weights are and are not optimised.
LABEL_WEIGHTS_FIXED = frozenset({"label_weights.indptr", "label_weights.features"})

#: Multiple of the learning rate for means of weights: those of a label of few points have a long way to go from zero,
#: in the few minibatches that have such a point.
LABEL_WEIGHTS_RATE = 10.0

#: Features for each latent function from which on labels get weights of their own: with fewer, Φ h has all directions
#: that matter, and on validation points of Delicious (D=500, P=100) weights beside it do harm.
FEATURES_A_FACTOR = 10

#: Weights that a model may have; beyond it each label keeps those features that its points have most of.
WEIGHTS_LIMIT = 30_000_000

#: Start of the prior variances τ.
PRIOR_VARIANCE = 4.0

#: Stored elements of points that are looked through at a time for the features of labels.
AT_A_TIME = 1 << 22

#: Elements that are worth a thread.
GRAIN = 1 << 16

#: Elements that stay in a core's cache.
CACHED = 1 << 15

#: Variances between these change with their logarithms (`xmlgp.gp.log_parameters.within`).
LEAST_VARIANCE, GREATEST_VARIANCE = np.exp(-LIMIT) * (1 + ROUNDING), np.exp(LIMIT) * (1 - ROUNDING)

#: Parts in which the labels of pairs are shared out.
PIECES = 32


def useful(feature_count, factor_count):
    """Return whether labels should have weights of their own, given D and P."""
    return feature_count >= FEATURES_A_FACTOR * factor_count


def own_features(features, labels, limit=WEIGHTS_LIMIT):
    """Return which features the points of each label have.

    Parameters
    ----------
    features : csr_array, N×D
        X, weighted.
    labels : csr_array, N×K
        Y.
    limit : int
        Most weights of all labels together, where every label has at least one: labels of more features than others
        lose first those of least total value over their points.

    Returns
    -------
    indptr : ndarray of int64, K+1
        Features of label k are `features[indptr[k]:indptr[k + 1]]`.
    features : ndarray of int32
        In ascending order, label by label.
    """
    by_label = labels.T.tocsr().astype(np.float32)
    magnitudes = sp.csr_array((np.abs(features.data), features.indices, features.indptr), shape=features.shape)

    # Labels whose points have about as many features together as are worked on at a time.
    ends = np.cumsum(by_label.astype(bool) @ np.diff(features.indptr).astype(np.float64))
    cuts = np.searchsorted(ends, np.arange(1, ends[-1] // AT_A_TIME + 1) * AT_A_TIME) if len(ends) else []
    bounds = np.unique([0, *cuts, len(ends)])

    def blocks():
        for start, stop in pairwise(bounds):
            yield by_label[start:stop] @ magnitudes

    lengths = [np.diff(block.indptr) for block in blocks()]
    lengths = np.concatenate(lengths) if lengths else np.zeros(0, int)
    most = _most_each(lengths, limit)
    found = [_strongest(block, most) for block in blocks()]
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, most))]).astype(np.int64)
    return indptr, np.concatenate(found) if found else np.zeros(0, np.int32)


def _most_each(lengths, limit):
    """Return the greatest m with Σ_k min(length_k, m) ≤ limit, at least 1."""
    if lengths.sum() <= limit:
        return int(lengths.max(initial=1))
    low, high = 1, int(lengths.max())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(lengths, middle).sum() <= limit else (low, middle - 1)
    return low


def _strongest(totals, most):
    """Return the features of greatest value in each row, at most so many, in ascending order."""
    if np.diff(totals.indptr).max(initial=0) <= most:
        totals.sort_indices()
        return totals.indices.astype(np.int32)
    rows = np.repeat(np.arange(totals.shape[0]), np.diff(totals.indptr))
    order = np.lexsort((totals.indices, -totals.data, rows))
    kept = order[np.arange(len(rows)) - totals.indptr[rows] < most]
    rows, columns = rows[kept], totals.indices[kept]
    return columns[np.lexsort((columns, rows))].astype(np.int32)


def fits(parameters, feature_count, label_count):
    """Return whether the arrays of weights, as a file has them, fit each other and the model: loops trust them.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        See `initial_label_weights`; nothing of it may be there as well.
    feature_count, label_count : int
        D and K.
    """
    arrays = {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith("label_weights.")}
    if not arrays:
        return True
    if arrays.keys() != {"indptr", "features", "mean", "log_variance", "log_prior"}:
        return False
    indptr, features, *values = (arrays[name] for name in ("indptr", "features", "mean", "log_variance", "log_prior"))
    return bool(
        sparse.is_pattern(indptr, features, label_count, feature_count)
        and values[0].dtype in (np.float32, np.float64)
        and all(array.dtype == values[0].dtype for array in values)
        and [array.shape for array in values] == [features.shape, features.shape, (feature_count,)]
    )


def initial_label_weights(features, labels, bias, dtype):
    """Return parameters to start from: means of zero, and variances as of one Newton step from f = b.

    v_kd = 1 / (1/τ_d + π_k (1 − π_k) Σ_i x_id²) with π = σ(b) and τ_d = `PRIOR_VARIANCE`.

    Parameters
    ----------
    features : csr_array, N×D
        X, weighted.
    labels : csr_array, N×K
        Y.
    bias : ndarray, K
        b.
    dtype : dtype

    Returns
    -------
    dict of str to ndarray
        `label_weights.indptr` and `label_weights.features`, where the weights are (see `own_features`);
        `label_weights.mean` and `label_weights.log_variance`, m and log v of each; `label_weights.log_prior`, log τ, D.
    """
    indptr, columns = own_features(features, labels)
    squares = np.zeros(features.shape[1])
    # NumPy counts in 64 bits: all indices at once would be copied.
    step = max(GRAIN, features.shape[1])
    for start in range(0, features.nnz, step):
        part = slice(start, start + step)
        weights = np.square(features.data[part], dtype=np.float64)
        squares += np.bincount(features.indices[part], weights, features.shape[1])
    probability = expit(bias.astype(np.float64))
    curvature = np.repeat(probability * (1 - probability), np.diff(indptr))
    curvature *= squares[columns]
    return {
        "label_weights.indptr": indptr,
        "label_weights.features": columns,
        "label_weights.mean": np.zeros(len(columns), dtype),
        "label_weights.log_variance": -np.log(1 / PRIOR_VARIANCE + curvature).astype(dtype),
        "label_weights.log_prior": np.full(features.shape[1], np.log(PRIOR_VARIANCE), dtype),
    }


class LabelWeights:
    """q(W) with mean m and variance v of each weight; v and τ are within the limit of `xmlgp.gp.log_parameters`.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        See `initial_label_weights`.
    """

    def __init__(self, parameters):
        self.indptr, self.features, self.mean, self._log_variance, self._log_prior = (
            parameters[f"label_weights.{name}"] for name in ("indptr", "features", "mean", "log_variance", "log_prior")
        )
        self.variance = np.empty_like(self.mean)
        parallel_for(self._fill_variance, len(self.mean), GRAIN)

    def _fill_variance(self, start, stop):
        # Few at a time: they are in the cache still when their exponentials are taken.
        for first in range(start, stop, CACHED):
            part = slice(first, min(first + CACHED, stop))
            bounded_exp(self._log_variance[part], out=self.variance[part])

    def kl(self):
        """Return KL[q(W) ‖ p(W)] = ½ Σ_kd ((m_kd² + v_kd)/τ_d − 1 − log v_kd + log τ_d)."""
        inverse, log_prior = bounded_exp(-self._log_prior), np.clip(self._log_prior, -LIMIT, LIMIT)
        total = 0.0
        for start in range(0, len(self.mean), GRAIN):
            part = slice(start, start + GRAIN)
            columns = self.features[part]
            terms = (np.square(self.mean[part]) + self.variance[part]) * inverse[columns] - 1
            terms += log_prior[columns] - np.clip(self._log_variance[part], -LIMIT, LIMIT)
            total += terms.sum(dtype=np.float64)
        return 0.5 * total

    def gradients(self, scale, by_mean, by_variance):
        """Return the gradients of `scale` times the expected log likelihood less the KL divergence.

        Parameters
        ----------
        scale : float
        by_mean, by_variance : ndarray
            Of the expected log likelihood by m and v; they are overwritten.

        Returns
        -------
        dict of str to ndarray
            By the names of parameters.
        """
        inverse = bounded_exp(-self._log_prior)
        arrays = self.features, self.mean, self.variance, inverse, by_mean, by_variance
        bounds = [len(self.mean) * core // core_count() for core in range(core_count() + 1)]
        by_prior = np.zeros((core_count(), len(inverse)))
        run_parallel(
            partial(_with_prior, bounds[core], bounds[core + 1], self.mean.dtype.type(scale), *arrays, by_prior[core])
            for core in range(core_count())
        )
        return {
            "label_weights.mean": by_mean,
            "label_weights.log_variance": by_variance,
            "label_weights.log_prior": (by_prior.sum(axis=0) * is_inside(inverse)).astype(self.mean.dtype),
        }


class WeightedPoints:
    """Some points and q(W): W x has mean Σ_d m_kd x_d and variance Σ_d v_kd x_d².

    Parameters
    ----------
    weights : LabelWeights
    features : csr_array, B×D
        X, weighted.

    Attributes
    ----------
    weights : LabelWeights
    by_mean, by_variance : ndarray
        The gradients by m and v that were collected.
    """

    def __init__(self, weights, features):
        self.weights = weights
        by_feature = features.tocsc()
        values = by_feature.data.astype(weights.mean.dtype, copy=False)
        self._pattern = weights.indptr, weights.features
        self._points = by_feature.indptr, by_feature.indices, values
        self._squares = values * values

    def prepare_gradients(self):
        """Make room for what `collect` and `collect_pairs` find; labels that they leave out have no gradient."""
        self.by_mean, self.by_variance = np.zeros_like(self.weights.mean), np.zeros_like(self.weights.mean)

    def add(self, first, mean, variance=None):
        """Add the moments of W x to those of the utilities of labels from `first` on, B×L, in place.

        Parameters
        ----------
        first : int
        mean, variance : ndarray, B×L
            Variances may be left out.
        """
        if variance is None:
            _add(first, *self._pattern, self.weights.mean, *self._points, mean)
        else:
            _add_moments(first, *self._posterior, *self._points, self._squares, mean, variance)

    @property
    def _posterior(self):
        return *self._pattern, self.weights.mean, self.weights.variance

    def collect(self, first, d_mean, d_variance, sign=1):
        """Keep the gradients of labels from `first` on, given `sign` times those by the moments of utilities, B×L."""
        gradients = self.by_mean, self.by_variance
        _collect(first, *self._pattern, *self._points, self._squares, d_mean, d_variance, sign, *gradients)

    def add_pairs(self, pairs, mean, variance):
        """Add the moments of W x to those of the utilities of pairs, E, in place.

        Parameters
        ----------
        pairs : PairsByLabel
        mean, variance : ndarray, E
        """
        _shared_out(_add_pairs, pairs, *self._posterior, *self._points, self._squares, mean, variance)

    def collect_pairs(self, pairs, d_mean, d_variance):
        """Keep the gradients, given those by the moments of the utilities of pairs, E."""
        gradients = self.by_mean, self.by_variance
        _shared_out(_collect_pairs, pairs, *self._pattern, *self._points, self._squares, d_mean, d_variance, *gradients)


class PairsByLabel(NamedTuple):
    """Pairs (point, label), label by label.

    Attributes
    ----------
    labels : ndarray, U
        Those that occur, in ascending order.
    starts : ndarray, U+1
        Pairs of label u are `order[starts[u]:starts[u + 1]]`.
    order : ndarray, E
    points : ndarray, E
        The point of each pair, in their own order.
    point_count : int
        B.
    """

    labels: np.ndarray
    starts: np.ndarray
    order: np.ndarray
    points: np.ndarray
    point_count: int

    @classmethod
    def of(cls, indptr, used, columns):
        """Return them, given where the pairs of each point start, B+1, the labels and which one each pair has."""
        counts = np.bincount(columns, minlength=len(used))
        starts = np.concatenate([[0], np.cumsum(counts)])
        points = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        return cls(used, starts, np.argsort(columns, kind="stable"), points, len(indptr) - 1)


def _shared_out(function, pairs, *arrays):
    # Labels in many pieces: those of many weights are rare and not spread evenly.
    count = len(pairs.labels)
    bounds = [count * i // PIECES for i in range(PIECES + 1)]
    run_parallel(partial(function, start, stop, *pairs, *arrays) for start, stop in pairwise(bounds) if start < stop)


@compiled
def _add(first, indptr, features, weights, points, rows, values, out):
    total = np.empty(out.shape[0], out.dtype)
    for j in range(out.shape[1]):
        # A column of `out` lies scattered; its sum does not.
        total[:] = 0
        for e in range(indptr[first + j], indptr[first + j + 1]):
            weight = weights[e]
            for t in range(points[features[e]], points[features[e] + 1]):
                total[rows[t]] += values[t] * weight
        for i in range(total.size):
            out[i, j] += total[i]


@compiled
def _moments(k, indptr, features, means, variances, points, rows, values, squares, mean, variance):
    """Fill in both moments of a label's part of the utilities of all points: one walk, which is what takes time."""
    mean[:] = 0
    variance[:] = 0
    for e in range(indptr[k], indptr[k + 1]):
        m, v = means[e], variances[e]
        for t in range(points[features[e]], points[features[e] + 1]):
            mean[rows[t]] += values[t] * m
            variance[rows[t]] += squares[t] * v


@compiled
def _gradients(k, indptr, features, points, rows, values, squares, d_mean, d_variance, sign, by_mean, by_variance):
    """Fill in `sign` times a label's gradients, given those by the moments of its utilities of all points."""
    zero = d_mean.dtype.type(0)
    for e in range(indptr[k], indptr[k + 1]):
        m, v = zero, zero
        for t in range(points[features[e]], points[features[e] + 1]):
            m += values[t] * d_mean[rows[t]]
            v += squares[t] * d_variance[rows[t]]
        by_mean[e], by_variance[e] = sign * m, sign * v


@compiled
def _add_moments(first, indptr, features, means, variances, points, rows, values, squares, mean, variance):
    m, v = np.empty(mean.shape[0], mean.dtype), np.empty(mean.shape[0], mean.dtype)
    for j in range(mean.shape[1]):
        _moments(first + j, indptr, features, means, variances, points, rows, values, squares, m, v)
        for i in range(m.size):
            mean[i, j] += m[i]
            variance[i, j] += v[i]


@compiled
def _collect(first, indptr, features, points, rows, values, squares, d_mean, d_variance, sign, by_mean, by_variance):
    m, v = np.empty(d_mean.shape[0], d_mean.dtype), np.empty(d_mean.shape[0], d_mean.dtype)
    for j in range(d_mean.shape[1]):
        for i in range(m.size):
            m[i], v[i] = d_mean[i, j], d_variance[i, j]
        _gradients(first + j, indptr, features, points, rows, values, squares, m, v, sign, by_mean, by_variance)


@compiled
def _add_pairs(
    start, stop, labels, starts, order, pair_points, count,
    indptr, features, means, variances, points, rows, values, squares, mean, variance,
):  # fmt: skip
    m, v = np.empty(count, mean.dtype), np.empty(count, mean.dtype)
    for u in range(start, stop):
        _moments(labels[u], indptr, features, means, variances, points, rows, values, squares, m, v)
        for s in range(starts[u], starts[u + 1]):
            mean[order[s]] += m[pair_points[order[s]]]
            variance[order[s]] += v[pair_points[order[s]]]


@compiled
def _collect_pairs(
    start, stop, labels, starts, order, pair_points, count,
    indptr, features, points, rows, values, squares, d_mean, d_variance, by_mean, by_variance,
):  # fmt: skip
    m, v = np.zeros(count, d_mean.dtype), np.zeros(count, d_mean.dtype)
    for u in range(start, stop):
        for s in range(starts[u], starts[u + 1]):
            m[pair_points[order[s]]] += d_mean[order[s]]
            v[pair_points[order[s]]] += d_variance[order[s]]
        _gradients(labels[u], indptr, features, points, rows, values, squares, m, v, 1, by_mean, by_variance)
        for s in range(starts[u], starts[u + 1]):
            m[pair_points[order[s]]] = 0
            v[pair_points[order[s]]] = 0


@compiled
def _with_prior(start, stop, scale, features, mean, variance, inverse, by_mean, by_variance, by_prior):
    half, one, zero = mean.dtype.type(0.5), mean.dtype.type(1), mean.dtype.type(0)
    least, greatest = mean.dtype.type(LEAST_VARIANCE), mean.dtype.type(GREATEST_VARIANCE)
    for e in range(start, stop):
        m, v, precision = mean[e], variance[e], inverse[features[e]]
        by_mean[e] = scale * by_mean[e] - m * precision
        slope = v * (scale * by_variance[e] - half * precision) + half
        by_variance[e] = slope if least < v < greatest else zero
        by_prior[features[e]] += half * ((m * m + v) * precision - one)
