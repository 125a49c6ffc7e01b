"""Latent functions with a linear kernel in weight space: h_p(x) = t_pᵀ x, with one weight for each feature.

A GP with the linear kernel k(x, x′) = Σ_d a_d x_d x′_d has the unit vectors as inducing inputs without any loss: its
values there are the weights t_dp ~ N(0, a_d). K_Z is diagonal then, so a step costs as much as the features and labels
of its minibatch, and neither D nor K.

The posterior is q(t_dp) = N(m_dp, v_d), with one variance for all latent functions, as in
`xmlgp.gp.posteriors.SharedDiagonal`. At a point the latent functions have means Xm and variance Σ_d x_d² v_d.
"""

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.likelihood import IndexedRows
from xmlgp.gp.log_parameters import bounded_exp, is_inside
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.gp.sampling import log_absent
from xmlgp.linear_algebra import sparse

__all__ = ["FeatureShares", "WeightSpace", "are_valid"]


class FeatureShares:
    """The probability that a minibatch of B of the N points has a point with each feature.

    Parameters
    ----------
    features : csr_array, N×D
    """

    def __init__(self, features):
        self._point_count = features.shape[0]
        self._counts = sparse.column_sums(features.indices, features.shape[1])
        self._shares = {}

    def of(self, batch_size):
        """Return the probabilities, D; 1 for features that no point has.

        Parameters
        ----------
        batch_size : int
            B, from 1 to N. Results are kept: training has few sizes.
        """
        if batch_size not in self._shares:
            shares = -np.expm1(log_absent(self._point_count, self._counts, batch_size))
            self._shares[batch_size] = np.where(self._counts > 0, shares, 1)
        return self._shares[batch_size]


class WeightSpace:
    """Latent functions h = Tᵀx with q(t_dp) = N(m_dp, v_d) and p(t_dp) = N(0, a_d).

    Parameters in the flat mapping: `latent_weights.mean`, m, D×P; `latent_weights.log_variance`, log v, D;
    `latent_weights.log_prior`, log a, D.

    Parameters
    ----------
    shares : FeatureShares
        The gradients of the divergence are those of the features of a minibatch, divided by the probability that a
        minibatch has the feature, so that they are unbiased.
    prior_mean : ndarray, D×P, optional
        The prior is N(a mean, a_d) instead: where a model learns on, both are those of an earlier posterior.
    """

    parameter_names = ("latent_weights.mean", "latent_weights.log_variance", "latent_weights.log_prior")

    def __init__(self, shares, prior_mean=None):
        self._shares, self._prior_mean = shares, prior_mean

    def forward(self, parameters, features, kl_needed=True):
        """Return the moments at the points of a minibatch, the KL divergence of all weights or None, and the tape.

        With ratios v_d/a_d the divergence is ½ Σ_d [Σ_p m_dp²/a_d + P (v_d/a_d − 1 − log(v_d/a_d))], where m_dp is the
        distance from the mean of the prior.

        Parameters
        ----------
        parameters : mapping of str to ndarray
        features : csr_array, B×D
            X, weighted.
        kl_needed : bool
            The divergence takes a pass over all weights.
        """
        mean = parameters["latent_weights.mean"]
        rows, columns = np.unique(features.indices, return_inverse=True)
        local = sp.csr_array(
            (features.data.astype(mean.dtype, copy=False), columns.astype(np.int32), features.indptr),
            shape=(features.shape[0], len(rows)),
        )
        squares = sp.csr_array((local.data**2, local.indices, local.indptr), shape=local.shape)
        chosen = mean[rows]
        variance = bounded_exp(parameters["latent_weights.log_variance"][rows])
        moments = Moments(sparse.product(local, chosen), (squares @ variance)[:, None])
        kl = self._kl(parameters) if kl_needed else None
        distance = chosen if self._prior_mean is None else chosen - self._prior_mean[rows]
        precision = bounded_exp(-parameters["latent_weights.log_prior"][rows])
        return moments, kl, (rows, local, squares, distance, variance, precision)

    def _kl(self, parameters):
        mean, log_variance, log_prior = (parameters[name] for name in self.parameter_names)
        precision = bounded_exp(-log_prior).astype(np.float64)
        ratio = precision * bounded_exp(log_variance)
        distance = mean if self._prior_mean is None else mean - self._prior_mean
        squares = np.einsum("dp,dp->d", distance, distance)
        return 0.5 * float(squares @ precision + mean.shape[1] * (ratio - 1 - np.log(ratio)).sum())

    def backward(self, tape, d_moments, d_kl):
        """Return the gradients by parameter name (`IndexedRows`), for the features of the minibatch.

        Parameters
        ----------
        tape : tuple
        d_moments : Moments
        d_kl : float
        """
        rows, local, squares, distance, variance, precision = tape
        dtype, P = distance.dtype, distance.shape[1]
        share = (d_kl / self._shares.of(local.shape[0])[rows]).astype(dtype)
        transposed = local.T.tocsr()
        d_mean = sparse.product(transposed, np.ascontiguousarray(d_moments.mean, dtype))
        d_mean += (share * precision)[:, None] * distance
        d_variance = squares.T @ d_moments.variance[:, 0]
        ratio = variance * precision
        d_log_variance = (variance * d_variance + 0.5 * P * share * (ratio - 1)) * is_inside(variance)
        lengths = np.einsum("up,up->u", distance, distance)
        d_log_prior = 0.5 * share * (P - P * ratio - lengths * precision) * is_inside(precision)
        names = self.parameter_names
        return {
            name: IndexedRows(rows, value.astype(dtype, copy=False))
            for name, value in zip(names, (d_mean, d_log_variance, d_log_prior), strict=True)
        }


def are_valid(parameters, feature_count):
    """Return whether the latent functions of an untrusted file are consistent with each other and with D features.

    Compiled loops do not check shapes.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        With all of `WeightSpace.parameter_names`.
    feature_count : int
        D.
    """
    mean, log_variance, log_prior = (parameters[name] for name in WeightSpace.parameter_names)
    return bool(
        mean.dtype in (np.float32, np.float64)
        and mean.dtype == log_variance.dtype == log_prior.dtype
        and mean.ndim == 2
        and mean.shape[:1] == log_variance.shape == log_prior.shape == (feature_count,)
    )
