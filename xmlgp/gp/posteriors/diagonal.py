"""The posterior of [S] section 2.3, with two vectors of M parameters for each latent function."""

from functools import partial
from operator import itemgetter

import numpy as np

from xmlgp.gp.divergences import diagonal_kl
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.log_parameters import bounded_exp_derivative, checked_log
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.gp.posteriors.shared_diagonal import (
    DIAGONAL_FLOOR,
    DIAGONAL_NAME,
    factorise_sum,
    initial_mean,
    sigma_diagonal,
)
from xmlgp.runtime.threads import parallel_for, run_parallel

__all__ = ["Diagonal"]


class Diagonal:
    """q(u_p) = N(K_Z μ_p, (K_Z⁻¹ + Σ_p⁻¹)⁻¹) with a diagonal Σ_p for each p.

    With C_p = K_Z + Σ_p: m_ip = k(x_i, Z) μ_p; s_ip = k(x_i, x_i) − k(x_i, Z) C_p⁻¹ k(Z, x_i); the divergence is that
    of `diagonal_kl`.

    Parameters in the flat mapping: `posterior.mean`, μ, M×P; `posterior.log_diagonal`, the logarithm of the diagonals
    of Σ_p less `DIAGONAL_FLOOR`, P×M. Source: [S] (8), (10), (18), (19), (22). The methods are those of
    `SharedDiagonal`.
    """

    name = "diagonal"
    parameter_names = ("posterior.mean", "posterior.log_diagonal")
    #: Whether `prepare` uses all cores.
    prepare_is_parallel = True

    def initial(self, inducing_count, factor_count, diagonal, random, dtype):
        """Return initial parameters by name; see `SharedDiagonal.initial`."""
        log_diagonal = checked_log(diagonal, DIAGONAL_NAME)
        return {
            "posterior.mean": initial_mean(inducing_count, factor_count, random, dtype),
            "posterior.log_diagonal": np.full((factor_count, inducing_count), log_diagonal, dtype),
        }

    def prepare(self, parameters, K_Z):
        """Return the quantities that moments at any points need: μ, each diag Σ_p and each factorised C_p."""
        diagonals = sigma_diagonal(parameters)
        factorised = [None] * len(diagonals)

        def factorise(p):
            factorised[p] = factorise_sum(K_Z, diagonals[p], f"K_Z + Σ of latent function {p}")

        run_parallel(partial(factorise, p) for p in range(len(diagonals)))
        return parameters["posterior.mean"], diagonals, factorised

    def alpha(self, prepared):
        """Return α, M×P, with which the mean at points is K_BZ α: μ."""
        return prepared[0]

    def mean_from_alpha(self, alpha, K_Z):
        """Return the `posterior.mean`, M×P, that has the given α: μ = α."""
        return alpha

    def moments(self, prepared, K_BZ, K_diag):
        """Return the moments at points and each K_BZ C_p⁻¹; see `SharedDiagonal.moments`."""
        mean, diagonals, factorised = prepared
        variance = np.empty((len(K_diag), len(diagonals)), mean.dtype)
        projections = [None] * len(diagonals)

        def project(p):
            projections[p] = projected = K_BZ @ factorised[p].inverse
            variance[:, p] = K_diag - np.einsum("bm,bm->b", projected, K_BZ)

        run_parallel(partial(project, p) for p in range(len(diagonals)))
        return Moments(K_BZ @ mean, variance), projections

    def forward(self, parameters, covariances, prepared=None):
        """Return the moments, the sum of the KL divergences, and the tape; see `SharedDiagonal.forward`."""
        prepared = prepared or self.prepare(parameters, covariances.K_Z)
        mean, diagonals, factorised = prepared
        moments, projections = self.moments(prepared, covariances.K_BZ, covariances.K_diag)
        K_mean = covariances.K_Z @ mean
        kl = diagonal_kl(mean, K_mean, diagonals, factorised)
        inverses = [C.inverse for C in factorised]
        return moments, kl, (mean, diagonals, covariances, inverses, projections, K_mean)

    def backward(self, tape, d_moments, d_kl):
        """Return the gradients with respect to the covariances and the parameters; see `SharedDiagonal.backward`."""
        mean, diagonals, covariances, inverses, projections, K_mean = tape
        d_K_BZ = d_moments.mean @ mean.T
        d_K_Z = (0.5 * d_kl * mean) @ mean.T
        d_diagonals = np.empty_like(diagonals)
        sums = []

        def add_factors(first, last):
            K_BZ_sum, K_Z_sum = np.zeros_like(d_K_BZ), np.zeros_like(d_K_Z)
            for p in range(first, last):
                diagonal, inverse, projected = diagonals[p], inverses[p], projections[p]
                weighted = d_moments.variance[:, p, None] * projected
                K_BZ_sum += weighted
                # The gradient with respect to C_p is Σ_i ds_i v_i v_iᵀ from the variances, and
                # ½ (C_p⁻¹ − C_p⁻¹ Σ_p C_p⁻¹) from the divergence.
                d_C = projected.T @ weighted
                scaled = inverse * np.sqrt(diagonal)
                d_C += 0.5 * d_kl * (inverse - scaled @ scaled.T)
                d_diagonals[p] = np.diagonal(d_C) + 0.5 * d_kl * (np.diagonal(inverse) - 1 / diagonal)
                K_Z_sum += d_C
            sums.append((first, K_BZ_sum, K_Z_sum))

        parallel_for(add_factors, len(diagonals), 1)
        # Sorted, so that the result does not depend on which thread was faster.
        for _, K_BZ_sum, K_Z_sum in sorted(sums, key=itemgetter(0)):
            d_K_BZ -= 2 * K_BZ_sum
            d_K_Z += K_Z_sum
        gradients = {
            "posterior.mean": covariances.K_BZ.T @ d_moments.mean + d_kl * K_mean,
            "posterior.log_diagonal": d_diagonals * bounded_exp_derivative(diagonals - DIAGONAL_FLOOR),
        }
        return Covariances(d_K_BZ, d_K_Z, d_moments.variance.sum(axis=1)), gradients

    def precondition(self, tape, gradients):
        """Multiply the gradient with respect to each μ_p by C_p⁻¹; see `SharedDiagonal.precondition`."""
        inverses = tape[3]
        columns = [inverse @ column for inverse, column in zip(inverses, gradients["posterior.mean"].T, strict=True)]
        return gradients | {"posterior.mean": np.stack(columns, axis=1)}
