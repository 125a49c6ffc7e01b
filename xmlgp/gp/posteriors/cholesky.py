"""The full posterior of [L] section 4.1, with a mean and a Cholesky factor for each latent function, whitened."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.gp.divergences import whitened_kl
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.parameters import Parameters, bounded_exp, checked_log, is_inside
from xmlgp.gp.posteriors.diagonal import DIAGONAL_NAME, initial_mean, sigma_diagonal
from xmlgp.linear_algebra.cholesky import add_jitter, factorise, inverse_lower, jitter_backward
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for, run_parallel

__all__ = ["Cholesky", "Prepared", "Tape"]

#: Columns of a block in products with triangular matrices. Smaller blocks skip more of the zeros, larger ones have a
#: higher rate. The best of 32 to 200 at M = 200 and B = 250.
BLOCK = 80


class Prepared(NamedTuple):
    """v, M×P, each L_p, P×M×M, and L_Z⁻¹, M×M."""

    mean: NDArray[np.floating]
    factors: NDArray[np.floating]
    inverse: NDArray[np.floating]


class Projections(NamedTuple):
    """A = K_BZ L_Z⁻ᵀ, B×M, and each A L_p, P×B×M."""

    whitened: NDArray[np.floating]
    projected: NDArray[np.floating]


class Tape(NamedTuple):
    """What `Cholesky.backward` needs."""

    prepared: Prepared
    projections: Projections


class Cholesky:
    """q(u_p) = N(L_Z v_p, L_Z S_p L_Zᵀ) with K_Z = L_Z L_Zᵀ and S_p = L_p L_pᵀ, L_p lower triangular, for each p.

    These are all the normal distributions, as in [L]. In the whitened variables L_Z⁻¹ u_p the prior is N(0, I): no
    gradient has a factor K_Z⁻¹, which grows without limit where M exceeds the rank of K_Z. With A = K_BZ L_Z⁻ᵀ:
    m_ip = (A v_p)_i; s_ip = k(x_i, x_i) − Σ_j A_ij² + Σ_j (A L_p)_ij²; the divergence is that of `whitened_kl`. K_Z has
    jitter on its diagonal.

    Parameters in the flat mapping: `posterior.whitened_mean`, v, M×P; `posterior.whitened_factor`, P×M×M, the lower
    triangles of L_p with the logarithms of their diagonals. Source: [L] (9), (10), (13); whitening: Murray and Adams,
    Slice sampling covariance hyperparameters of latent Gaussian models, 2010.
    """

    parameter_names = ("posterior.whitened_mean", "posterior.whitened_factor")
    shapes = ("M P", "P M M")
    prepare_is_parallel = False

    def initial(
        self, M: int, P: int, diagonal: float, random: np.random.Generator, dtype: DTypeLike
    ) -> dict[str, NDArray[np.floating]]:
        """Return initial parameters by name, with L_p = √diagonal I."""
        factor = np.zeros((P, M, M), dtype)
        factor[:, range(M), range(M)] = 0.5 * checked_log(diagonal, DIAGONAL_NAME)
        return {"posterior.whitened_mean": initial_mean(M, P, random, dtype), "posterior.whitened_factor": factor}

    def prepare(self, parameters: Parameters, K_Z: NDArray[np.floating]) -> Prepared:
        """Return v, each L_p, and L_Z⁻¹."""
        mean, raw = (parameters[name] for name in self.parameter_names)
        return Prepared(mean, _lower_factors(raw), inverse_lower(_factor(K_Z)))

    def alpha(self, prepared: Any) -> NDArray[np.floating]:
        """Return α: L_Z⁻ᵀ v."""
        alpha: NDArray[np.floating] = prepared.inverse.T @ prepared.mean
        return alpha

    def mean_from_alpha(self, alpha: NDArray[np.floating], K_Z: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return `posterior.whitened_mean`: L_Zᵀ α."""
        mean: NDArray[np.floating] = _factor(K_Z).T @ alpha
        return mean

    def moments(
        self, prepared: Prepared, K_BZ: NDArray[np.floating], K_diag: NDArray[np.floating]
    ) -> tuple[Moments, Projections]:
        """Return the moments at points, and A and each A L_p, P×B×M."""
        mean, factors, inverse = prepared
        whitened = K_BZ @ inverse.T
        conditional = K_diag - np.einsum("bm,bm->b", whitened, whitened)
        variance = np.empty((len(K_diag), len(factors)), mean.dtype)
        projected = np.empty((len(factors), *whitened.shape), mean.dtype)

        def project(p: int) -> None:
            _product(whitened, factors[p], projected[p])
            variance[:, p] = conditional + np.einsum("bm,bm->b", projected[p], projected[p])

        run_parallel(partial(project, p) for p in range(len(factors)))
        return Moments(whitened @ mean, variance), Projections(whitened, projected)

    def forward(self, prepared: Prepared, covariances: Covariances) -> tuple[Moments, np.floating, Tape]:
        """Return the moments, the sum of the divergences, and the tape."""
        moments, projections = self.moments(prepared, covariances.K_BZ, covariances.K_diag)
        return moments, whitened_kl(prepared.mean, prepared.factors), Tape(prepared, projections)

    def backward(self, tape: Tape, d_moments: Moments) -> tuple[Covariances, dict[str, NDArray[np.floating]]]:
        """Return the gradients by covariances and parameters."""
        (mean, factors, inverse), (whitened, projected) = tape
        d_K_diag = d_moments.variance.sum(axis=1)
        d_whitened = d_moments.mean @ mean.T - 2 * d_K_diag[:, None] * whitened
        d_factors = np.empty_like(factors)
        diagonals = np.einsum("pmm->pm", factors)
        minus_one = mean.dtype.type(-1)

        def add_factors(first: int, last: int) -> NDArray[np.floating]:
            total: NDArray[np.floating] = np.zeros_like(d_whitened)
            product = np.empty_like(d_whitened)
            d_projected = np.empty_like(d_whitened)
            for p in range(first, last):
                np.multiply(projected[p], 2 * d_moments.variance[:, p, None], out=d_projected)
                _product_transposed(d_projected, factors[p], product)
                total += product
                _lower_of_product(whitened, d_projected, d_factors[p])
                _add_divergence(d_factors[p], factors[p], minus_one, is_inside(diagonals[p]))
            return total

        for total in parallel_for(add_factors, len(factors), 1):
            d_whitened += total
        gradients = {
            "posterior.whitened_mean": whitened.T @ d_moments.mean - mean,
            "posterior.whitened_factor": d_factors,
        }
        # With A = K_BZ L_Z⁻ᵀ and T = dAᵀ A: dK_Z = −½ L_Z⁻ᵀ (Φ(T) + Φ(T)ᵀ) L_Z⁻¹, where Φ takes the lower triangle and
        # half of the diagonal (Murray, Differentiation of the Cholesky decomposition, 2016).
        lower = np.tril(d_whitened.T @ whitened)
        lower[np.diag_indices_from(lower)] *= lower.dtype.type(0.5)
        d_K_Z = -0.5 * (inverse.T @ (lower + lower.T) @ inverse)
        jitter_backward(d_K_Z)
        return Covariances(d_whitened @ inverse, d_K_Z, d_K_diag), gradients

    def precondition(self, tape: Tape, gradients: dict[str, NDArray[np.floating]]) -> dict[str, NDArray[np.floating]]:
        """Return the gradients as they are: that of v is the natural gradient if q(u) is the prior."""
        return gradients

    def parameters_of_diagonal(
        self, parameters: Parameters, K_Z: NDArray[np.floating]
    ) -> dict[str, NDArray[np.floating]]:
        """Return the parameters by name for which q(u_p) are those of parameters of `SharedDiagonal`."""
        lower = _factor(K_Z)
        mean = parameters["posterior.mean"]
        # S = L_Z⁻¹ (K_Z⁻¹ + Σ⁻¹)⁻¹ L_Z⁻ᵀ = (I + L_Zᵀ Σ⁻¹ L_Z)⁻¹.
        root = lower / np.sqrt(sigma_diagonal(parameters))[:, None]
        precision = root.T @ root
        precision[np.diag_indices_from(precision)] += 1
        covariance = factorise(precision, "the precision of q(u)").inverse
        factor = factorise(covariance, "the covariance of q(u)").factor
        np.fill_diagonal(factor, np.log(np.diagonal(factor)))
        factors = np.tile(factor, (mean.shape[1], 1, 1))
        return {"posterior.whitened_mean": lower.T @ mean, "posterior.whitened_factor": factors}


