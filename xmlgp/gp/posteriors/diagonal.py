"""The posteriors of [S] section 2.3: a mean for each latent function, and a diagonal Σ for each or one for all."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.gp.divergences import diagonal_kl
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.parameters import Parameters, bounded_exp, checked_log, is_inside
from xmlgp.linear_algebra import dense
from xmlgp.linear_algebra.cholesky import Factorisation, factorise
from xmlgp.linear_algebra.dense import GRAIN
from xmlgp.runtime.threads import parallel_for, run_parallel, split_range

__all__ = ["DIAGONAL_NAME", "Diagonal", "SharedDiagonal", "Prepared", "Tape", "initial_mean", "sigma_diagonal"]

#: Least value of the diagonal of Σ, for numerical stability ([S] section 2.3).
DIAGONAL_FLOOR = 1e-6

#: Name of the initial diagonal in error messages.
DIAGONAL_NAME = "the diagonal of Σ"

#: Standard deviation of the initial means. At zero the loadings would have no gradient.
INITIAL_MEAN_STD = 0.01


class Prepared(NamedTuple):
    """μ, M×P; the diagonal of each Σ as a row, P×M or 1×M; and the factorisation of each C = K_Z + Σ."""

    mean: NDArray[np.floating]
    diagonals: NDArray[np.floating]
    factorised: list[Factorisation]


class Tape(NamedTuple):
    """What `backward` needs; `projections` are K_BZ C⁻¹ for each C, B×M, and `K_mean` is K_Z μ, M×P."""

    prepared: Prepared
    covariances: Covariances
    projections: list[NDArray[np.floating]]
    K_mean: NDArray[np.floating]


class _DiagonalPosterior:
    """What `SharedDiagonal` and `Diagonal` have in common."""

    parameter_names = ("posterior.mean", "posterior.log_diagonal")
    #: The shapes of these parameters in letters.
    shapes: tuple[str, str]
    #: Whether all latent functions have the same Σ.
    is_shared: bool
    #: Whether `prepare` uses all cores, so that nothing else should run beside it.
    prepare_is_parallel: bool

    def initial(
        self, M: int, P: int, diagonal: float, random: np.random.Generator, dtype: DTypeLike
    ) -> dict[str, NDArray[np.floating]]:
        """Return initial parameters by name, with Σ = `diagonal` I and small random means.

        NumericalError is raised if the diagonal is outside the limits of `xmlgp.gp.parameters`.
        """
        shape = M if self.is_shared else (P, M)
        return {
            "posterior.mean": initial_mean(M, P, random, dtype),
            "posterior.log_diagonal": np.full(shape, checked_log(diagonal, DIAGONAL_NAME), dtype),
        }

    def prepare(self, parameters: Parameters, K_Z: NDArray[np.floating]) -> Prepared:
        """Return what moments and divergences need, given K_Z, M×M."""
        diagonals = sigma_diagonal(parameters)
        if self.is_shared:
            diagonals = diagonals[None]

        def factorise_sum(p: int) -> Factorisation:
            C = K_Z.copy()
            C[np.diag_indices_from(C)] += diagonals[p]
            return factorise(C, "K_Z + Σ" if self.is_shared else f"K_Z + Σ of latent function {p}")

        factorised = run_parallel(partial(factorise_sum, p) for p in range(len(diagonals)))
        return Prepared(parameters["posterior.mean"], diagonals, factorised)

    def alpha(self, prepared: Any) -> NDArray[np.floating]:
        """Return the α, M×P, of the mean K_BZ α at points: it is μ."""
        alpha: NDArray[np.floating] = prepared.mean
        return alpha

    def mean_from_alpha(self, alpha: NDArray[np.floating], K_Z: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the `posterior.mean` with which the mean at points is K_BZ α: it is α."""
        return alpha

    def moments(
        self, prepared: Prepared, K_BZ: NDArray[np.floating], K_diag: NDArray[np.floating]
    ) -> tuple[Moments, list[NDArray[np.floating]]]:
        """Return the moments at points, and each K_BZ C⁻¹, B×M."""
        raise NotImplementedError

    def forward(self, prepared: Prepared, covariances: Covariances) -> tuple[Moments, np.floating, Tape]:
        """Return the moments, the sum of the divergences, and the tape."""
        moments, projections = self.moments(prepared, covariances.K_BZ, covariances.K_diag)
        K_mean = dense.product(covariances.K_Z, prepared.mean)
        kl = diagonal_kl(prepared.mean, K_mean, prepared.diagonals, prepared.factorised)
        return moments, kl, Tape(prepared, covariances, projections, K_mean)

    def log_diagonal_gradient(
        self, diagonals: NDArray[np.floating], d_diagonals: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Return the gradient by `posterior.log_diagonal`, given that by the diagonals; it is 0 at the limits."""
        values = diagonals - DIAGONAL_FLOOR
        gradient: NDArray[np.floating] = d_diagonals * (values * is_inside(values))
        return gradient[0] if self.is_shared else gradient


class SharedDiagonal(_DiagonalPosterior):
    """q(u_p) = N(K_Z μ_p, (K_Z⁻¹ + Σ⁻¹)⁻¹) with a diagonal Σ that all p share: one factorisation per step.

    With C = K_Z + Σ: m_ip = k(x_i, Z) μ_p; s_i = k(x_i, x_i) − k(x_i, Z) C⁻¹ k(Z, x_i); the divergence is that of
    `diagonal_kl`.

    Parameters in the flat mapping: `posterior.mean`, μ, M×P; `posterior.log_diagonal`, the logarithm of the diagonal of
    Σ less `DIAGONAL_FLOOR`, M. Source: [S] (8), (10), (22), with a shared Σ.
    """

    is_shared = True
    shapes = ("M P", "M")
    prepare_is_parallel = False

    def moments(
        self, prepared: Prepared, K_BZ: NDArray[np.floating], K_diag: NDArray[np.floating]
    ) -> tuple[Moments, list[NDArray[np.floating]]]:
        """Return the moments at points, and K_BZ C⁻¹."""
        mean = prepared.mean
        (C,) = prepared.factorised
        moments = Moments(np.empty((len(K_diag), mean.shape[1]), mean.dtype), np.empty((len(K_diag), 1), mean.dtype))
        projected = np.empty_like(K_BZ)

        def fill_moments(i: int, j: int) -> None:
            np.matmul(K_BZ[i:j], mean, out=moments.mean[i:j])
            np.matmul(K_BZ[i:j], C.inverse, out=projected[i:j])
            explained = np.einsum("bm,bm->b", projected[i:j], K_BZ[i:j])
            np.subtract(K_diag[i:j], explained, out=moments.variance[i:j, 0])

        parallel_for(fill_moments, len(K_diag), GRAIN // C.inverse.size)
        return moments, [projected]

    def backward(self, tape: Tape, d_moments: Moments) -> tuple[Covariances, dict[str, NDArray[np.floating]]]:
        """Return the gradients by covariances and parameters.

        The gradients by variances must not be positive, as those of a log-concave likelihood are.
        """
        (mean, (diagonal,), (C,)), covariances, (projected,), K_mean = tape
        d_variance = d_moments.variance[:, 0]
        root = np.sqrt(-np.minimum(d_variance, 0))
        d_K_BZ = np.empty_like(projected)
        scaled = np.empty_like(projected)
        d_mean = np.empty_like(mean)

        def fill_points(i: int, j: int) -> None:
            np.matmul(d_moments.mean[i:j], mean.T, out=d_K_BZ[i:j])
            np.multiply(projected[i:j], -2 * d_variance[i:j, None], out=scaled[i:j])
            d_K_BZ[i:j] += scaled[i:j]
            # For the gradient by C, in the same memory.
            np.multiply(projected[i:j], root[i:j, None], out=scaled[i:j])

        def fill_mean(i: int, j: int) -> None:
            np.matmul(covariances.K_BZ[:, i:j].T, d_moments.mean, out=d_mean[i:j])

        grain = GRAIN // max(1, mean.size)
        run_parallel([*split_range(fill_points, len(projected), grain), *split_range(fill_mean, len(mean), grain)])
        d_mean -= K_mean
        # The gradient by C is Σ_i ds_i v_i v_iᵀ from the variances, with v_i = C⁻¹ k(Z, x_i) and ds_i ≤ 0, and
        # −½ P (C⁻¹ − C⁻¹ Σ C⁻¹) from the divergences.
        half_P = 0.5 * mean.shape[1]
        minus_from_variances = dense.gram(scaled)
        from_kl = dense.gram(np.sqrt(diagonal)[:, None] * C.inverse)
        from_kl -= C.inverse
        from_kl *= half_P
        d_C = np.subtract(from_kl, minus_from_variances, out=minus_from_variances)
        # Σ is in C, and in the terms log|Σ| and tr(C⁻¹ Σ) of the divergences.
        d_diagonal = np.diagonal(d_C) + half_P / diagonal - half_P * np.diagonal(C.inverse)
        d_K_Z = dense.product(-0.5 * mean, mean.T)
        d_K_Z += d_C
        gradients = {
            "posterior.mean": d_mean,
            "posterior.log_diagonal": self.log_diagonal_gradient(tape.prepared.diagonals, d_diagonal),
        }
        return Covariances(d_K_BZ, d_K_Z, d_variance), gradients

    def precondition(self, tape: Tape, gradients: dict[str, NDArray[np.floating]]) -> dict[str, NDArray[np.floating]]:
        """Multiply the gradient with respect to μ by C⁻¹, so that the largest eigenvalues of K_Z do not dominate it.

        The natural gradient is (K_Z⁻¹ − C⁻¹) times the gradient. C⁻¹ has the same effect on large eigenvalues, is
        already computed, and exists for singular K_Z.
        """
        (C,) = tape.prepared.factorised
        return gradients | {"posterior.mean": dense.product(C.inverse, gradients["posterior.mean"])}


class Diagonal(_DiagonalPosterior):
    """q(u_p) = N(K_Z μ_p, (K_Z⁻¹ + Σ_p⁻¹)⁻¹) with a diagonal Σ_p for each p.

    With C_p = K_Z + Σ_p: m_ip = k(x_i, Z) μ_p; s_ip = k(x_i, x_i) − k(x_i, Z) C_p⁻¹ k(Z, x_i); the divergence is that
    of `diagonal_kl`.

    Parameters in the flat mapping: `posterior.mean`, μ, M×P; `posterior.log_diagonal`, the logarithm of the diagonals
    of Σ_p less `DIAGONAL_FLOOR`, P×M. Source: [S] (8), (10), (18), (19), (22).
    """

    is_shared = False
    shapes = ("M P", "P M")
    prepare_is_parallel = True

    def moments(
        self, prepared: Prepared, K_BZ: NDArray[np.floating], K_diag: NDArray[np.floating]
    ) -> tuple[Moments, list[NDArray[np.floating]]]:
        """Return the moments at points, and each K_BZ C_p⁻¹."""
        mean, _, factorised = prepared
        variance = np.empty((len(K_diag), len(factorised)), mean.dtype)

        def project(p: int) -> NDArray[np.floating]:
            projected: NDArray[np.floating] = K_BZ @ factorised[p].inverse
            variance[:, p] = K_diag - np.einsum("bm,bm->b", projected, K_BZ)
            return projected

        projections = run_parallel(partial(project, p) for p in range(len(factorised)))
        return Moments(K_BZ @ mean, variance), projections

    def backward(self, tape: Tape, d_moments: Moments) -> tuple[Covariances, dict[str, NDArray[np.floating]]]:
        """Return the gradients by covariances and parameters."""
        (mean, diagonals, factorised), covariances, projections, K_mean = tape
        d_K_BZ = d_moments.mean @ mean.T
        d_K_Z = (-0.5 * mean) @ mean.T
        d_diagonals = np.empty_like(diagonals)

        def sum_gradients(first: int, last: int) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
            K_BZ_sum = np.zeros_like(d_K_BZ)
            K_Z_sum = np.zeros_like(d_K_Z)
            for p in range(first, last):
                diagonal = diagonals[p]
                inverse = factorised[p].inverse
                projected = projections[p]
                weighted = d_moments.variance[:, p, None] * projected
                K_BZ_sum += weighted
                # The gradient by C_p is Σ_i ds_i v_i v_iᵀ from the variances, with v_i = C_p⁻¹ k(Z, x_i), and
                # −½ (C_p⁻¹ − C_p⁻¹ Σ_p C_p⁻¹) from the divergence.
                d_C = projected.T @ weighted
                scaled = inverse * np.sqrt(diagonal)
                d_C -= 0.5 * (inverse - scaled @ scaled.T)
                d_diagonals[p] = np.diagonal(d_C) - 0.5 * (np.diagonal(inverse) - 1 / diagonal)
                K_Z_sum += d_C
            return K_BZ_sum, K_Z_sum

        for K_BZ_sum, K_Z_sum in parallel_for(sum_gradients, len(diagonals), 1):
            d_K_BZ -= 2 * K_BZ_sum
            d_K_Z += K_Z_sum
        gradients = {
            "posterior.mean": covariances.K_BZ.T @ d_moments.mean - K_mean,
            "posterior.log_diagonal": self.log_diagonal_gradient(diagonals, d_diagonals),
        }
        return Covariances(d_K_BZ, d_K_Z, d_moments.variance.sum(axis=1)), gradients

    def precondition(self, tape: Tape, gradients: dict[str, NDArray[np.floating]]) -> dict[str, NDArray[np.floating]]:
        """Multiply the gradient with respect to each μ_p by C_p⁻¹; see `SharedDiagonal.precondition`."""
        pairs = zip(tape.prepared.factorised, gradients["posterior.mean"].T, strict=True)
        return gradients | {"posterior.mean": np.stack([C.inverse @ d_mean for C, d_mean in pairs], axis=1)}


def initial_mean(M: int, P: int, random: np.random.Generator, dtype: DTypeLike) -> NDArray[np.floating]:
    """Return small random means, M×P."""
    return random.normal(0, INITIAL_MEAN_STD, (M, P)).astype(dtype)


def sigma_diagonal(parameters: Parameters) -> NDArray[np.floating]:
    """Return the diagonal of Σ, M, or of each Σ_p, P×M: exp(log_diagonal) + `DIAGONAL_FLOOR`."""
    diagonal: NDArray[np.floating] = bounded_exp(parameters["posterior.log_diagonal"]) + DIAGONAL_FLOOR
    return diagonal
