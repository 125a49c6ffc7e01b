"""What was learned before, as a likelihood of u: the ratio of an earlier posterior to the prior.

A model that learns on has the earlier posterior q₀(u) as its prior. With the same inducing inputs and kernel,

    KL[q(u) ‖ q₀(u)] = KL[q(u) ‖ p(u)] − E_q log (q₀(u) / p(u)),

so the bound is that of training with one more expectation. For the posteriors of [S] the ratio is that of M Gaussian
observations of each latent function: q₀(u_p) ∝ p(u_p) N(t_p; u_p, Σ_p) with t_p = C_p μ_p. Source: T. Bui, C. Nguyen,
R. Turner, Streaming sparse Gaussian process approximations, NeurIPS 2017, for inducing inputs that stay.
"""

import numpy as np

from xmlgp.gp.log_parameters import bounded_exp_derivative, is_inside
from xmlgp.gp.posteriors.cholesky import Cholesky
from xmlgp.gp.posteriors.diagonal import Diagonal
from xmlgp.gp.posteriors.shared_diagonal import DIAGONAL_FLOOR, SharedDiagonal
from xmlgp.linear_algebra.cholesky import factorise
from xmlgp.runtime.threads import parallel_for

__all__ = ["EARLIER"]


class EarlierDiagonal:
    """The ratio q₀(u)/p(u) for `SharedDiagonal` and `Diagonal`.

    Parameters
    ----------
    posterior : SharedDiagonal or Diagonal
    parameters : mapping of str to ndarray
        Of q₀.
    K_Z : ndarray, M×M

    Raises
    ------
    NumericalError
        If K_Z + Σ cannot be factorised.
    """

    def __init__(self, posterior, parameters, K_Z):
        mean, diagonals, factorised = posterior.prepare(parameters, K_Z)
        P = mean.shape[1]
        self._K_Z, self._shared = K_Z, diagonals.ndim == 1
        #: Σ, as its rows of diagonals, one for each latent function or one for all.
        self._diagonals = np.atleast_2d(diagonals)
        K_mean = K_Z @ mean
        #: t, M×P.
        self._targets = K_mean + self._diagonals.T * mean
        logdets = [C.log_determinant for C in ([factorised] if self._shared else factorised)]
        logdets = np.sum(logdets) - np.log(self._diagonals).sum(dtype=np.float64)
        precise = self._targets / self._diagonals.T
        # log|C| − log|Σ| − m₀ᵀ (K_Z⁻¹ + Σ⁻¹) m₀, halved.
        self._constant = 0.5 * (float(logdets) * (P if self._shared else 1) - np.vdot(K_mean, precise))

    def expectation(self, tape):
        """Return E_q log (q₀(u) / p(u)), summed over the latent functions, and its gradients by parameter name.

        Parameters
        ----------
        tape : tuple
            Of the `forward` of the posterior of q, with the K_Z of q₀.
        """
        mean, diagonals, _, inverses, _, K_mean = tape
        precise = 1 / self._diagonals
        value = self._constant + np.vdot(K_mean, precise.T * (self._targets - 0.5 * K_mean))
        if self._shared:
            diagonals, inverses = diagonals[None], [inverses]
        weight = 0.5 * (mean.shape[1] if self._shared else 1)
        d_diagonals, variances = np.empty_like(diagonals), np.empty(len(diagonals))

        def part(first, last):
            for p in range(first, last):
                # K C⁻¹ = I − Σ C⁻¹, and the variances of u are the diagonal of Σ − Σ C⁻¹ Σ.
                explained = -diagonals[p][:, None] * inverses[p]
                explained[np.diag_indices_from(explained)] += 1
                variances[p] = precise[p] @ (diagonals[p] * np.diagonal(explained))
                d_diagonals[p] = -weight * (precise[p] @ np.square(explained))

        parallel_for(part, len(diagonals), 1)
        value -= weight * variances.sum()
        d_log = d_diagonals * bounded_exp_derivative(diagonals - DIAGONAL_FLOOR)
        return float(value), {
            "posterior.mean": self._K_Z @ (precise.T * (self._targets - K_mean)),
            "posterior.log_diagonal": d_log[0] if self._shared else d_log,
        }


class EarlierCholesky:
    """The ratio q₀(u)/p(u) for `Cholesky`, in its whitened variables.

    Parameters
    ----------
    posterior : Cholesky
    parameters : mapping of str to ndarray
        Of q₀.
    K_Z : ndarray, M×M
    """

    def __init__(self, posterior, parameters, K_Z):
        self._mean, factors, _ = posterior.prepare(parameters, K_Z)
        #: S₀⁻¹ of each latent function, P×M×M.
        self._precisions = np.empty_like(factors)

        def part(first, last):
            for p in range(first, last):
                covariance = factors[p] @ factors[p].T
                self._precisions[p] = factorise(covariance, "the covariance of q(u)").inverse

        parallel_for(part, len(factors), 1)
        self._constant = -np.log(np.einsum("pmm->pm", factors)).sum(dtype=np.float64)

    def expectation(self, tape):
        """Return the expectation and its gradients; see `EarlierDiagonal.expectation`."""
        mean, factors = tape[:2]
        distance = mean - self._mean
        pulled = np.einsum("pij,jp->ip", self._precisions, distance)
        value = self._constant + 0.5 * (np.vdot(mean, mean) - np.vdot(distance, pulled))
        d_factors, traces = np.empty_like(factors), np.empty(len(factors))

        def part(first, last):
            for p in range(first, last):
                change = factors[p] - self._precisions[p] @ factors[p]
                traces[p] = np.vdot(factors[p], change)
                diagonal = np.diagonal(factors[p])
                d_factors[p] = np.tril(change)
                np.fill_diagonal(d_factors[p], np.diagonal(change) * diagonal * is_inside(diagonal))

        parallel_for(part, len(factors), 1)
        return float(value + 0.5 * traces.sum()), {
            "posterior.whitened_mean": mean - pulled,
            "posterior.whitened_factor": d_factors,
        }


#: The class for each family of posteriors.
EARLIER = {SharedDiagonal: EarlierDiagonal, Diagonal: EarlierDiagonal, Cholesky: EarlierCholesky}