def _factor(K_Z: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return L_Z of K_Z with jitter."""
    return factorise(add_jitter(K_Z), "K_Z").factor


def _lower_factors(raw: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return each L_p, P×M×M, of the parameters `posterior.whitened_factor`."""
    index = np.arange(raw.shape[1])
    factors = raw * np.tri(len(index), dtype=raw.dtype)
    factors[:, index, index] = bounded_exp(raw[:, index, index])
    return factors


def _product(left: NDArray[np.floating], lower: NDArray[np.floating], out: NDArray[np.floating]) -> None:
    """Write X L to `out`, for X, B×M, and a lower triangular L, M×M."""
    for start in range(0, len(lower), BLOCK):
        stop = start + BLOCK
        np.matmul(left[:, start:], lower[start:, start:stop], out=out[:, start:stop])


def _product_transposed(left: NDArray[np.floating], lower: NDArray[np.floating], out: NDArray[np.floating]) -> None:
    """Write X Lᵀ to `out`, for X, B×M, and a lower triangular L, M×M."""
    for start in range(0, len(lower), BLOCK):
        stop = start + BLOCK
        np.matmul(left[:, :stop], lower[start:stop, :stop].T, out=out[:, start:stop])


def _lower_of_product(left: NDArray[np.floating], right: NDArray[np.floating], out: NDArray[np.floating]) -> None:
    """Write the lower triangle of Xᵀ Y to `out`, M×M, for X and Y, B×M; what is above it has no meaning."""
    for start in range(0, len(out), BLOCK):
        stop = start + BLOCK
        np.matmul(left[:, start:].T, right[:, start:stop], out=out[start:, start:stop])


@compiled
def _add_divergence(
    gradient: NDArray[np.floating], factor: NDArray[np.floating], weight: np.floating, is_inside: NDArray[np.bool_]
) -> None:
    """Add the weighted gradient of the divergence to that of L_p, M×M, in place, and clear the upper triangle.

    The diagonal is parametrised by logarithms: d log L = L dL, and −log L is a term of the divergence. The weight is
    −1; if the compiler knew it, it would round in another order.
    """
    for i in range(len(factor)):
        for j in range(i):
            gradient[i, j] += weight * factor[i, j]
        change = gradient[i, i] * factor[i, i] + weight * (factor[i, i] * factor[i, i] - factor.dtype.type(1))
        gradient[i, i] = change if is_inside[i] else factor.dtype.type(0)
        gradient[i, i + 1 :] = 0
