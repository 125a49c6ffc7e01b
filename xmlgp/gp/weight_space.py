"""Latent functions with a linear kernel in weight space: h_p(x) = t_pᵀ x, with one weight for each feature.

A GP with the linear kernel k(x, x′) = Σ_d a_d x_d x′_d has the unit vectors as inducing inputs without any loss: its
values there are the weights t_dp ~ N(0, a_d). K_Z is diagonal then, so a step costs as much as the features and labels
of its minibatch, and neither D nor K.

Training is in whitened weights, t_dp = √a_d u_dp with u_dp ~ N(0, 1) and q(u_dp) = N(m_dp, v_d), one variance for all
latent functions as in `xmlgp.gp.posteriors.SharedDiagonal`. The relevances a_d then have gradients by the likelihood,
as those of a kernel with automatic relevance determination have, and not by the divergence, which lacks them: features
that matter gain weight together in all latent functions.

Points may have dense features e as well, such as embeddings: h_p(x, e) = t_pᵀ x + r_pᵀ e. Their weights r have a prior
and a posterior of their own, of the same form, and their products are dense ones.

Source: J. Hensman, A. Matthews, Z. Ghahramani, Scalable variational Gaussian process classification, AISTATS 2015, for
the whitening.
"""

import functools
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.data.blocks import dense_of, sparse_of
from xmlgp.gp.bound import log_absent
from xmlgp.gp.likelihood import IndexedRows, Moments
from xmlgp.gp.log_parameters import bounded_exp, is_inside
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.dense import product_by_rows

__all__ = ["BLOCKS", "DENSE", "POSTERIOR", "PRIOR", "SPARSE", "LatentMap", "WeightSpace", "are_valid", "blocks_of"]
__all__ += ["feature_shares", "names_of", "whitened_names"]

#: What the names of the parameters of sparse and of dense features begin with.
SPARSE, DENSE = BLOCKS = ("latent_weights", "dense_weights")


def names_of(block):
    """Return the names of the parameters of a trained model: means of q(t), D×P, log variances, D, and log a, D."""
    return f"{block}.mean", f"{block}.log_variance", f"{block}.log_prior"


def whitened_names(block):
    """Return the names of the parameters that steps change: m, log v and log a."""
    return f"{block}.whitened_mean", f"{block}.whitened_log_variance", f"{block}.log_prior"


def blocks_of(parameters):
    """Return those of `BLOCKS` that parameters have."""
    return [block for block in BLOCKS if f"{block}.log_prior" in parameters]


#: Parameters of a trained model for sparse features: the means and the logarithms of variances of q(t); log a.
*POSTERIOR, PRIOR = names_of(SPARSE)


def feature_shares(features):
    """Return a function of B: the probability that a minibatch of B of the N points has a point with each feature, D.

    X is N×D; features that no point has count as 1.
    """
    N = features.shape[0]
    counts = sparse.column_sums(features.indices, features.shape[1])

    # Training has few sizes of minibatches.
    @functools.cache
    def shares(batch_size):
        return np.where(counts > 0, -np.expm1(log_absent(N, counts, batch_size)), 1)

    return shares


