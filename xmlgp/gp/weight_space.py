"""Latent functions with a linear kernel in weight space: h_p(x) = t_pᵀ x, with one weight for each feature.

A GP with the linear kernel k(x, x′) = Σ_d a_d x_d x′_d has the unit vectors as inducing inputs without any loss: its
values there are the weights t_dp ~ N(0, a_d). K_Z is diagonal then, so a step costs as much as the features and labels
of its minibatch, and neither D nor K.

Training is in whitened weights, t_dp = √a_d u_dp with u_dp ~ N(0, 1) and q(u_dp) = N(m_dp, v_d), one variance for all
latent functions as in `xmlgp.gp.posteriors.SharedDiagonal`. The relevances a_d then have gradients by the likelihood,
as those of a kernel with automatic relevance determination have, and none by the divergence: features that matter gain
weight together in all latent functions.

Points may have dense features e as well, such as embeddings: h_p(x, e) = t_pᵀ x + r_pᵀ e. Their weights r have a prior
and a posterior of the same form. Latent functions without such weights take no notice of dense features.

Source: J. Hensman, A. Matthews, Z. Ghahramani, Scalable variational Gaussian process classification, AISTATS 2015, for
the whitening.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.data.features import Features
from xmlgp.gp.bound import log_absent
from xmlgp.gp.inner_products import Points
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.log_parameters import bounded_exp, is_inside
from xmlgp.gp.parameters import Gradients, IndexedRows, Parameters
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.array_groups import REAL, Array, ArrayGroup, between
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.runtime.threads import parallel_for

__all__ = [
    "DENSE_WEIGHTS",
    "SPARSE_WEIGHTS",
    "BLOCKS",
    "DENSE",
    "JOINT",
    "POSTERIOR",
    "PRIOR",
    "SPARSE",
    "LatentMap",
    "WeightSpace",
    "WeightSpacePrediction",
    "blocks_of",
    "feature_shares",
    "names_of",
    "whitened_names",
]

#: The prefix of the names of the parameters of sparse features.
SPARSE = "latent_weights"

#: The prefix of the names of the parameters of dense features.
DENSE = "dense_weights"

#: The blocks of features, each called by the prefix of its parameters.
BLOCKS = (SPARSE, DENSE)


def _weights(block: str, width: str) -> ArrayGroup:
    """Return the arrays of q(t) of a block of features."""
    return ArrayGroup(
        f"{block}.", mean=Array(f"{width} P", REAL), log_variance=Array(width, REAL), log_prior=Array(width, REAL)
    )


#: The arrays of a trained model for each block.
SPARSE_WEIGHTS = _weights(SPARSE, "D")
DENSE_WEIGHTS = _weights(DENSE, "E")

#: The weight in the pool of the latent functions that see words and dense features. Loadings have it already.
JOINT = ArrayGroup("joint.", weight=Array("", check=between(0, 1)))


def names_of(block: str) -> tuple[str, str, str]:
    """Return the names of the parameters of a trained model: means of q(t), D×P, log variances, D, and log a, D."""
    return f"{block}.mean", f"{block}.log_variance", f"{block}.log_prior"


def whitened_names(block: str) -> tuple[str, str, str]:
    """Return the names of the parameters that steps change: m, log v and log a."""
    return f"{block}.whitened_mean", f"{block}.whitened_log_variance", f"{block}.log_prior"


def blocks_of(parameters: Iterable[str]) -> list[str]:
    """Return those of `BLOCKS` whose parameters are among the names of parameters."""
    return [block for block in BLOCKS if f"{block}.log_prior" in parameters]


#: The name of log a of sparse features in a trained model.
PRIOR = names_of(SPARSE)[2]

#: The names of the means and log variances of q(t) of sparse features in a trained model.
POSTERIOR = names_of(SPARSE)[:2]


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
    """The roots √a of the prior variances of U features, and the variances a v of their weights t, both U."""

    root: NDArray[np.floating]
    variance: NDArray[np.floating]


class BlockTape(NamedTuple):
    """The U features of a block in a minibatch: their columns, values at its points, B×U, and scales.

    `whitened` are the means m of all features of the block, D×P.
    """

    block: str
    columns: NDArray[np.integer] | slice
    values: sp.csr_array | NDArray[np.floating]
    scales: _Scales
    whitened: NDArray[np.floating]


class WeightSpace:
    """Latent functions h = Tᵀx with t_dp = √a_d u_dp, q(u_dp) = N(m_dp, v_d) and p(u_dp) = N(0, 1).

    Parameters in the flat mapping: `latent_weights.whitened_mean`, m, D×P; `latent_weights.whitened_log_variance`,
    log v, D; `latent_weights.log_prior`, log a, D. `posterior` returns q(t) of trained parameters. If points have dense
    features, E of them, `dense_weights` has the same for these.

    The divergence has gradients only for the features of a minibatch. They are divided by the probability that a
    minibatch has the feature, so that they are unbiased: it is given by `shares` (see `feature_shares`), and is 1 for
    dense features.
    """

    parameter_names = whitened_names(SPARSE)
    fixed: frozenset[str] = frozenset()
    relative: frozenset[str] = frozenset()

    def __init__(self, shares: Callable[[int], NDArray[np.float64]]) -> None:
        self._shares = shares

    def forward(
        self, parameters: Parameters, points: Points, kl_needed: bool = True
    ) -> tuple[Moments, float | None, list[BlockTape]]:
        """Return the moments at the points of a minibatch, the KL divergence of all weights or None, and the tape.

        The coordinates of points are weighted features X, B×D, and dense ones if there are any. At a point x the latent
        functions have the means xᵀ(√a m) and the variance Σ_d x_d² a_d v_d. The divergence is
        ½ Σ_d [Σ_p m_dp² + P (v_d − 1 − log v_d)]; it takes a pass over all weights.
        """
        X = points.features.sparse
        whitened = parameters[self.parameter_names[0]]
        present, of_present = sparse.present_columns(X.astype(whitened.dtype, copy=False))
        scales = self._scales(parameters, SPARSE, present)
        # √a multiplies the values of features, which are far fewer than the weights.
        scaled = sp.csr_array((of_present.data * scales.root[of_present.indices], X.indices, X.indptr), shape=X.shape)
        mean = sparse.product(scaled, whitened)
        squares = sp.csr_array((of_present.data**2, of_present.indices, of_present.indptr), shape=of_present.shape)
        variance = squares @ scales.variance
        tape = [BlockTape(SPARSE, present, of_present, scales, whitened)]
        dense = points.features.dense
        if dense is not None and DENSE in blocks_of(parameters):
            values = dense.values(whitened.dtype)
            scales = self._scales(parameters, DENSE, slice(None))
            mean += values @ self._mean(parameters, DENSE, scales.root)
            variance += (values * values) @ scales.variance
            tape.append(BlockTape(DENSE, slice(None), values, scales, parameters[whitened_names(DENSE)[0]]))
        return Moments(mean, variance[:, None]), self._kl(parameters) if kl_needed else None, tape

    def posterior(self, parameters: Parameters) -> dict[str, NDArray[np.floating]]:
        """Return the means √a m and log variances log(a v) of q(t), and log a, by `names_of`."""
        posterior: dict[str, NDArray[np.floating]] = {}
        for block in blocks_of(parameters):
            scales = self._scales(parameters, block, slice(None))
            mean, log_variance, log_prior = names_of(block)
            posterior |= {
                mean: self._mean(parameters, block, scales.root),
                log_variance: np.log(scales.variance),
                log_prior: parameters[log_prior].copy(),
            }
        return posterior

    def _scales(self, parameters: Parameters, block: str, columns: NDArray[np.integer] | slice) -> _Scales:
        """Return the scales of some features of a block."""
        log_variance, log_prior = (parameters[name][columns] for name in whitened_names(block)[1:])
        root = bounded_exp(log_prior, 0.5)
        return _Scales(root, bounded_exp(log_variance) * root * root)

    def _mean(self, parameters: Parameters, block: str, root: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the means √a m of all features of a block, given √a."""
        mean: NDArray[np.floating] = parameters[whitened_names(block)[0]] * root[:, None]
        return mean

    def _kl(self, parameters: Parameters) -> float:
        """Return the divergence of all weights."""
        total = 0.0
        for block in blocks_of(parameters):
            whitened, log_variance, _ = (parameters[name] for name in whitened_names(block))
            variance = bounded_exp(log_variance).astype(np.float64)
            squares = float(np.einsum("dp,dp->d", whitened, whitened).sum(dtype=np.float64))
            total += 0.5 * (squares + whitened.shape[1] * float((variance - 1 - np.log(variance)).sum()))
        return total

    def backward(self, tape: list[BlockTape], d_moments: Moments, for_step: bool = False) -> Gradients:
        """Return the gradients of the bound by parameter name, for the features of the minibatch (`IndexedRows`).

        `for_step` changes nothing: a step uses the gradients themselves.
        """
        gradients: dict[str, NDArray[np.floating] | IndexedRows] = {}
        for block in tape:
            for name, gradient in zip(whitened_names(block.block), self._gradients(block, d_moments), strict=True):
                columns = block.columns
                gradients[name] = gradient if isinstance(columns, slice) else IndexedRows(columns, gradient)
        return gradients

    def _gradients(self, block: BlockTape, d_moments: Moments) -> list[NDArray[np.floating]]:
        """Return the gradients by m, log v and log a of the features of a minibatch."""
        root, variance = block.scales
        whitened = block.whitened
        dtype = whitened.dtype
        width = whitened.shape[1]
        d_latent = np.ascontiguousarray(d_moments.mean, dtype), np.ascontiguousarray(d_moments.variance[:, 0], dtype)
        # The gradient of the bound by the divergence of each feature: −1, divided by the probability of the feature.
        if isinstance(block.columns, slice):
            d_kl = np.full(len(root), -1, dtype)
            d_whitened = block.values.T @ d_latent[0]
            d_whitened *= root[:, None]
            from_mean = np.einsum("up,up->u", d_whitened, whitened)
            d_whitened += d_kl[:, None] * whitened
            from_variance = (block.values * block.values).T @ d_latent[1]
        else:
            d_kl = (-1 / self._shares(len(d_moments.mean))[block.columns]).astype(dtype)
            features = _FeatureWeights(block.columns, whitened, root, d_kl)
            d_whitened, from_mean, from_variance = _sparse_gradients(block.values.T.tocsr(), d_latent, features)
        from_variance *= variance
        # Before the divergence is added, which does not depend on a.
        d_log_prior = 0.5 * from_mean + from_variance
        d_log_prior *= is_inside(root, 0.5)
        whitened_variance = variance / (root * root)
        d_log_variance = from_variance + 0.5 * width * d_kl * (whitened_variance - 1)
        d_log_variance *= is_inside(whitened_variance)
        return [gradient.astype(dtype, copy=False) for gradient in (d_whitened, d_log_variance, d_log_prior)]


