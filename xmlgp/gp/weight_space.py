"""Latent functions with a linear kernel in weight space: h_p(x) = t_pᵀ x, with one weight for each feature.

A GP with the linear kernel k(x, x′) = Σ_d a_d x_d x′_d has the unit vectors as inducing inputs without any loss: its
values there are the weights t_dp ~ N(0, a_d). K_Z is diagonal then, so a step costs as much as the features and labels
of its minibatch, and neither D nor K.

Training is in whitened weights, t_dp = √a_d u_dp with u_dp ~ N(0, 1) and q(u_dp) = N(m_dp, v_d), one variance for all
latent functions as in `xmlgp.gp.posteriors.SharedDiagonal`. The relevances a_d then have gradients by the likelihood,
as those of a kernel with automatic relevance determination have, and not by the divergence, which lacks them: features
that matter gain weight together in all latent functions.

Source: J. Hensman, A. Matthews, Z. Ghahramani, Scalable variational Gaussian process classification, AISTATS 2015, for
the whitening.
"""

import functools

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.bound import log_absent
from xmlgp.gp.likelihood import IndexedRows, Moments
from xmlgp.gp.log_parameters import bounded_exp, is_inside
from xmlgp.linear_algebra import sparse

__all__ = ["POSTERIOR", "PRIOR", "WeightSpace", "are_valid", "feature_shares"]

#: Parameters of a trained model: the means of q(t), D×P, and the logarithms of its variances, D; log a, D.
POSTERIOR, PRIOR = ("latent_weights.mean", "latent_weights.log_variance"), "latent_weights.log_prior"


def feature_shares(features):
    """Return a function of B: the probability that a minibatch of B of the N points has a point with each feature, D.

    X is N×D; features that no point has count as 1.
    """
    N, counts = features.shape[0], sparse.column_sums(features.indices, features.shape[1])

    # Training has few sizes of minibatches.
    @functools.cache
    def shares(batch_size):
        return np.where(counts > 0, -np.expm1(log_absent(N, counts, batch_size)), 1)

    return shares


