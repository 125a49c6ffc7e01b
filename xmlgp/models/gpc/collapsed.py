"""The collapsed bound of GPC: a quadratic approximation of the likelihood gives the optimal q(u) in closed form.

At each point log(1 + e^f) is replaced by a quadratic function with the same value and slope at the tangent point t:

    log(1 + e^f) ≈ log(1 + e^t) + σ(t)(f − t) + ½ λ(t)(f − t)².

With the curvature of Jaakkola and Jordan, λ(t) = (σ(t) − ½)/t, this is an upper bound, tight at ±t, and the result is a
lower bound on log p(y). With the curvature of the Taylor expansion, λ(t) = σ(t)σ(−t), it is an approximation. The code
is the same for both. Source: [I] section 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.features.inputs import Inputs
from xmlgp.gp.divergences import gauss_kl
from xmlgp.gp.expectations import JaakkolaJordan, Quadrature, Taylor
from xmlgp.gp.kernels import PointsTape
from xmlgp.linear_algebra.cholesky import add_jitter, factorise, inverse_lower, jitter_backward
from xmlgp.linear_algebra.dense import product
from xmlgp.models.gpc.model import KERNEL, POSTERIOR
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.errors import NumericalError
from xmlgp.runtime.threads import parallel_for, run_parallel

__all__ = ["CollapsedBound", "Optimum", "PointMoments", "optimal_tangent_points", "tangent_point_gradient"]

#: Covariances per block of points: enough for the full rate of BLAS, and few enough for the cache of a core.
BLOCK = 1 << 19

#: Least points per block.
LEAST = 512

#: Most points per block.
MOST = 8192

#: Most bytes of covariances that are kept between passes. With more, each pass computes them again.
CACHE_LIMIT = 1 << 30


class PointMoments(NamedTuple):
    """Moments of q(f_i) at the training points: the means m_i, and E f_i² = m_i² + s_i, both N."""

    mean: NDArray[np.float64]
    second_moment: NDArray[np.float64]


def optimal_tangent_points(moments: PointMoments) -> NDArray[np.float64]:
    """Return the tangent points ξ_i = √(m_i² + s_i) that maximise the bound of Jaakkola and Jordan ([I] (15))."""
    return np.sqrt(np.maximum(moments.second_moment, 0))


def tangent_point_gradient(
    tangent_points: NDArray[np.float64],
    moments: PointMoments,
    slope: NDArray[np.floating],
    curvature: NDArray[np.floating],
) -> NDArray[np.float64]:
    """Return the derivatives −½ λ′(ξ_i)(E f_i² − ξ_i²) of the bound of Jaakkola and Jordan by the tangent points.

    The moments are those of the optimal q(u) for ξ, whose own derivative vanishes; slope and curvature are σ(ξ) and
    λ(ξ).
    """
    # λ′(ξ) = (σ(ξ)σ(−ξ) − λ(ξ))/ξ, with the limit −ξ/24 at zero.
    small = np.abs(tangent_points) < 1e-4
    change = (slope * (1 - slope) - curvature) / np.where(small, 1, tangent_points)
    change = np.where(small, -tangent_points / 24, change)
    return -0.5 * change * (moments.second_moment - np.square(tangent_points))


class Sites(NamedTuple):
    """The quadratic approximation Σ_i log p(y_i | f_i) ≈ constant + Σ_i [c_i f_i − ½ λ_i f_i²]; c and λ are N."""

    linear: NDArray[np.floating]
    curvature: NDArray[np.floating]
    constant: float


class CollapsedBound:
    """The bound F as a function of the hyperparameters θ and the tangent points t, maximised over q(u).

    With c_i = y_i − σ(t_i) + λ_i t_i (y_i one or zero), Λ = diag(λ), B = K_Z + K_ZX Λ K_XZ and v = K_ZX c:

        F(θ, t) = −Σ_i [log(1 + e^{t_i}) − σ(t_i) t_i + ½ λ_i t_i²] + ½ vᵀ B⁻¹ v + ½ log|K_Z| − ½ log|B|
                  − ½ Σ_i λ_i (k(x_i, x_i) − k_iᵀ K_Z⁻¹ k_i).

    With the curvature of Jaakkola and Jordan this is [I] (14), with that of Taylor [I] (19), plus the terms that depend
    on t only. The derivatives of the expectations, `JaakkolaJordan` or `Taylor`, are σ(t) and ½ λ(t) for a variance of
    zero.
    """

    def __init__(self, coordinates: Inputs, positive: NDArray[np.bool_], expectations: JaakkolaJordan | Taylor) -> None:
        self._coordinates = coordinates
        self._positive = positive.astype(np.float64)
        self._expectations = expectations
        #: The last hyperparameters and their covariances.
        self._latest: tuple[list[float], BlockCovariances] | None = None

    def slope_and_curvature(
        self, tangent_points: NDArray[np.float64]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return σ(t) and λ(t), both N."""
        slope, half_curvature = self._expectations.gradients(tangent_points, np.zeros_like(tangent_points))
        return slope, 2 * half_curvature

    def optimum(self, parameters: Mapping[str, NDArray[np.float64]], tangent_points: NDArray[np.float64]) -> Optimum:
        """Return the `Optimum` for hyperparameters and tangent points, N.

        The inducing inputs must be the same in all calls. A covariance matrix that cannot be factorised and a bound
        that is not finite raise NumericalError.
        """
        slope, curvature = self.slope_and_curvature(tangent_points)
        values = self._expectations.expected_softplus(tangent_points, np.zeros_like(tangent_points))
        constant = -float(np.sum(values - slope * tangent_points + 0.5 * curvature * tangent_points**2))
        sites = Sites(self._positive - slope + curvature * tangent_points, curvature, constant)
        hyperparameters = [float(parameters[name]) for name in KERNEL.parameter_names()]
        if self._latest is None or self._latest[0] != hyperparameters:
            # Frees their memory before the next covariances are computed.
            self._latest = None
            self._latest = hyperparameters, BlockCovariances(parameters, self._coordinates)
        return Optimum(self._latest[1], sites)