class _FeatureWeights(NamedTuple):
    """U features: their columns, the means m of all features, D×P, √a and the gradient by the divergence, both U."""

    columns: NDArray[np.integer]
    whitened: NDArray[np.floating]
    root: NDArray[np.floating]
    d_kl: NDArray[np.floating]


def _sparse_gradients(
    by_feature: sp.csr_array, d_latent: tuple[NDArray[np.floating], NDArray[np.floating]], features: _FeatureWeights
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
    """Return what `_fill_gradients` fills in, given the values of features, U×B, and gradients by the moments."""
    size = len(features.root)
    width = features.whitened.shape[1]
    gradients = np.empty((size, width), features.root.dtype), np.empty_like(features.root), np.empty_like(features.root)
    arrays = by_feature.indptr, by_feature.indices, by_feature.data

    def fill(start: int, stop: int) -> None:
        _fill_gradients(start, stop, arrays, d_latent, features, gradients)

    parallel_for(fill, size, sparse.row_grain(by_feature, width))
    return gradients


@compiled
def _fill_gradients(
    start: int,
    stop: int,
    by_feature: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]],
    d_moments: tuple[NDArray[np.floating], NDArray[np.floating]],
    features: _FeatureWeights,
    gradients: tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]],
) -> None:
    """Fill in the gradients by m, U×P, m_d · ∂/∂m_d without the divergence, U, and Σ_i x_id² ∂/∂s_i, U.

    `by_feature` are the arrays of a csr_array, U×B. One pass over the weights of each feature does all.
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


class LatentMap(NamedTuple):
    """The means of the weights of sparse features, D×P, and of dense ones, E×P, or None."""

    sparse: NDArray[np.floating]
    dense: NDArray[np.floating] | None = None

    @classmethod
    def of(cls, parameters: Parameters) -> LatentMap:
        """Return the means in a trained model, given its parameters by name."""
        return cls(parameters[names_of(SPARSE)[0]], parameters.get(names_of(DENSE)[0]))

    def means(self, features: Features) -> NDArray[np.floating]:
        """Return the means of the latent functions at weighted points, B×P."""
        means = sparse.product(features.sparse, self.sparse)
        if self.dense is not None and features.dense is not None:
            means += product_by_rows(features.dense.values(means.dtype), self.dense)
        return means


class WeightSpacePrediction:
    """The latent functions of a trained model; the coordinates of points are weighted features."""

    def __init__(self, parameters: Parameters) -> None:
        self._map = LatentMap.of(parameters)
        self._variances = [bounded_exp(parameters[names_of(block)[1]]) for block in blocks_of(parameters)]

    def moments(self, points: Points) -> Moments:
        """Return the moments of the latent functions at points."""
        X = points.features.sparse
        dense = points.features.dense
        variance = np.asarray(X.multiply(X) @ self._variances[0])
        if self._map.dense is not None and dense is not None:
            # Not by BLAS, whose result for a point depends on the number of points.
            squares = dense.values(variance.dtype) ** 2
            variance += np.einsum("be,e->b", squares, self._variances[1])
        return Moments(self.mean(points), variance[:, None])

    def mean(self, points: Points) -> NDArray[np.floating]:
        """Return the means of the latent functions alone, B×P."""
        return self._map.means(points.features)

    def weights(self) -> NDArray[np.floating]:
        """Return T, D×P. The means of latent functions are X T, plus the contribution of dense features."""
        return self._map.sparse