class WeightSpace:
    """Latent functions h = Tᵀx with t_dp = r_dp + √a_d u_dp, q(u_dp) = N(m_dp, v_d) and p(u_dp) = N(0, 1).

    Parameters in the flat mapping: `latent_weights.whitened_mean`, m, D×P; `latent_weights.whitened_log_variance`,
    log v, D; `latent_weights.log_prior`, log a, D. `posterior` returns q(t) of trained parameters.

    The gradients of the divergence are those of the features of a minibatch, divided by the probability that a
    minibatch has the feature (`feature_shares`), so that they are unbiased. The prior means r, D×P, are zero by
    default; where a model learns on, r and a are those of an earlier posterior.
    """

    parameter_names = ("latent_weights.whitened_mean", "latent_weights.whitened_log_variance", PRIOR)

    def __init__(self, shares, prior_mean=None):
        self._shares, self._prior_mean = shares, prior_mean
        self.fixed = frozenset(() if prior_mean is None else (PRIOR,))

    def forward(self, parameters, points, kl_needed=True):
        """Return the moments at the points of a minibatch, the KL divergence of all weights or None, and the tape.

        At a point the latent functions have means xᵀ(r + √a m) and the variance Σ_d x_d² a_d v_d. The divergence is
        ½ Σ_d [Σ_p m_dp² + P (v_d − 1 − log v_d)], which takes a pass over all weights. The coordinates of points are X,
        weighted, a csr_array, B×D.
        """
        features = points.coordinates
        whitened = parameters[self.parameter_names[0]]
        rows, columns = np.unique(features.indices, return_inverse=True)
        local = sp.csr_array(
            (features.data.astype(whitened.dtype, copy=False), columns.astype(np.int32), features.indptr),
            shape=(features.shape[0], len(rows)),
        )
        squares = sp.csr_array((local.data**2, local.indices, local.indptr), shape=local.shape)
        mean, variance, root = self._posterior(parameters, rows)
        moments = Moments(sparse.product(local, mean), (squares @ variance)[:, None])
        kl = self._kl(parameters) if kl_needed else None
        return moments, kl, (rows, local, squares, whitened[rows], variance, root)

    def posterior(self, parameters):
        """Return q(t), r + √a m and log(a v), and log a, by the names in a model: `POSTERIOR` and `PRIOR`."""
        mean, variance, _ = self._posterior(parameters, slice(None))
        return dict(zip(POSTERIOR, (mean, np.log(variance)), strict=True)) | {PRIOR: parameters[PRIOR].copy()}

    def _posterior(self, parameters, rows):
        """Return mean and variance of q(t) for some features, U×P and U, and √a."""
        whitened, log_variance, log_prior = (parameters[name][rows] for name in self.parameter_names)
        root = bounded_exp(log_prior, 0.5)
        mean = whitened * root[:, None]
        if self._prior_mean is not None:
            mean += self._prior_mean[rows]
        return mean, bounded_exp(log_variance) * root * root, root

    def _kl(self, parameters):
        mean, log_variance, _ = (parameters[name] for name in self.parameter_names)
        variance = bounded_exp(log_variance).astype(np.float64)
        squares = float(np.einsum("dp,dp->d", mean, mean).sum(dtype=np.float64))
        return 0.5 * (squares + mean.shape[1] * float((variance - 1 - np.log(variance)).sum()))

    def backward(self, tape, d_moments, for_step=False):
        """Return the gradients of the bound by parameter name (`IndexedRows`), for the features of the minibatch.

        They are gradients for a step as well.
        """
        rows, local, squares, whitened, variance, root = tape
        dtype, P = whitened.dtype, whitened.shape[1]
        share = (-1 / self._shares(local.shape[0])[rows]).astype(dtype)
        d_mean = sparse.product(local.T.tocsr(), np.ascontiguousarray(d_moments.mean, dtype))
        d_mean *= root[:, None]
        from_variance = variance * (squares.T @ d_moments.variance[:, 0])
        free = is_inside(root, 0.5)
        d_log_prior = (0.5 * np.einsum("up,up->u", d_mean, whitened) + from_variance) * free
        d_mean += share[:, None] * whitened
        own = variance / (root * root)
        d_log_variance = (from_variance + 0.5 * P * share * (own - 1)) * is_inside(own)
        return {
            name: IndexedRows(rows, value.astype(dtype, copy=False))
            for name, value in zip(self.parameter_names, (d_mean, d_log_variance, d_log_prior), strict=True)
        }


class WeightSpacePrediction:
    """The latent functions of a trained model; the coordinates of points are weighted features."""

    def __init__(self, parameters):
        self._mean = parameters[POSTERIOR[0]]
        self._variance = bounded_exp(parameters[POSTERIOR[1]])

    def moments(self, points):
        """Return the `Moments` of the latent functions at `Points`."""
        features = points.coordinates
        squares = features.multiply(features)
        return Moments(self.mean(points), np.asarray(squares @ self._variance)[:, None])

    def mean(self, points):
        """Return the means alone, B×P."""
        return sparse.product(points.coordinates, self._mean)

    def weights(self):
        """Return T, D×P, so that means are X T."""
        return self._mean


def are_valid(parameters, D):
    """Return whether the arrays `POSTERIOR` and `PRIOR` of an untrusted file fit each other and D features.

    Compiled loops do not check shapes.
    """
    mean, log_variance, log_prior = (parameters[name] for name in (*POSTERIOR, PRIOR))
    return bool(
        mean.dtype in (np.float32, np.float64)
        and mean.dtype == log_variance.dtype == log_prior.dtype
        and mean.ndim == 2
        and mean.shape[:1] == log_variance.shape == log_prior.shape == (D,)
    )
