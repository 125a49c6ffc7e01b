"""The bound of GPC with the logistic likelihood made quadratic, so that the best q(u) has a closed form.

At each point a quadratic function stands in for log(1 + e^f) that touches it at t:

    log(1 + e^f) ≈ log(1 + e^t) + σ(t)(f − t) + ½ λ(t)(f − t)².

With the curvature of Jaakkola and Jordan, λ(t) = (σ(t) − ½)/t, it is nowhere below, touches at −t as well, and the
bound stays one; with Taylor's, λ(t) = σ(t)σ(−t), it is an approximation. All else is the same for both.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs

from xmlgp.errors import NumericalError
from xmlgp.gp.divergences import gauss_kl
from xmlgp.gp.inner_products import Covariances, Points
from xmlgp.gp.posteriors.cholesky import add_jitter, jitter_backward
from xmlgp.linear_algebra.cholesky import factorise
from xmlgp.linear_algebra.dense import product
from xmlgp.runtime.threads import core_count, run_parallel

__all__ = ["Collapsed", "Moments", "Optimum", "gradient_of_touching", "tightest"]

#: Covariances of a block of points and the inducing inputs: enough for BLAS's full rate, and a core's cache has them.
BLOCK = 1 << 19

#: Least and most points of a block.
LEAST, MOST = 512, 8192

#: Bytes up to which the covariances of all points and inducing inputs are kept; beyond they are computed once more
#: where they are needed again.
KEPT = 1 << 30


class Moments(NamedTuple):
    """Moments of q(f_i) at the training points.

    Attributes
    ----------
    mean : ndarray, N
        m_i.
    square : ndarray, N
        E f_i² = m_i² + s_i.
    """

    mean: np.ndarray
    square: np.ndarray


def tightest(moments):
    """Return where the functions of Jaakkola and Jordan touch if the bound is best: ξ_i = √(m_i² + s_i) ([I] (15)).

    Parameters
    ----------
    moments : Moments
    """
    return np.sqrt(np.maximum(moments.square, 0))


def gradient_of_touching(touching, moments, slope, curvature):
    """Return the derivatives of the bound of Jaakkola and Jordan by ξ_i: −½ λ′(ξ_i)(E f_i² − ξ_i²).

    Parameters
    ----------
    touching : ndarray, N
        ξ.
    moments : Moments
        Of the best q(u) at ξ, whose own change does not matter.
    slope, curvature : ndarray, N
        σ(ξ) and λ(ξ).
    """
    # λ′(ξ) = (σ(ξ)σ(−ξ) − λ(ξ))/ξ, which is nearly −ξ/24 at zero.
    small = np.abs(touching) < 1e-4
    change = (slope * (1 - slope) - curvature) / np.where(small, 1, touching)
    change = np.where(small, -touching / 24, change)
    return -0.5 * change * (moments.square - np.square(touching))


class Sites(NamedTuple):
    """The quadratic functions: Σ_i log p(y_i | f_i) ≈ constant + Σ_i [c_i f_i − ½ λ_i f_i²].

    Attributes
    ----------
    linear, curvature : ndarray, N
        c and λ.
    constant : float
    """

    linear: np.ndarray
    curvature: np.ndarray
    constant: float


class Collapsed:
    """The bound as a function of hyperparameters θ and the points t where the quadratic functions touch.

    With c_i = y_i − σ(t_i) + λ_i t_i (y_i one or zero), Λ = diag(λ), B = K_Z + K_ZX Λ K_XZ and v = K_ZX c:

        F(θ, t) = −Σ_i [log(1 + e^{t_i}) − σ(t_i) t_i + ½ λ_i t_i²] + ½ vᵀ B⁻¹ v + ½ log|K_Z| − ½ log|B|
                  − ½ Σ_i λ_i (k(x_i, x_i) − k_iᵀ K_Z⁻¹ k_i).

    With Jaakkola and Jordan's curvature this is [I] (14), with Taylor's [I] (19), each with the terms in t alone.

    Parameters
    ----------
    model : GPC
    coordinates : Coordinates
        Of the N training points, in double precision.
    positive : ndarray of bool, N
        Whether y_i is one.
    expectations
        Of `xmlgp.gp.expectations`: their derivatives at a variance of zero give σ(t) and λ(t).
    """

    def __init__(self, model, coordinates, positive, expectations):
        self.model = model
        self._coordinates, self._positive = coordinates, positive.astype(np.float64)
        self._expectations = expectations
        #: Hyperparameters that were asked for last, and the covariances there.
        self._theta, self._covariances = None, None

    def touch(self, touching):
        """Return σ(t) and λ(t), both N."""
        slope, half_curvature = self._expectations.gradients(touching, np.zeros_like(touching))
        return slope, 2 * half_curvature

    def at(self, parameters, touching):
        """Return the `Optimum` for given hyperparameters and t.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            `inducing`, always the same, and `kernel.*`.
        touching : ndarray, N
            t.

        Raises
        ------
        NumericalError
            Where a covariance matrix cannot be factorised, or the bound is not finite.
        """
        slope, curvature = self.touch(touching)
        values = self._expectations.expected_softplus(touching, np.zeros_like(touching))
        constant = -float(np.sum(values - slope * touching + 0.5 * curvature * touching**2))
        sites = Sites(self._positive - slope + curvature * touching, curvature, constant)
        theta = [float(parameters[name]) for name in self.model.kernel.parameter_names()]
        if theta != self._theta:
            self._theta, self._covariances = None, None
            self._covariances = BlockCovariances(self.model.kernel, parameters, self._coordinates)
            self._theta = theta
        return Optimum(self._covariances, sites)


class BlockCovariances:
    """Covariances of the training points and the inducing inputs, in blocks of points, and the factorised K_Z.

    Parameters
    ----------
    kernel : Kernel
    parameters : mapping of str to ndarray
    coordinates : Coordinates

    Attributes
    ----------
    lower, inverse_lower : ndarray, M×M
        L, with L Lᵀ = K_Z, and L⁻¹.
    """

    def __init__(self, kernel, parameters, coordinates):
        self.kernel, self._coordinates = kernel, coordinates
        prior, self._between = kernel.forward_inducing(parameters)
        self.lower = factorise(add_jitter(prior), "K_Z").factor
        self.inverse_lower = get_lapack_funcs("trtri", (self.lower,))(self.lower, lower=1)[0]
        count, M = len(coordinates), len(prior)
        size = max(LEAST, min(MOST, BLOCK // max(1, M)))
        self.blocks = [slice(start, min(start + size, count)) for start in range(0, count, size)]
        self._kept = [None] * len(self.blocks) if 2 * count * M * prior.itemsize <= KEPT else None

    def of_block(self, number):
        """Return K_BZ, diag K_B and the tape of the kernel of a block."""
        if self._kept is not None and self._kept[number] is not None:
            return self._kept[number]
        points = Points(*self._coordinates.rows(self.blocks[number]))
        found = self.kernel.forward_points(points, self._between)
        if self._kept is not None:
            self._kept[number] = found
        return found

    def for_blocks(self, task):
        """Call `task(number, rows, core)` for all blocks, each core's in their order, on all cores at once."""

        def of_core(core):
            for number in range(core, len(self.blocks), core_count()):
                task(number, self.blocks[number], core)

        run_parallel(partial(of_core, core) for core in range(core_count()))

    def unwhiten(self, inner):
        """Return L⁻ᵀ times a matrix, M×M, times L⁻¹."""
        return product(product(self.inverse_lower.T, inner), self.inverse_lower)


