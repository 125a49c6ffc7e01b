"""The ratio of an earlier posterior to the prior, the likelihood of u given the data that were learned earlier.

A model that learns on has the earlier posterior q₀(u) as its prior. With the same inducing inputs and kernel,

    KL[q(u) ‖ q₀(u)] = KL[q(u) ‖ p(u)] − E_q log (q₀(u) / p(u)),

so the bound is that of training with one more expectation. For the posteriors of [S] the ratio is that of M Gaussian
observations of each latent function: q₀(u_p) ∝ p(u_p) N(t_p; u_p, Σ_p) with t_p = C_p μ_p. Source: T. Bui, C. Nguyen,
R. Turner, Streaming sparse Gaussian process approximations, NeurIPS 2017, for inducing inputs that stay.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.log_parameters import is_inside
from xmlgp.gp.parameters import Parameters
from xmlgp.gp.posteriors import cholesky, diagonal
from xmlgp.gp.posteriors.cholesky import Cholesky
from xmlgp.gp.posteriors.diagonal import Diagonal, SharedDiagonal
from xmlgp.linear_algebra.cholesky import factorise
from xmlgp.runtime.threads import parallel_for

__all__ = ["expected_log_ratio"]


def expected_log_ratio(
    posterior: SharedDiagonal | Diagonal | Cholesky, parameters: Parameters, K_Z: NDArray[np.floating]
) -> Callable[[Any], tuple[float, dict[str, NDArray[np.floating]]]]:
    """Return the function of q that gives E_q log (q₀(u) / p(u)), summed over p, and its gradients by parameter name.

    Its argument is the tape of the `forward` of the posterior of q, with the K_Z of q₀; the parameters are those of q₀.
    NumericalError is raised if a covariance matrix cannot be factorised.
    """
    if isinstance(posterior, Cholesky):
        return _cholesky_ratio(posterior.prepare(parameters, K_Z))
    return _diagonal_ratio(posterior, posterior.prepare(parameters, K_Z), K_Z)


def _diagonal_ratio(
    posterior: SharedDiagonal | Diagonal, prepared: diagonal.Prepared, K_Z: NDArray[np.floating]
) -> Callable[[diagonal.Tape], tuple[float, dict[str, NDArray[np.floating]]]]:
    mean, sigma, factorised = prepared
    copies = mean.shape[1] // len(sigma)
    precise = 1 / sigma
    # K μ, and t, both M×P.
    K_mean_0 = K_Z @ mean
    targets = K_mean_0 + sigma.T * mean
    logdets = np.sum([C.log_determinant for C in factorised]) - np.log(sigma).sum(dtype=np.float64)
    # log|C| − log|Σ| − m₀ᵀ (K_Z⁻¹ + Σ⁻¹) m₀, halved.
    constant = 0.5 * (float(logdets) * copies - np.vdot(K_mean_0, targets / sigma.T))
    weight = 0.5 * copies

    def expectation(tape: diagonal.Tape) -> tuple[float, dict[str, NDArray[np.floating]]]:
        _, diagonals, factorised = tape.prepared
        value = constant + np.vdot(tape.K_mean, precise.T * (targets - 0.5 * tape.K_mean))
        d_diagonals = np.empty_like(diagonals)
        variances = np.empty(len(diagonals))

        def fill(first: int, last: int) -> None:
            for p in range(first, last):
                # K C⁻¹ = I − Σ C⁻¹, and the variances of u are the diagonal of Σ − Σ C⁻¹ Σ.
                explained = -diagonals[p][:, None] * factorised[p].inverse
                explained[np.diag_indices_from(explained)] += 1
                variances[p] = precise[p] @ (diagonals[p] * np.diagonal(explained))
                d_diagonals[p] = -weight * (precise[p] @ np.square(explained))

        parallel_for(fill, len(diagonals), 1)
        return float(value - weight * variances.sum()), {
            "posterior.mean": K_Z @ (precise.T * (targets - tape.K_mean)),
            "posterior.log_diagonal": posterior.log_diagonal_gradient(diagonals, d_diagonals),
        }

    return expectation


def _cholesky_ratio(
    prepared: cholesky.Prepared,
) -> Callable[[cholesky.Tape], tuple[float, dict[str, NDArray[np.floating]]]]:
    """Return the function for `Cholesky`, in its whitened variables."""
    mean_0, factors_0, _ = prepared
    # S₀⁻¹ of each latent function, P×M×M.
    precisions = np.empty_like(factors_0)

    def invert(first: int, last: int) -> None:
        for p in range(first, last):
            precisions[p] = factorise(factors_0[p] @ factors_0[p].T, "the covariance of q(u)").inverse

    parallel_for(invert, len(factors_0), 1)
    constant = -np.log(np.einsum("pmm->pm", factors_0)).sum(dtype=np.float64)

    def expectation(tape: cholesky.Tape) -> tuple[float, dict[str, NDArray[np.floating]]]:
        mean, factors, _ = tape.prepared
        distance = mean - mean_0
        pulled = np.einsum("pij,jp->ip", precisions, distance)
        value = constant + 0.5 * (np.vdot(mean, mean) - np.vdot(distance, pulled))
        d_factors = np.empty_like(factors)
        traces = np.empty(len(factors))

        def fill(first: int, last: int) -> None:
            for p in range(first, last):
                change = factors[p] - precisions[p] @ factors[p]
                traces[p] = np.vdot(factors[p], change)
                values = np.diagonal(factors[p])
                d_factors[p] = np.tril(change)
                np.fill_diagonal(d_factors[p], np.diagonal(change) * values * is_inside(values))

        parallel_for(fill, len(factors), 1)
        return float(value + 0.5 * traces.sum()), {
            "posterior.whitened_mean": mean - pulled,
            "posterior.whitened_factor": d_factors,
        }

    return expectation