class _Part(NamedTuple):
    """A block of the features of a minibatch: X or dense values with their squares, and the parameters of its rows."""

    block: str
    rows: object
    values: object
    squares: object
    whitened: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    root: np.ndarray


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

    def __init__(self, shares, prior_mean=None, dense_prior_mean=None):
        self._shares = shares
        self._prior_means = {SPARSE: prior_mean, DENSE: dense_prior_mean}
        learns_on = prior_mean is not None or dense_prior_mean is not None
        self.fixed = frozenset(names_of(block)[-1] for block in BLOCKS if learns_on)

    def forward(self, parameters, points, kl_needed=True):
        """Return the moments at the points of a minibatch, the KL divergence of all weights or None, and the tape.

        At a point the latent functions have means xᵀ(r + √a m) and the variance Σ_d x_d² a_d v_d. The divergence is
        ½ Σ_d [Σ_p m_dp² + P (v_d − 1 − log v_d)], which takes a pass over all weights. The coordinates of points are X,
        weighted, a csr_array, B×D, or `Blocks`.
        """
        features = sparse_of(points.coordinates)
        dense = dense_of(points.coordinates)
        rows, columns = np.unique(features.indices, return_inverse=True)
        dtype = parameters[self.parameter_names[0]].dtype
        local = sp.csr_array(
            (features.data.astype(dtype, copy=False), columns.astype(np.int32), features.indptr),
            shape=(features.shape[0], len(rows)),
        )
        squares = sp.csr_array((local.data**2, local.indices, local.indptr), shape=local.shape)
        part = self._part(parameters, SPARSE, rows, local, squares)
        mean = sparse.product(local, part.mean)
        variance = squares @ part.variance
        tape = [part]
        if dense is not None:
            values = dense.values(dtype)
            part = self._part(parameters, DENSE, slice(None), values, values * values)
            mean += values @ part.mean
            variance += part.squares @ part.variance
            tape.append(part)
        return Moments(mean, variance[:, None]), self._kl(parameters) if kl_needed else None, tape

    def posterior(self, parameters):
        """Return q(t), r + √a m and log(a v), and log a, by the names in a model (`names_of`)."""
        found = {}
        for block in blocks_of(parameters):
            mean, variance, _ = self._posterior(parameters, block, slice(None))
            *_, prior = names = names_of(block)
            found |= dict(zip(names, (mean, np.log(variance), parameters[prior].copy()), strict=True))
        return found

    def _part(self, parameters, block, rows, values, squares):
        whitened = parameters[whitened_names(block)[0]][rows]
        return _Part(block, rows, values, squares, whitened, *self._posterior(parameters, block, rows))

    def _posterior(self, parameters, block, rows):
        """Return mean and variance of q(t) for some features, U×P and U, and √a."""
        whitened, log_variance, log_prior = (parameters[name][rows] for name in whitened_names(block))
        root = bounded_exp(log_prior, 0.5)
        mean = whitened * root[:, None]
        if self._prior_means[block] is not None:
            mean += self._prior_means[block][rows]
        return mean, bounded_exp(log_variance) * root * root, root

    def _kl(self, parameters):
        total = 0.0
        for block in blocks_of(parameters):
            mean, log_variance, _ = (parameters[name] for name in whitened_names(block))
            variance = bounded_exp(log_variance).astype(np.float64)
            squares = float(np.einsum("dp,dp->d", mean, mean).sum(dtype=np.float64))
            total += 0.5 * (squares + mean.shape[1] * float((variance - 1 - np.log(variance)).sum()))
        return total

    def backward(self, tape, d_moments, for_step=False):
        """Return the gradients of the bound by parameter name, for the features of the minibatch (`IndexedRows`).

        They are gradients for a step as well.
        """
        gradients = {}
        for part in tape:
            values = self._gradients(part, d_moments)
            if part.block == SPARSE:
                values = (IndexedRows(part.rows, value) for value in values)
            gradients |= dict(zip(whitened_names(part.block), values, strict=True))
        return gradients

    def _gradients(self, part, d_moments):
        dtype = part.whitened.dtype
        P = part.whitened.shape[1]
        right = np.ascontiguousarray(d_moments.mean, dtype)
        if part.block == SPARSE:
            d_mean = sparse.product(part.values.T.tocsr(), right)
            share = (-1 / self._shares(part.values.shape[0])[part.rows]).astype(dtype)
        else:
            d_mean = part.values.T @ right
            share = np.full(len(part.root), -1, dtype)
        d_mean *= part.root[:, None]
        from_variance = part.variance * (part.squares.T @ d_moments.variance[:, 0])
        free = is_inside(part.root, 0.5)
        d_log_prior = (0.5 * np.einsum("up,up->u", d_mean, part.whitened) + from_variance) * free
        d_mean += share[:, None] * part.whitened
        own = part.variance / (part.root * part.root)
        d_log_variance = (from_variance + 0.5 * P * share * (own - 1)) * is_inside(own)
        return [value.astype(dtype, copy=False) for value in (d_mean, d_log_variance, d_log_prior)]


class LatentMap(NamedTuple):
    """The means of q(t), D×P, and of those of dense features, E×P, or None."""

    sparse: np.ndarray
    dense: np.ndarray | None = None

    @classmethod
    def of(cls, parameters):
        """Return those of a trained model, given its parameters by name."""
        return cls(*(parameters.get(names_of(block)[0]) for block in BLOCKS))

    def means(self, features):
        """Return the means of the latent functions at weighted points, B×P."""
        found = sparse.product(sparse_of(features), self.sparse)
        if self.dense is not None:
            found += product_by_rows(dense_of(features).values(found.dtype), self.dense)
        return found


class WeightSpacePrediction:
    """The latent functions of a trained model; the coordinates of points are weighted features."""

    def __init__(self, parameters):
        self._map = LatentMap.of(parameters)
        self._variances = [bounded_exp(parameters[names_of(block)[1]]) for block in blocks_of(parameters)]

    def moments(self, points):
        """Return the `Moments` of the latent functions at `Points`."""
        features = sparse_of(points.coordinates)
        variance = np.asarray(features.multiply(features) @ self._variances[0])
        if self._map.dense is not None:
            # A product by BLAS would depend on the number of points.
            squares = dense_of(points.coordinates).values(variance.dtype) ** 2
            variance += np.einsum("be,e->b", squares, self._variances[1])
        return Moments(self.mean(points), variance[:, None])

    def mean(self, points):
        """Return the means alone, B×P."""
        return self._map.means(points.coordinates)

    def weights(self):
        """Return T, D×P, so that means are X T, and that of dense features is added."""
        return self._map.sparse


def are_valid(parameters, D):
    """Return whether the arrays of an untrusted file (`names_of`) fit each other and D features.

    Compiled loops do not check shapes.
    """
    found = [[parameters[name] for name in names_of(block)] for block in blocks_of(parameters)]
    width = found[0][0].shape[1:]
    return bool(
        all(array.dtype == found[0][0].dtype for arrays in found for array in arrays)
        and found[0][0].dtype in (np.float32, np.float64)
        and len(found[0][0]) == D
        and all(
            mean.ndim == 2 and mean.shape[1:] == width and mean.shape[:1] == log_variance.shape == log_prior.shape
            for mean, log_variance, log_prior in found
        )
    )
