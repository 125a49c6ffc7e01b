"""The posterior of [S] section 2.3: two vectors of M parameters for each latent function."""

from functools import partial
from operator import itemgetter

import numpy as np

from xmlgp.gp.inner_products import Products
from xmlgp.gp.log_parameters import log_within_limit, slope
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.gp.posteriors.shared_diagonal import DIAGONAL, DIAGONAL_FLOOR, floored_diagonal, inflated, initial_mean
from xmlgp.runtime.threads import parallel_for, run_parallel

__all__ = ["Diagonal"]


class Diagonal:
    """q(u_p) = N(K_Z μ_p, (K_Z⁻¹ + Σ_p⁻¹)⁻¹) with a diagonal Σ_p for each p.

    With C_p = K_Z + Σ_p: m_i = k(x_i, Z) μ_p; s_i = k(x_i, x_i) − k(x_i, Z) C_p⁻¹ k(Z, x_i);
    KL_p = ½ μ_pᵀ K_Z μ_p − ½ (M − Σ_j σ_pj (C_p⁻¹)_jj) + ½ log|C_p| − ½ log|Σ_p|.

    Parameters in the flat mapping: `posterior.mean`, μ, M×P; `posterior.log_diagonal`, the logarithm of the
    diagonals of Σ_p less `DIAGONAL_FLOOR`, P×M. Source: [S] (8), (10), (18), (19), (22).
    """

    name = "diagonal"
    #: Of the parameters.
    names = ("posterior.mean", "posterior.log_diagonal")
    #: Whether `prepare` keeps all cores busy by itself.
    shares_out = True

    def initial(self, inducing_count, factor_count, diagonal, random, dtype):
        """Return parameters to start from, as `SharedDiagonal.initial` does."""
        return {
            "posterior.mean": initial_mean(inducing_count, factor_count, random, dtype),
            "posterior.log_diagonal": np.full(
                (factor_count, inducing_count), log_within_limit(diagonal, DIAGONAL), dtype
            ),
        }

    def prepare(self, parameters, covariance):
        """Return what the moments at any points need of the parameters and K_Z, M×M."""
        diagonals = floored_diagonal(parameters)
        totals = [None] * len(diagonals)

        def factorised(p):
            totals[p] = inflated(covariance, diagonals[p], f"K_Z + Σ of latent function {p}")

        run_parallel(partial(factorised, p) for p in range(len(diagonals)))
        return parameters["posterior.mean"], diagonals, totals

    def weights(self, prepared):
        """Return what K_BZ is multiplied by for the means, M×P: μ."""
        return prepared[0]

    def mean_of(self, weights, covariance):
        """Return the mean parameter, M×P, with which means are K_BZ times `weights`, given K_Z: μ."""
        return weights

    def moments(self, prepared, cross, points):
        """Return the moments (`Moments`) at points, given K_BZ, B×M, and diag K_B, and each K_BZ C_p⁻¹."""
        mean, diagonals, totals = prepared
        variance = np.empty((len(points), len(diagonals)), mean.dtype)
        projections = [None] * len(diagonals)

        def project(p):
            projections[p] = projected = cross @ totals[p].inverse
            variance[:, p] = points - np.einsum("bm,bm->b", projected, cross)

        run_parallel(partial(project, p) for p in range(len(diagonals)))
        return Moments(cross @ mean, variance), projections

    def forward(self, parameters, covariances, prepared=None):
        """Return the moments (`Moments`), the sum of the KL divergences and the tape; see `SharedDiagonal`."""
        prepared = prepared or self.prepare(parameters, covariances.inducing)
        mean, diagonals, totals = prepared
        moments, projections = self.moments(prepared, covariances.cross, covariances.points)
        prior_mean = covariances.inducing @ mean
        kl = 0.5 * np.vdot(mean, prior_mean)
        for diagonal, total in zip(diagonals, totals, strict=True):
            trace = np.vdot(diagonal, np.diagonal(total.inverse))
            kl += 0.5 * (trace - len(diagonal) + total.log_determinant - np.log(diagonal).sum())
        inverses = [total.inverse for total in totals]
        return moments, kl, (mean, diagonals, covariances, inverses, projections, prior_mean)

    def backward(self, tape, d_moments, d_kl):
        """Return the gradients of the covariances (`Products`) and of the parameters (mapping)."""
        mean, diagonals, covariances, inverses, projections, prior_mean = tape
        d_cross = d_moments.mean @ mean.T
        d_inducing = (0.5 * d_kl * mean) @ mean.T
        d_diagonals = np.empty_like(diagonals)
        sums = []

        def some(first, last):
            cross_sum, inducing_sum = np.zeros_like(d_cross), np.zeros_like(d_inducing)
            for p in range(first, last):
                diagonal, inverse, projected = diagonals[p], inverses[p], projections[p]
                weighted = d_moments.variance[:, p, None] * projected
                cross_sum += weighted
                # By C_p: the variances give Σ_i ds_i v_i v_iᵀ, the KL divergence ½ (C_p⁻¹ − C_p⁻¹ Σ_p C_p⁻¹).
                d_total = projected.T @ weighted
                scaled = inverse * np.sqrt(diagonal)
                d_total += 0.5 * d_kl * (inverse - scaled @ scaled.T)
                d_diagonals[p] = np.diagonal(d_total) + 0.5 * d_kl * (np.diagonal(inverse) - 1 / diagonal)
                inducing_sum += d_total
            sums.append((first, cross_sum, inducing_sum))

        parallel_for(some, len(diagonals), 1)
        # In an order that does not depend on which thread was faster.
        for _, cross_sum, inducing_sum in sorted(sums, key=itemgetter(0)):
            d_cross -= 2 * cross_sum
            d_inducing += inducing_sum
        gradients = {
            "posterior.mean": covariances.cross.T @ d_moments.mean + d_kl * prior_mean,
            "posterior.log_diagonal": d_diagonals * slope(diagonals - DIAGONAL_FLOOR),
        }
        return Products(d_cross, d_inducing, d_moments.variance.sum(axis=1)), gradients

    def precondition(self, tape, gradients):
        """Replace the gradient of each μ_p by C_p⁻¹ times it, as `SharedDiagonal.precondition` does."""
        inverses = tape[3]
        columns = [inverse @ column for inverse, column in zip(inverses, gradients["posterior.mean"].T, strict=True)]
        return gradients | {"posterior.mean": np.stack(columns, axis=1)}
