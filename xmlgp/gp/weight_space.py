"""Latent functions with a linear kernel in weight space: h_p(x) = t_pᵀ x, with one weight for each feature.

A GP with the linear kernel k(x, x′) = Σ_d a_d x_d x′_d has the unit vectors as inducing inputs without any loss: its
values there are the weights t_dp ~ N(0, a_d). K_Z is diagonal then, so a step costs as much as the features and labels
of its minibatch, and neither D nor K.

Training is in whitened weights, t_dp = √a_d u_dp with u_dp ~ N(0, 1) and q(u_dp) = N(m_dp, v_d), one variance for all
latent functions as in `xmlgp.gp.posteriors.SharedDiagonal`. The relevances a_d then have gradients by the likelihood,
as those of a kernel with automatic relevance determination have, and none by the divergence: features that matter gain
weight together in all latent functions.

Points may have dense features e as well, such as embeddings: h_p(x, e) = t_pᵀ x + r_pᵀ e. Their weights r have a prior
and a posterior of the same form.

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
from xmlgp.linear_algebra.array_groups import REAL, Array, ArrayGroup
from xmlgp.linear_algebra.dense import product_by_rows

__all__ = [
    "DENSE_WEIGHTS",
    "SPARSE_WEIGHTS",
    "BLOCKS",
    "DENSE",
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

#: The prefix of those of dense features.
DENSE = "dense_weights"

#: The blocks of features, by the prefix of their parameters.
BLOCKS = (SPARSE, DENSE)


def _weights(block: str, width: str) -> ArrayGroup:
    """Return the arrays of q(t) of a block of features."""
    return ArrayGroup(
        f"{block}.", mean=Array(f"{width} P", REAL), log_variance=Array(width, REAL), log_prior=Array(width, REAL)
    )


#: The arrays of a trained model for each block.
SPARSE_WEIGHTS = _weights(SPARSE, "D")
DENSE_WEIGHTS = _weights(DENSE, "E")


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
    """Return a function of B: the probability that a minibatch of B of the N points has a point with each feature, D.

    It is 1 for features that no point of X, N×D, has.
    """
    N = features.shape[0]
    counts = sparse.column_sums(features.indices, features.shape[1])

    # Training has few sizes of minibatches.
    @functools.cache
    def shares(batch_size: int) -> NDArray[np.float64]:
        return np.where(counts > 0, -np.expm1(log_absent(N, counts, batch_size)), 1)

    return shares


class _Weights(NamedTuple):
    """Of some features, U: m, U×P, mean and variance of q(t), U×P and U, and √a, U."""

    whitened: NDArray[np.floating]
    mean: NDArray[np.floating]
    variance: NDArray[np.floating]
    root: NDArray[np.floating]


class BlockTape(NamedTuple):
    """A block of features of a minibatch: their columns, the values at its points, B×U, with squares, and weights."""

    block: str
    columns: NDArray[np.integer] | slice
    values: sp.csr_array | NDArray[np.floating]
    squares: sp.csr_array | NDArray[np.floating]
    weights: _Weights


class WeightSpace:
    """Latent functions h = Tᵀx with t_dp = r_dp + √a_d u_dp, q(u_dp) = N(m_dp, v_d) and p(u_dp) = N(0, 1).

    Parameters in the flat mapping: `latent_weights.whitened_mean`, m, D×P; `latent_weights.whitened_log_variance`,
    log v, D; `latent_weights.log_prior`, log a, D. `posterior` returns q(t) of trained parameters. If points have dense
    features, E of them, `dense_weights` has the same for these.

    The gradients of the divergence are those of the features of a minibatch, divided by the probability that a
    minibatch has the feature (`feature_shares`), so that they are unbiased; each point has all dense features. The
    prior means r, D×P, are zero by default; where a model learns on, r and a are those of an earlier posterior.
    """

    parameter_names = whitened_names(SPARSE)

    def __init__(
        self,
        shares: Callable[[int], NDArray[np.float64]],
        prior_mean: NDArray[np.floating] | None = None,
        dense_prior_mean: NDArray[np.floating] | None = None,
    ) -> None:
        self._shares = shares
        self._prior_means = {SPARSE: prior_mean, DENSE: dense_prior_mean}
        learns_on = prior_mean is not None or dense_prior_mean is not None
        self.fixed = frozenset(names_of(block)[-1] for block in BLOCKS if learns_on)

    def forward(
        self, parameters: Parameters, points: Points, kl_needed: bool = True
    ) -> tuple[Moments, float | None, list[BlockTape]]:
        """Return the moments at the points of a minibatch, the KL divergence of all weights or None, and the tape.

        At a point the latent functions have means xᵀ(r + √a m) and the variance Σ_d x_d² a_d v_d. The divergence is
        ½ Σ_d [Σ_p m_dp² + P (v_d − 1 − log v_d)], which takes a pass over all weights. The coordinates of points are
        weighted features X, B×D, and dense ones if there are any.
        """
        dtype = parameters[self.parameter_names[0]].dtype
        features = points.features.sparse
        present, columns = np.unique(features.indices, return_inverse=True)
        local = sp.csr_array(
            (features.data.astype(dtype, copy=False), columns.astype(np.int32), features.indptr),
            shape=(features.shape[0], len(present)),
        )
        weights = self._weights(parameters, SPARSE, present)
        squares = sp.csr_array((local.data**2, local.indices, local.indptr), shape=local.shape)
        mean = sparse.product(local, weights.mean)
        variance = squares @ weights.variance
        tape = [BlockTape(SPARSE, present, local, squares, weights)]
        dense = points.features.dense
        if dense is not None:
            values = dense.values(dtype)
            weights = self._weights(parameters, DENSE, slice(None))
            tape.append(BlockTape(DENSE, slice(None), values, values * values, weights))
            mean += values @ weights.mean
            variance += tape[1].squares @ weights.variance
        return Moments(mean, variance[:, None]), self._kl(parameters) if kl_needed else None, tape

    def posterior(self, parameters: Parameters) -> dict[str, NDArray[np.floating]]:
        """Return q(t), r + √a m and log(a v), and log a, by the names in a model (`names_of`)."""
        posterior: dict[str, NDArray[np.floating]] = {}
        for block in blocks_of(parameters):
            weights = self._weights(parameters, block, slice(None))
            mean, log_variance, log_prior = names_of(block)
            posterior |= {
                mean: weights.mean,
                log_variance: np.log(weights.variance),
                log_prior: parameters[log_prior].copy(),
            }
        return posterior

    def _weights(self, parameters: Parameters, block: str, columns: NDArray[np.integer] | slice) -> _Weights:
        """Return the weights of some features of a block."""
        whitened, log_variance, log_prior = (parameters[name][columns] for name in whitened_names(block))
        root = bounded_exp(log_prior, 0.5)
        mean = whitened * root[:, None]
        prior_mean = self._prior_means[block]
        if prior_mean is not None:
            mean += prior_mean[columns]
        return _Weights(whitened, mean, bounded_exp(log_variance) * root * root, root)

    def _kl(self, parameters: Parameters) -> float:
        total = 0.0
        for block in blocks_of(parameters):
            mean, log_variance, _ = (parameters[name] for name in whitened_names(block))
            variance = bounded_exp(log_variance).astype(np.float64)
            squares = float(np.einsum("dp,dp->d", mean, mean).sum(dtype=np.float64))
            total += 0.5 * (squares + mean.shape[1] * float((variance - 1 - np.log(variance)).sum()))
        return total

    def backward(self, tape: list[BlockTape], d_moments: Moments, for_step: bool = False) -> Gradients:
        """Return the gradients of the bound by parameter name, for the features of the minibatch (`IndexedRows`).

        A step uses the gradients as they are.
        """
        gradients: dict[str, NDArray[np.floating] | IndexedRows] = {}
        for block in tape:
            for name, gradient in zip(whitened_names(block.block), self._gradients(block, d_moments), strict=True):
                columns = block.columns
                gradients[name] = gradient if isinstance(columns, slice) else IndexedRows(columns, gradient)
        return gradients

    def _gradients(self, block: BlockTape, d_moments: Moments) -> list[NDArray[np.floating]]:
        """Return the gradients by m, log v and log a of the features of a minibatch."""
        whitened, _, variance, root = block.weights
        dtype = whitened.dtype
        right = np.ascontiguousarray(d_moments.mean, dtype)
        if isinstance(block.values, np.ndarray):
            d_mean = block.values.T @ right
            d_kl_scale = np.full(len(root), -1, dtype)
        else:
            d_mean = sparse.product(block.values.T.tocsr(), right)
            d_kl_scale = (-1 / self._shares(len(d_moments.mean))[block.columns]).astype(dtype)
        d_mean *= root[:, None]
        from_variance = variance * (block.squares.T @ d_moments.variance[:, 0])
        d_log_prior = 0.5 * np.einsum("up,up->u", d_mean, whitened) + from_variance
        d_log_prior *= is_inside(root, 0.5)
        d_mean += d_kl_scale[:, None] * whitened
        whitened_variance = variance / (root * root)
        d_log_variance = from_variance + 0.5 * whitened.shape[1] * d_kl_scale * (whitened_variance - 1)
        d_log_variance *= is_inside(whitened_variance)
        return [gradient.astype(dtype, copy=False) for gradient in (d_mean, d_log_variance, d_log_prior)]


class LatentMap(NamedTuple):
    """The means of q(t), D×P, and of those of dense features, E×P, or None."""

    sparse: NDArray[np.floating]
    dense: NDArray[np.floating] | None = None

    @classmethod
    def of(cls, parameters: Parameters) -> LatentMap:
        """Return the means of a trained model, given its parameters by name."""
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
            # A product by BLAS would depend on the number of points.
            squares = dense.values(variance.dtype) ** 2
            variance += np.einsum("be,e->b", squares, self._variances[1])
        return Moments(self.mean(points), variance[:, None])

    def mean(self, points: Points) -> NDArray[np.floating]:
        """Return the means alone, B×P."""
        return self._map.means(points.features)

    def weights(self) -> NDArray[np.floating]:
        """Return T, D×P; means are X T, plus the contribution of dense features."""
        return self._map.sparse
