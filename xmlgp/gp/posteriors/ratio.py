"""What was learned before, as a likelihood of u: the ratio of an earlier posterior to the prior.

A model that learns on has the earlier posterior q₀(u) as its prior. With the same inducing inputs and kernel,

    KL[q(u) ‖ q₀(u)] = KL[q(u) ‖ p(u)] − E_q log (q₀(u) / p(u)),

so the bound is that of training with one more expectation. For the posteriors of [S] the ratio is that of M Gaussian
observations of each latent function: q₀(u_p) ∝ p(u_p) N(t_p; u_p, Σ_p) with t_p = C_p μ_p. Source: T. Bui, C. Nguyen,
R. Turner, Streaming sparse Gaussian process approximations, NeurIPS 2017, for inducing inputs that stay.
"""

import numpy as np

from xmlgp.gp.log_parameters import is_inside
from xmlgp.gp.posteriors.cholesky import Cholesky
from xmlgp.gp.posteriors.diagonal import Diagonal, SharedDiagonal, sigma_slope
from xmlgp.linear_algebra.cholesky import factorise
from xmlgp.runtime.threads import parallel_for

__all__ = ["expected_log_ratio"]


def expected_log_ratio(posterior, parameters, K_Z):
    """Return the function of q that gives E_q log (q₀(u) / p(u)), summed over p, and its gradients by parameter name.

    It takes the tape of the `forward` of the posterior of q, with the K_Z of q₀, which has the given parameters.
    NumericalError if a covariance matrix cannot be factorised.
    """
    return RATIOS[type(posterior)](posterior.prepare(parameters, K_Z), K_Z)


def _diagonal(prepared, K_Z):
    mean, sigma, factorised = prepared
    P = mean.shape[1]
    shared = sigma.ndim == 1
    # The diagonals are rows, one for each latent function or one for all.
    sigma = np.atleast_2d(sigma)
    precise = 1 / sigma
    # K μ, and t, both M×P.
    K_mean_0 = K_Z @ mean
    targets = K_mean_0 + sigma.T * mean
    logdets = [C.log_determinant for C in ([factorised] if shared else factorised)]
    logdets = np.sum(logdets) - np.log(sigma).sum(dtype=np.float64)
    # log|C| − log|Σ| − m₀ᵀ (K_Z⁻¹ + Σ⁻¹) m₀, halved.
    constant = 0.5 * (float(logdets) * (P if shared else 1) - np.vdot(K_mean_0, targets / sigma.T))
    weight = 0.5 * (P if shared else 1)

    def expectation(tape):
        _, diagonals, _, inverses, _, K_mean = tape
        value = constant + np.vdot(K_mean, precise.T * (targets - 0.5 * K_mean))
        if shared:
            diagonals = diagonals[None]
            inverses = [inverses]
        d_diagonals = np.empty_like(diagonals)
        variances = np.empty(len(diagonals))

        def part(first, last):
            for p in range(first, last):
                # K C⁻¹ = I − Σ C⁻¹, and the variances of u are the diagonal of Σ − Σ C⁻¹ Σ.
                explained = -diagonals[p][:, None] * inverses[p]
                explained[np.diag_indices_from(explained)] += 1
                variances[p] = precise[p] @ (diagonals[p] * np.diagonal(explained))
                d_diagonals[p] = -weight * (precise[p] @ np.square(explained))

        parallel_for(part, len(diagonals), 1)
        value -= weight * variances.sum()
        d_log = d_diagonals * sigma_slope(diagonals)
        return float(value), {
            "posterior.mean": K_Z @ (precise.T * (targets - K_mean)),
            "posterior.log_diagonal": d_log[0] if shared else d_log,
        }

    return expectation


def _cholesky(prepared, K_Z):
    """Return the function for `Cholesky`, in its whitened variables."""
    mean_0, factors_0, _ = prepared
    # S₀⁻¹ of each latent function, P×M×M.
    precisions = np.empty_like(factors_0)

    def invert(first, last):
        for p in range(first, last):
            precisions[p] = factorise(factors_0[p] @ factors_0[p].T, "the covariance of q(u)").inverse

    parallel_for(invert, len(factors_0), 1)
    constant = -np.log(np.einsum("pmm->pm", factors_0)).sum(dtype=np.float64)

    def expectation(tape):
        mean, factors = tape[:2]
        distance = mean - mean_0
        pulled = np.einsum("pij,jp->ip", precisions, distance)
        value = constant + 0.5 * (np.vdot(mean, mean) - np.vdot(distance, pulled))
        d_factors = np.empty_like(factors)
        traces = np.empty(len(factors))

        def part(first, last):
            for p in range(first, last):
                change = factors[p] - precisions[p] @ factors[p]
                traces[p] = np.vdot(factors[p], change)
                diagonal = np.diagonal(factors[p])
                d_factors[p] = np.tril(change)
                np.fill_diagonal(d_factors[p], np.diagonal(change) * diagonal * is_inside(diagonal))

        parallel_for(part, len(factors), 1)
        return float(value + 0.5 * traces.sum()), {
            "posterior.whitened_mean": mean - pulled,
            "posterior.whitened_factor": d_factors,
        }

    return expectation


#: For each family of posteriors.
RATIOS = {SharedDiagonal: _diagonal, Diagonal: _diagonal, Cholesky: _cholesky}