class BlockCovariances:
    """The covariances of the training points and the inducing inputs in blocks of points, with K_Z = L Lᵀ, and L⁻¹."""

    def __init__(self, parameters: Mapping[str, NDArray[np.float64]], coordinates: Inputs) -> None:
        self._coordinates = coordinates
        K_Z, self._inducing_tape = KERNEL.forward_inducing(parameters)
        self.inverse_lower = inverse_lower(factorise(add_jitter(K_Z), "K_Z").factor)
        count = len(coordinates)
        M = len(K_Z)
        size = max(LEAST, min(MOST, BLOCK // max(1, M)))
        self.blocks = row_blocks(count, size)
        self._is_cached = 2 * count * M * K_Z.itemsize <= CACHE_LIMIT
        self._cache: dict[int, tuple[NDArray[np.floating], NDArray[np.floating], PointsTape]] = {}

    def block(self, number: int) -> tuple[NDArray[np.floating], NDArray[np.floating], PointsTape]:
        """Return K_BZ, diag K_B and the tape of the kernel for a block of points."""
        if number in self._cache:
            return self._cache[number]
        points = self._coordinates.rows(self.blocks[number])
        covariances = KERNEL.forward_points(points, self._inducing_tape)
        if self._is_cached:
            self._cache[number] = covariances
        return covariances

    def unwhiten(self, matrix: NDArray[np.float64]) -> NDArray[np.floating]:
        """Return L⁻ᵀ C L⁻¹ for a matrix C, M×M."""
        return product(product(self.inverse_lower.T, matrix), self.inverse_lower)


class Optimum:
    """The optimal q(u) for some sites, and the value F of the bound.

    With K_Z = L Lᵀ and A = L⁻¹ K_ZX Λ K_XZ L⁻ᵀ, B⁻¹ = L⁻ᵀ (I + A)⁻¹ L⁻¹ and q(u) = N(K_Z a, K_Z B⁻¹ K_Z), where
    a = B⁻¹ v. B itself is never factorised: its condition number is up to N times that of K_Z, which would lose digits
    of the bound. Source: [I] (12), (13).
    """

    def __init__(self, covariances: BlockCovariances, sites: Sites) -> None:
        self._covariances = covariances
        self._sites = sites
        inverse_lower = covariances.inverse_lower
        weighted_gram, weighted_sum, total_variance = self._sums(len(inverse_lower))
        self._explained = product(product(inverse_lower, weighted_gram), inverse_lower.T)
        self._explained += self._explained.T
        self._explained *= 0.5
        precision = self._explained.copy()
        precision[np.diag_indices_from(precision)] += 1
        # I + A.
        self._precision = factorise(precision, "the precision of q(u)")
        right = inverse_lower @ weighted_sum
        # (I + A)⁻¹ L⁻¹ v, the mean of L⁻¹ u; then a.
        self._mean = self._precision.inverse @ right
        self._weights = inverse_lower.T @ self._mean
        log_likelihood = sites.constant - 0.5 * (total_variance - np.trace(self._explained))
        self.value = float(log_likelihood + 0.5 * (right @ self._mean) - 0.5 * self._precision.log_determinant)
        if not np.isfinite(self.value):
            raise NumericalError("the bound is not finite")

    def _sums(self, M: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return K_ZX Λ K_XZ, K_ZX c and Σ_i λ_i k(x_i, x_i)."""

        def sums_of(first: int, last: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
            gram, vector, variance = np.zeros((M, M)), np.zeros(M), 0.0
            for number in range(first, last):
                K_BZ, K_diag, _ = self._covariances.block(number)
                rows = self._covariances.blocks[number]
                curvature = self._sites.curvature[rows]
                weighted = K_BZ * np.sqrt(curvature)[:, None]
                # NumPy recognises the symmetric product and computes half of it.
                gram += weighted.T @ weighted
                vector += self._sites.linear[rows] @ K_BZ
                variance += float(curvature @ K_diag)
            return gram, vector, variance

        grams, vectors, variances = zip(*parallel_for(sums_of, len(self._covariances.blocks), 1), strict=True)
        return np.add.reduce(grams), np.add.reduce(vectors), sum(variances)

    @cached_property
    def moments(self) -> PointMoments:
        """The moments of q(f_i)."""
        return self._visit_blocks(None)

    def _visit_blocks(
        self, visit: Callable[[int, slice, PointsTape, NDArray[np.floating]], None] | None
    ) -> PointMoments:
        """Return the moments of q(f_i).

        `visit(number, rows, tape, K_BZ_H)` is called for each block of points, with the tape of the kernel. H, M×M, is
        ½ (K_Z⁻¹ − B⁻¹ − a aᵀ): ∂F/∂K_XZ = 2 Λ K_XZ H + c aᵀ, and E f_i² = k(x_i, x_i) − 2 k_iᵀ H k_i.
        """
        inner = -self._precision.inverse - np.outer(self._mean, self._mean)
        inner[np.diag_indices_from(inner)] += 1
        matrix = self._covariances.unwhiten(0.5 * inner)
        count = len(self._sites.linear)
        moments = PointMoments(np.empty(count), np.empty(count))

        def fill(number: int, rows: slice) -> None:
            K_BZ, K_diag, tape = self._covariances.block(number)
            K_BZ_H = K_BZ @ matrix
            moments.mean[rows] = K_BZ @ self._weights
            moments.second_moment[rows] = K_diag - 2 * np.einsum("bm,bm->b", K_BZ, K_BZ_H)
            if visit:
                visit(number, rows, tape, K_BZ_H)

        run_parallel(partial(fill, number, rows) for number, rows in enumerate(self._covariances.blocks))
        return moments

    def gradients(self) -> dict[str, NDArray[np.floating]]:
        """Return the gradients of F with respect to θ, by parameter name; the `moments` come with them."""
        block_gradients: list[dict[str, NDArray[np.floating]]] = [{} for _ in self._covariances.blocks]

        def visit(number: int, rows: slice, tape: PointsTape, K_BZ_H: NDArray[np.floating]) -> None:
            linear = self._sites.linear[rows]
            curvature = self._sites.curvature[rows]
            K_BZ_H *= 2 * curvature[:, None]
            K_BZ_H += linear[:, None] * self._weights
            block_gradients[number] = KERNEL.hyperparameter_gradients(tape, K_BZ_H, None, -0.5 * curvature)

        self.moments = self._visit_blocks(visit)
        # ∂F/∂K_Z = ½ L⁻ᵀ [I − A − (I + A)⁻¹ − m mᵀ] L⁻¹, with m the mean of L⁻¹ u.
        inner = -self._explained - self._precision.inverse - np.outer(self._mean, self._mean)
        inner[np.diag_indices_from(inner)] += 1
        d_K_Z = self._covariances.unwhiten(0.5 * inner)
        jitter_backward(d_K_Z)
        _, _, tape = self._covariances.block(0)
        total = KERNEL.hyperparameter_gradients(tape, None, d_K_Z, None)
        return {name: total[name] + sum(block[name] for block in block_gradients) for name in total}

    def bound(self, positive: NDArray[np.bool_], expectations: JaakkolaJordan | Quadrature) -> float:
        """Return the uncollapsed bound Σ_i E log p(y_i | f_i) − KL[q(u) ‖ p(u)] for this q(u) ([I] (11)).

        With the expectations of Jaakkola and Jordan it is F for the optimal t. With quadrature it is comparable between
        inference methods.
        """
        mean, second_moment = self.moments
        variance = np.maximum(second_moment - np.square(mean), 0)
        expected = mean[positive].sum() - expectations.expected_softplus(mean, variance).sum()
        # The divergence of L⁻¹ u ~ N(m, (I + A)⁻¹) from its prior N(0, I).
        mahalanobis: np.floating = np.vdot(self._mean, self._mean)
        trace = np.trace(self._precision.inverse)
        return float(expected - gauss_kl(mahalanobis, trace, self._precision.log_determinant, len(self._mean)))

    def posterior(self) -> dict[str, NDArray[np.float64]]:
        """Return the parameters of q(u), named and shaped as those of `Cholesky`."""
        # (I + A)⁻¹ = T⁻ᵀ T⁻¹ with T Tᵀ = I + A. Forming the product would lose half of the digits.
        root = np.linalg.qr(inverse_lower(self._precision.factor), mode="r")
        factor = (root * np.sign(np.diagonal(root))[:, None]).T
        np.fill_diagonal(factor, np.log(np.diagonal(factor)))
        return dict(zip(POSTERIOR.parameter_names, (self._mean[:, None], np.tril(factor)[None]), strict=True))