class Optimum:
    """The best q(u) for quadratic functions that are given, and the value of the bound there.

    With K_Z = L Lᵀ and A = L⁻¹ K_ZX Λ K_XZ L⁻ᵀ, B⁻¹ = L⁻ᵀ (I + A)⁻¹ L⁻¹ and q(u) = N(K_Z a, K_Z B⁻¹ K_Z) with
    a = B⁻¹ v. Nothing is solved with B itself, whose condition is up to N times that of K_Z: digits of the bound would
    be lost. Source: [I] (12), (13).

    Parameters
    ----------
    covariances : BlockCovariances
    sites : Sites

    Attributes
    ----------
    value : float
        F.
    """

    def __init__(self, covariances, sites):
        self._covariances, self._sites = covariances, sites
        inverse_lower = covariances.inverse_lower
        products, weighted, total_variance = self._sums(len(inverse_lower))
        self._explained = product(product(inverse_lower, products), inverse_lower.T)
        self._explained += self._explained.T
        self._explained *= 0.5
        precision = self._explained.copy()
        precision[np.diag_indices_from(precision)] += 1
        #: I + A.
        self._precision = factorise(precision, "the precision of q(u)")
        right = inverse_lower @ weighted
        #: (I + A)⁻¹ L⁻¹ v, the mean of L⁻¹ u; and a.
        self._mean = self._precision.inverse @ right
        self._weights = inverse_lower.T @ self._mean
        log_likelihood = sites.constant - 0.5 * (total_variance - np.trace(self._explained))
        self.value = float(log_likelihood + 0.5 * (right @ self._mean) - 0.5 * self._precision.log_determinant)
        if not np.isfinite(self.value):
            raise NumericalError("the bound is not finite")

    def _sums(self, M):
        """Return K_ZX Λ K_XZ, K_ZX c and Σ_i λ_i k(x_i, x_i)."""
        sums = [[np.zeros((M, M)), np.zeros(M), 0.0] for _ in range(core_count())]

        def add(number, rows, core):
            cross, variances, _ = self._covariances.of_block(number)
            linear, curvature = self._sites.linear[rows], self._sites.curvature[rows]
            weighted = cross * np.sqrt(curvature)[:, None]
            # NumPy sees that both are the same and computes half.
            sums[core][0] += weighted.T @ weighted
            sums[core][1] += linear @ cross
            sums[core][2] += float(curvature @ variances)

        self._covariances.for_blocks(add)
        return [sum(parts) for parts in zip(*sums, strict=True)]

    def moments(self):
        """Return the `Moments` of q(f_i)."""
        found, matrix = self._no_moments(), self._matrix()

        def fill(number, rows, core):
            cross, variances, _ = self._covariances.of_block(number)
            self._fill(found, rows, cross, variances, cross @ matrix)

        self._covariances.for_blocks(fill)
        return found

    def gradients(self):
        """Return the gradients of F by θ, as mapping of names, and the `Moments` of q(f_i)."""
        found, matrix = self._no_moments(), self._matrix()
        kernel, of_blocks = self._covariances.kernel, [None] * len(self._covariances.blocks)

        def fill(number, rows, core):
            cross, variances, tape = self._covariances.of_block(number)
            d_cross = cross @ matrix
            self._fill(found, rows, cross, variances, d_cross)
            linear, curvature = self._sites.linear[rows], self._sites.curvature[rows]
            d_cross *= 2 * curvature[:, None]
            d_cross += linear[:, None] * self._weights
            d_covariances = Covariances(d_cross, None, -0.5 * curvature)
            of_blocks[number] = kernel.backward(tape, d_covariances, inducing_needed=False)

        self._covariances.for_blocks(fill)
        # ∂F/∂K_Z = ½ L⁻ᵀ [I − A − (I + A)⁻¹ − m mᵀ] L⁻¹, with m the mean of L⁻¹ u.
        inner = -self._explained - self._precision.inverse - np.outer(self._mean, self._mean)
        inner[np.diag_indices_from(inner)] += 1
        d_prior = self._covariances.unwhiten(0.5 * inner)
        jitter_backward(d_prior)
        _, _, tape = self._covariances.of_block(0)
        total = kernel.backward(tape, Covariances(None, d_prior, None), inducing_needed=False)
        return {name: total[name] + sum(part[name] for part in of_blocks) for name in total}, found

    def bound(self, moments, positive, expectations):
        """Return the bound of section 1 for this q(u), Σ_i E log p(y_i | f_i) − KL[q(u) ‖ p(u)] ([I] (11)).

        With Jaakkola and Jordan's expectations it is F for the best t; by quadrature it is what all kinds of inference
        can be compared by.

        Parameters
        ----------
        moments : Moments
            Of q(f_i).
        positive : ndarray of bool, N
        expectations
            Of `xmlgp.gp.expectations`.
        """
        variance = np.maximum(moments.square - np.square(moments.mean), 0)
        expected = moments.mean[positive].sum() - expectations.expected_softplus(moments.mean, variance).sum()
        # Of L⁻¹ u, whose prior is N(0, I).
        trace, log_determinant = np.trace(self._precision.inverse), self._precision.log_determinant
        return float(expected - gauss_kl(self._mean @ self._mean, trace, log_determinant, len(self._mean)))

    def posterior(self):
        """Return the parameters of q(u) as `Cholesky` has them."""
        # K_Z B⁻¹ K_Z = Vᵀ V with V = T⁻¹ Lᵀ and T Tᵀ = I + A; a product would lose half of the digits.
        lower = self._covariances.lower
        solve = get_lapack_funcs("trtrs", (lower,))
        root = np.linalg.qr(solve(self._precision.factor, lower.T, lower=1)[0], mode="r")
        factor = (root * np.sign(np.diagonal(root))[:, None]).T
        np.fill_diagonal(factor, np.log(np.diagonal(factor)))
        return {"posterior.mean": (lower @ self._mean)[:, None], "posterior.factor": np.tril(factor)[None]}

    def _matrix(self):
        """Return H, M×M, with ∂F/∂K_XZ = 2 Λ K_XZ H + c aᵀ, and E f_i² = k(x_i, x_i) − 2 k_iᵀ H k_i.

        H = ½ (K_Z⁻¹ − B⁻¹ − a aᵀ).
        """
        inner = -self._precision.inverse - np.outer(self._mean, self._mean)
        inner[np.diag_indices_from(inner)] += 1
        return self._covariances.unwhiten(0.5 * inner)

    def _no_moments(self):
        return Moments(*(np.empty(len(self._sites.linear)) for _ in range(2)))

    def _fill(self, moments, rows, cross, variances, multiplied):
        moments.mean[rows] = cross @ self._weights
        moments.square[rows] = variances - 2 * np.einsum("bm,bm->b", cross, multiplied)
