"""Latent functions with a linear kernel in weight space: h_p(x) = t_pᵀ x, with one weight for each feature.

A GP with the linear kernel k(x, x′) = Σ_d a_d x_d x′_d has the unit vectors as inducing inputs without any loss: its
values there are the weights t_dp ~ N(0, a_d). K_Z is diagonal then, so a step costs as much as the features and labels
of its minibatch, and neither D nor K.

Training is in whitened weights, t_dp = √a_d u_dp with u_dp ~ N(0, 1) and q(u_dp) = N(m_dp, v_d), one variance for all
latent functions as in `xmlgp.gp.posteriors.SharedDiagonal`. The relevances a_d then have gradients by the likelihood,
as those of a kernel with automatic relevance determination have, and none by the divergence: features that matter gain
weight together in all latent functions. Their prior is log a_d ~ N(0, 1), without which words of few points get
relevances that fit these points: documents of a few words lose 2 of P@1.

Source: J. Hensman, A. Matthews, Z. Ghahramani, Scalable variational Gaussian process classification, AISTATS 2015, for
the whitening.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.features.inputs import Points
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.parameters import Gradients, IndexedRows, Parameters, bounded_exp, is_inside
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.array_groups import COMMON_FLOAT, Array, ArrayGroup
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = [
    "LATENT_WEIGHTS",
    "LOG_VARIANCE",
    "MEAN",
    "PARAMETERS",
    "PRIOR",
    "WHITENED",
    "WeightSpace",
    "WeightSpacePrediction",
    "feature_shares",
    "log_absent",
    "unwhitened",
]

#: The arrays of q(t) in a trained model.
LATENT_WEIGHTS = ArrayGroup(
    "latent_weights.",
    mean=Array("D P", COMMON_FLOAT),
    log_variance=Array("D", COMMON_FLOAT),
    log_prior=Array("D", COMMON_FLOAT),
)

#: The names of the parameters of a trained model: means of q(t), D×P, log variances, D, and log a, D.
PARAMETERS = MEAN, LOG_VARIANCE, PRIOR = tuple(LATENT_WEIGHTS.arrays)

#: The names of the parameters that steps change: m, log v and log a.
WHITENED = ("latent_weights.whitened_mean", "latent_weights.whitened_log_variance", PRIOR)


def log_absent(count: int, special: NDArray[np.integer] | int, size: int) -> NDArray[np.float64]:
    """Return the log probability that a sample of B of N elements without replacement has no special one, elementwise.

    With n special elements it is log [C(N − n, B) / C(N, B)], and −∞ if no such sample exists.
    """
    log_factorial = _log_factorials(count)
    spare = count - special - size
    log_ratio = log_factorial[count - special] - log_factorial[np.maximum(spare, 0)] - log_factorial[count]
    return np.where(spare >= 0, log_ratio + log_factorial[max(count - size, 0)], -np.inf)


@functools.lru_cache(maxsize=4)
def _log_factorials(count: int) -> NDArray[np.float64]:
    """Return log n! for n = 0, …, `count`, a cached array of `count` + 1 elements that cannot be written to."""
    values = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    values.flags.writeable = False
    return values


def feature_shares(features: sp.csr_array) -> Callable[[int], NDArray[np.float64]]:
    """Return a function of B that returns, for each feature of X, the probability that it occurs in a minibatch, D.

    A minibatch has B of the N points of X, N×D. The probability is 1 for features of no point, so that it can divide.
    """
    N = features.shape[0]
    counts = sparse.column_sums(features.indices, features.shape[1])

    # Minibatches have few different sizes.
    @functools.cache
    def shares(batch_size: int) -> NDArray[np.float64]:
        return np.where(counts > 0, -np.expm1(log_absent(N, counts, batch_size)), 1)

    return shares


class _Scales(NamedTuple):
    """The roots √a of the prior variances of U features, the variances a v of their weights t, and log a, each U."""

    root: NDArray[np.floating]
    variance: NDArray[np.floating]
    log_prior: NDArray[np.floating]


class Tape(NamedTuple):
    """The U features in a minibatch: their columns, values at its points as the arrays of a csr_array, U×B, and scales.

    `whitened` are the means m of all features, D×P.
    """

    columns: NDArray[np.integer]
    values: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]]
    scales: _Scales
    whitened: NDArray[np.floating]


class WeightSpace:
    """Latent functions h = Tᵀx with t_dp = √a_d u_dp, q(u_dp) = N(m_dp, v_d) and p(u_dp) = N(0, 1).

    Parameters in the flat mapping: `latent_weights.whitened_mean`, m, D×P; `latent_weights.whitened_log_variance`,
    log v, D; `latent_weights.log_prior`, log a, D. `unwhitened` returns q(t) of trained parameters.

    The divergence has gradients only for the features of a minibatch. They are divided by the probability that a
    minibatch has the feature, so that they are unbiased: it is given by `shares` (see `feature_shares`).
    """

    parameter_names = WHITENED
    fixed: frozenset[str] = frozenset()
    relative: frozenset[str] = frozenset()

    def __init__(self, shares: Callable[[int], NDArray[np.float64]]) -> None:
        self._shares = shares

    def forward(
        self, parameters: Parameters, points: Points, value_needed: bool = True
    ) -> tuple[Moments, float | None, Tape]:
        """Return the moments at the points of a minibatch, the KL divergence of all weights or None, and the tape.

        The coordinates of points are weighted features X, B×D. At a point x the latent functions have the means
        xᵀ(√a m) and the variance Σ_d x_d² a_d v_d. The divergence is ½ Σ_d [Σ_p m_dp² + P (v_d − 1 − log v_d)], and
        has the log density of the prior of a, −½ Σ_d (log a_d)², taken from it; it takes a pass over all weights.
        """
        whitened = parameters[self.parameter_names[0]]
        dtype = whitened.dtype
        X = _features_of(points).astype(dtype, copy=False)
        by_feature = X.tocsc()
        present = np.flatnonzero(np.diff(by_feature.indptr))
        scales = _scales(parameters, present)
        # √a multiplies the values of features, which are far fewer than the weights.
        of_features = np.empty((2, X.shape[1]), dtype)
        of_features[:, present] = scales[:2]
        scaled = np.empty_like(X.data)
        moments = Moments(np.empty((X.shape[0], whitened.shape[1]), dtype), np.empty((X.shape[0], 1), dtype))

        def fill(start: int, stop: int) -> None:
            _fill_moments(start, stop, sparse.arrays_of(X), of_features, whitened, scaled, *moments)

        parallel_for(fill, X.shape[0], sparse.row_grain(X.shape[0], X.nnz, whitened.shape[1]))
        # No features without elements are between those that are present.
        starts = by_feature.indptr[np.append(present, X.shape[1])]
        tape = Tape(present, (starts, by_feature.indices, by_feature.data), scales, whitened)
        return moments, self._kl(parameters) if value_needed else None, tape

    def _kl(self, parameters: Parameters) -> float:
        """Return the divergence of all weights, less the log density of log a but for a constant."""
        whitened, log_variance, log_prior = (parameters[name] for name in WHITENED)
        variance = bounded_exp(log_variance).astype(np.float64)
        squares = float(np.einsum("dp,dp->d", whitened, whitened).sum(dtype=np.float64))
        squares += float(np.square(log_prior, dtype=np.float64).sum())
        return float(0.5 * (squares + whitened.shape[1] * (variance - 1 - np.log(variance)).sum()))

    def backward(self, tape: Tape, d_moments: Moments, for_step: bool = False) -> Gradients:
        """Return the gradients of the bound by parameter name, for the features of the minibatch (`IndexedRows`).

        `for_step` changes nothing: a step uses the gradients themselves.
        """
        columns, values, (root, variance, log_prior), whitened = tape
        dtype = whitened.dtype
        width = whitened.shape[1]
        d_latent = np.ascontiguousarray(d_moments.mean, dtype), np.ascontiguousarray(d_moments.variance[:, 0], dtype)
        # The gradient of the bound by the divergence of each feature: −1, divided by the probability of the feature.
        d_kl = (-1 / self._shares(len(d_moments.mean))[columns]).astype(dtype)
        features = columns, whitened, root, d_kl
        sums = np.empty((len(root), width), dtype), np.empty_like(root), np.empty_like(root)

        def fill(start: int, stop: int) -> None:
            _fill_gradients(start, stop, values, d_latent, features, sums)

        parallel_for(fill, len(root), sparse.row_grain(len(root), len(values[2]), width))
        d_whitened, from_mean, from_variance = sums
        from_variance *= variance
        # Before the divergence is added, which does not depend on a.
        d_log_prior = 0.5 * from_mean + from_variance
        d_log_prior *= is_inside(root, 0.5)
        d_log_prior += d_kl * log_prior
        whitened_variance = variance / (root * root)
        d_log_variance = from_variance + 0.5 * width * d_kl * (whitened_variance - 1)
        d_log_variance *= is_inside(whitened_variance)
        gradients = zip(WHITENED, (d_whitened, d_log_variance, d_log_prior), strict=True)
        return {name: IndexedRows(columns, gradient.astype(dtype, copy=False)) for name, gradient in gradients}


def unwhitened(parameters: Parameters) -> dict[str, NDArray[np.floating]]:
    """Return the means √a m and log variances log(a v) of q(t), and log a, by their names in a trained model."""
    scales = _scales(parameters, slice(None))
    mean = parameters[WHITENED[0]] * scales.root[:, None]
    return dict(zip(PARAMETERS, (mean, np.log(scales.variance), parameters[PRIOR].copy()), strict=True))


def _features_of(points: Points) -> sp.csr_array:
    """Return the weighted features of points, B×D, which are their coordinates in weight space."""
    if isinstance(points.coordinates, np.ndarray):
        raise TypeError("coordinates in a subspace are not features")
    return points.coordinates.sparse


def _scales(parameters: Parameters, columns: NDArray[np.integer] | slice) -> _Scales:
    """Return the scales of some features."""
    log_variance, log_prior = (parameters[name][columns] for name in WHITENED[1:])
    root = bounded_exp(log_prior, 0.5)
    return _Scales(root, bounded_exp(log_variance) * root * root, log_prior)


@compiled
def _fill_moments(
    start: int,
    stop: int,
    points: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]],
    of_features: NDArray[np.floating],
    whitened: NDArray[np.floating],
    scaled: NDArray[np.floating],
    mean: NDArray[np.floating],
    variance: NDArray[np.floating],
) -> None:
    """Fill in the moments at points, given √a and a v of features, 2×D; `scaled` is filled with √a x."""
    indptr, features, values = points
    for i in range(start, stop):
        total = values.dtype.type(0)
        for e in range(indptr[i], indptr[i + 1]):
            scaled[e] = values[e] * of_features[0, features[e]]
            total += values[e] * values[e] * of_features[1, features[e]]
        variance[i, 0] = total
        sparse.row(features, scaled, indptr[i], indptr[i + 1], whitened, mean[i])


@compiled
def _fill_gradients(
    start: int,
    stop: int,
    by_feature: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]],
    d_moments: tuple[NDArray[np.floating], NDArray[np.floating]],
    features: tuple[NDArray[np.integer], NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]],
    gradients: tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]],
) -> None:
    """Fill in the gradients by m, U×P, m_d · ∂/∂m_d without the divergence, U, and Σ_i x_id² ∂/∂s_i, U.

    `by_feature` are the arrays of a csr_array, U×B; `features` are columns, U, the means m of all features, D×P, √a and
    the gradient by the divergence, both U. One pass over the weights of each feature does all.
    """
    indptr, points, values = by_feature
    d_mean, d_variance = d_moments
    columns, whitened, roots, divergences = features
    d_whitened, from_mean, from_variance = gradients
    real = whitened.dtype.type
    for u in range(start, stop):
        gradient = d_whitened[u]
        sparse.row(points, values, indptr[u], indptr[u + 1], d_mean, gradient)
        m = whitened[columns[u]]
        root = roots[u]
        d_kl = divergences[u]
        by_mean = real(0)
        for p in range(m.size):
            likelihood = root * gradient[p]
            by_mean += likelihood * m[p]
            gradient[p] = likelihood + d_kl * m[p]
        from_mean[u] = by_mean
        by_variance = real(0)
        for e in range(indptr[u], indptr[u + 1]):
            by_variance += values[e] * values[e] * d_variance[points[e]]
        from_variance[u] = by_variance


class WeightSpacePrediction:
    """The latent functions of a trained model; the coordinates of points are weighted features."""

    def __init__(self, parameters: Parameters) -> None:
        self._mean = parameters[MEAN]
        self._variance = bounded_exp(parameters[LOG_VARIANCE])

    def moments(self, points: Points) -> Moments:
        """Return the moments of the latent functions at points."""
        X = _features_of(points)
        variance = np.asarray(X.multiply(X) @ self._variance)
        return Moments(self.mean(points), variance[:, None])

    def mean(self, points: Points) -> NDArray[np.floating]:
        """Return the means of the latent functions alone, B×P."""
        return sparse.product(_features_of(points), self._mean)

    def weights(self) -> NDArray[np.floating]:
        """Return T, D×P. The means of latent functions are X T."""
        return self._mean
