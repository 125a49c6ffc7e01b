"""Covariance functions: linear, squared exponential, and their weighted sum with noise, with or without ARD.

Each term is a function of the inner products of `xmlgp.gp.inner_products`, with its hyperparameters, scalars. The
forward pass has two stages: the covariances of the inducing inputs alone, from which the posterior is prepared, then
those with a minibatch.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.features.inputs import Points
from xmlgp.gp import inner_products
from xmlgp.gp.inner_products import Covariances, ScaledInducing
from xmlgp.gp.parameters import LIMIT, Parameters, bounded_exp, checked_log, is_inside
from xmlgp.linear_algebra import dense, elementary
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["NOISE_START", "NOISE_VARIANCE", "Kernel"]

#: Least number of exponentials per thread.
GRAIN = 1 << 16

#: Initial variance of the noise, relative to a unit variance of the other terms.
NOISE_START = 0.01


class PointCovariances(NamedTuple):
    """K_BZ, B×M, and the prior variances of points, B; of the squared exponential kernel also the exponents of K_BZ."""

    K_BZ: NDArray[np.floating]
    K_diag: NDArray[np.floating]
    exponent: NDArray[np.floating] | None = None


class Linear:
    """The linear kernel k(x, x′) = σ² xᵀx′ for inducing inputs with the inner products `inner`, M×M."""

    name = "linear"
    hyperparameters = ("log_variance",)

    def __init__(self, inner: NDArray[np.floating], log_variance: NDArray[np.floating]) -> None:
        self._variance = bounded_exp(log_variance)
        self.K_Z = self._variance * inner

    def points(self, inner: NDArray[np.floating], norms: NDArray[np.floating]) -> PointCovariances:
        """Return the covariances of points, given inner products with inducing inputs, B×M, and squared norms, B."""
        return PointCovariances(self._variance * inner, self._variance * norms)

    def backward(
        self, points: PointCovariances, d_covariances: Covariances
    ) -> tuple[Covariances, dict[str, NDArray[np.floating]]]:
        """Return the gradients by the inner products and by the hyperparameters."""
        d_inner = Covariances(*(self._variance * gradient for gradient in d_covariances))
        return d_inner, self.hyperparameter_gradients(points, *d_covariances)

    def hyperparameter_gradients(
        self,
        points: PointCovariances,
        d_K_BZ: NDArray[np.floating] | None,
        d_K_Z: NDArray[np.floating] | None,
        d_K_diag: NDArray[np.floating] | None,
    ) -> dict[str, NDArray[np.floating]]:
        """Return the gradients by the hyperparameters; those by covariances that are zero may be None."""
        pairs = ((d_K_BZ, points.K_BZ), (d_K_Z, self.K_Z), (d_K_diag, points.K_diag))
        d_log_variance = sum(np.vdot(gradient, values) for gradient, values in pairs if gradient is not None)
        return {"log_variance": d_log_variance * is_inside(self._variance)}


class SquaredExponential:
    """The squared exponential kernel k(x, x′) = σ² exp(−‖x − x′‖² / 2ℓ²), as `Linear`."""

    name = "se"
    hyperparameters = ("log_variance", "log_lengthscale")

    def __init__(
        self, inner: NDArray[np.floating], log_variance: NDArray[np.floating], log_lengthscale: NDArray[np.floating]
    ) -> None:
        self._variance = bounded_exp(log_variance)
        # 1/ℓ² is inside the limits of `parameters` as well.
        self._precision = bounded_exp(-2 * np.clip(log_lengthscale, -LIMIT, LIMIT))
        self._norms = np.diagonal(inner)
        self.K_Z, self._exponent = self._covariance(inner, self._norms)

    def points(self, inner: NDArray[np.floating], norms: NDArray[np.floating]) -> PointCovariances:
        """Return the covariances of points; see `Linear.points`."""
        K_BZ, exponent = self._covariance(inner, norms)
        return PointCovariances(K_BZ, np.full_like(norms, self._variance), exponent)

    def _covariance(
        self, inner: NDArray[np.floating], norms: NDArray[np.floating]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return covariances with the inducing inputs and their exponents, given inner products and squared norms."""
        covariance = np.empty_like(inner)
        exponent = np.empty_like(inner)
        scalars = inner.dtype.type(self._variance), inner.dtype.type(self._precision)
        half_norms = 0.5 * norms
        inducing_half_norms = 0.5 * self._norms

        def fill(start: int, stop: int) -> None:
            rows = slice(start, stop)
            _fill_exponentials(
                inner[rows], half_norms[rows], inducing_half_norms, *scalars, covariance[rows], exponent[rows]
            )

        parallel_for(fill, len(inner), GRAIN // max(1, inner.shape[1]))
        return covariance, exponent

    def backward(
        self, points: PointCovariances, d_covariances: Covariances
    ) -> tuple[Covariances, dict[str, NDArray[np.floating]]]:
        """Return the gradients by the inner products and the hyperparameters.

        With the exponent e = −‖x − x′‖² / 2ℓ², ∂k/∂log σ² = k and ∂k/∂log ℓ = −2 k e.
        """
        d_exponent_BZ = d_covariances.K_BZ * points.K_BZ
        d_exponent_Z = d_covariances.K_Z * self.K_Z
        d_log_variance = d_exponent_BZ.sum() + d_exponent_Z.sum() + np.vdot(d_covariances.K_diag, points.K_diag)
        d_exponents = np.vdot(d_exponent_BZ, points.exponent) + np.vdot(d_exponent_Z, self._exponent)
        gradients = {
            "log_variance": d_log_variance * is_inside(self._variance),
            "log_lengthscale": (-2 * is_inside(self._precision).astype(d_exponent_BZ.dtype)) * d_exponents,
        }
        # The squared norms of the inducing inputs are the diagonal of their inner products.
        d_inducing_norms = -0.5 * (d_exponent_BZ.sum(axis=0) + d_exponent_Z.sum(axis=0) + d_exponent_Z.sum(axis=1))
        d_norms = -0.5 * self._precision * d_exponent_BZ.sum(axis=1)
        d_exponent_Z[np.diag_indices_from(d_exponent_Z)] += d_inducing_norms
        d_exponent_BZ *= self._precision
        d_exponent_Z *= self._precision
        return Covariances(d_exponent_BZ, d_exponent_Z, d_norms), gradients

    def hyperparameter_gradients(
        self,
        points: PointCovariances,
        d_K_BZ: NDArray[np.floating] | None,
        d_K_Z: NDArray[np.floating] | None,
        d_K_diag: NDArray[np.floating] | None,
    ) -> dict[str, NDArray[np.floating]]:
        """Return the gradients by the hyperparameters in one pass; see `Linear.hyperparameter_gradients`."""
        sums = np.zeros(2)
        if d_K_BZ is not None:
            sums += _gradient_sums(d_K_BZ, points.K_BZ, points.exponent)
        if d_K_diag is not None:
            sums[0] += np.vdot(d_K_diag, points.K_diag)
        if d_K_Z is not None:
            sums += _gradient_sums(d_K_Z, self.K_Z, self._exponent)
        d_log_lengthscale = -2 * sums[1] * is_inside(self._precision)
        return {"log_variance": sums[0] * is_inside(self._variance), "log_lengthscale": d_log_lengthscale}


@compiled
def _fill_exponentials(
    inner: NDArray[np.floating],
    left_half_norms: NDArray[np.floating],
    right_half_norms: NDArray[np.floating],
    variance: np.floating,
    precision: np.floating,
    covariance: NDArray[np.floating],
    exponent: NDArray[np.floating],
) -> None:
    zero = inner.dtype.type(0)
    for i in range(inner.shape[0]):
        for j in range(inner.shape[1]):
            x = (inner[i, j] - left_half_norms[i] - right_half_norms[j]) * precision
            # A squared distance below zero is a rounding error. NaN stays NaN.
            x = zero if x > zero else x
            exponent[i, j] = x
            covariance[i, j] = variance * elementary.exponential(x) if x == x else x


def _gradient_sums(
    gradient: NDArray[np.floating], covariance: NDArray[np.floating], exponent: NDArray[np.floating] | None
) -> NDArray[np.float64]:
    """Return Σ dK K and Σ dK K e, for the gradient dK with respect to covariances K with exponents e, in one pass."""
    arrays: tuple[Any, ...] = gradient, covariance, exponent

    def sums(start: int, stop: int) -> tuple[float, float]:
        return _sum_products(*(array[start:stop] for array in arrays))

    sums_of_rows = parallel_for(sums, len(covariance), GRAIN // max(1, covariance.shape[1]))
    total: NDArray[np.float64] = np.sum(sums_of_rows, axis=0)
    return total


@compiled
def _sum_products(
    gradient: NDArray[np.floating], covariance: NDArray[np.floating], exponent: NDArray[np.floating]
) -> tuple[float, float]:
    first = 0.0
    second = 0.0
    for i in range(covariance.shape[0]):
        row_first = covariance.dtype.type(0)
        row_second = covariance.dtype.type(0)
        for j in range(covariance.shape[1]):
            product = gradient[i, j] * covariance[i, j]
            row_first += product
            row_second += product * exponent[i, j]
        first += row_first
        second += row_second
    return first, second


#: The kernels that a sum may consist of, by name.
TERMS: dict[str, type[Linear] | type[SquaredExponential]] = {"linear": Linear, "se": SquaredExponential}

#: Name of the noise variance in the flat mapping of parameters.
NOISE_VARIANCE = "kernel.noise.log_variance"


class InducingTape(NamedTuple):
    """What `Kernel.forward_points` needs: each term with the inducing inputs for its inner products.

    The noise variance is None for a kernel without noise.
    """

    terms: list[tuple[Linear | SquaredExponential, ScaledInducing]]
    noise: NDArray[np.floating] | None


class PointsTape(NamedTuple):
    """What `Kernel.backward` needs: each term, its covariances of points and the tape of its inner products."""

    terms: list[tuple[Linear | SquaredExponential, PointCovariances, inner_products.Tape]]
    noise: NDArray[np.floating] | None


class Kernel:
    """The weighted sum of one or two kernels, each optionally with its own ARD, and optional white noise.

    The noise has k(x, x′) = ν² if x and x′ are the same point, otherwise 0. Inducing variables include it: they are
    values of the noisy process.

    The weights are the variances σ² of the terms. With ARD (automatic relevance determination) each term weights the
    coordinates by exp(log_relevance): one weight per basis dimension in the subspace, one per feature for free Z ([L]
    section 5). Variances, 1/ℓ² and relevances are limited by `xmlgp.gp.parameters`. The flat mapping of parameters
    has the hyperparameters as `kernel.TERM.NAME` and the inducing inputs as `inducing`. Terms are "linear", "se" or
    both; "noise" may follow.
    """

    def __init__(self, terms: Sequence[str], ard: bool) -> None:
        self.terms = [TERMS[name] for name in terms if name != "noise"]
        self.noise = "noise" in terms
        self.ard = ard

    def parameter_names(self) -> list[str]:
        """Return the names of the hyperparameters in the flat mapping."""
        extra = ("log_relevance",) if self.ard else ()
        names = [f"kernel.{term.name}.{name}" for term in self.terms for name in term.hyperparameters + extra]
        return [*names, NOISE_VARIANCE] if self.noise else names

    def initial(self, dimension: int, lengthscale: float, dtype: DTypeLike) -> dict[str, NDArray[np.floating]]:
        """Return initial hyperparameters by name, for inputs of R or D dimensions; the variances of terms sum to one.

        The lengthscale of a squared exponential term is in the units of the rows of X; one that is outside the limits
        raises NumericalError.
        """
        start = {
            "log_variance": -np.log(len(self.terms)),
            "log_lengthscale": checked_log(lengthscale, "the lengthscale", share=0.5),
            "log_relevance": np.zeros(dimension),
        }
        parameters = {name: np.array(start[name.rpartition(".")[2]], dtype) for name in self.parameter_names()}
        if self.noise:
            parameters[NOISE_VARIANCE] = np.array(np.log(NOISE_START), dtype)
        return parameters

    def forward_inducing(self, parameters: Parameters) -> tuple[NDArray[np.floating], InducingTape]:
        """Return K_Z, M×M, and the tape that `forward_points` needs."""
        terms: list[tuple[Linear | SquaredExponential, ScaledInducing]] = []
        for kind in self.terms:
            prefix = f"kernel.{kind.name}."
            relevance = parameters[f"{prefix}log_relevance"] if self.ard else None
            inner, scaled = inner_products.forward_inducing(parameters["inducing"], relevance)
            terms.append((kind(inner, *(parameters[prefix + name] for name in kind.hyperparameters)), scaled))
        K_Z = functools.reduce(np.add, [term.K_Z for term, _ in terms])
        if not self.noise:
            return K_Z, InducingTape(terms, None)
        noise = bounded_exp(parameters[NOISE_VARIANCE])
        return K_Z + np.diag(np.full(len(K_Z), noise)), InducingTape(terms, noise)

    def forward_points(
        self, points: Points, inducing_tape: InducingTape
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], PointsTape]:
        """Return K_BZ, B×M, diag K_B, B, and the tape of both stages, given the tape of `forward_inducing`."""
        terms = []
        for term, scaled in inducing_tape.terms:
            inner, norms, inner_tape = inner_products.forward_points(points, scaled)
            terms.append((term, term.points(inner, norms), inner_tape))
        K_BZ = functools.reduce(np.add, [covariances.K_BZ for _, covariances, _ in terms])
        K_diag = functools.reduce(np.add, [covariances.K_diag for _, covariances, _ in terms])
        if inducing_tape.noise is not None:
            K_diag = K_diag + inducing_tape.noise
        return K_BZ, K_diag, PointsTape(terms, inducing_tape.noise)

    def primal_weights(self, parameters: Parameters, dual_weights: NDArray[np.floating]) -> NDArray[np.floating] | None:
        """Return the weights W, R×P or D×P, for which K_BZ α = C W with α, M×P; None if the kernel is not linear."""
        if [term.name for term in self.terms] != [Linear.name]:
            return None
        variance = bounded_exp(parameters["kernel.linear.log_variance"])
        weights = dense.product(parameters["inducing"].T, variance * dual_weights)
        if self.ard:
            weights *= bounded_exp(parameters["kernel.linear.log_relevance"])[:, None]
        return weights

    def backward(
        self, tape: PointsTape, d_covariances: Covariances, inducing_needed: bool = True
    ) -> dict[str, NDArray[np.floating]]:
        """Return the gradients by parameter name, those by the inducing inputs only if needed."""
        if not (inducing_needed or self.ard):
            return self.hyperparameter_gradients(tape, *d_covariances)
        gradients = self._noise_gradient(tape, d_covariances.K_Z, d_covariances.K_diag)
        for term, covariances, inner_tape in tape.terms:
            d_inner, d_hyperparameters = term.backward(covariances, d_covariances)
            d_inputs = inner_products.backward(inner_tape, d_inner, inducing_needed)
            for name, gradient in (d_hyperparameters | d_inputs).items():
                if name != "inducing":
                    gradients[f"kernel.{term.name}.{name}"] = gradient
                else:
                    gradients[name] = gradients[name] + gradient if name in gradients else gradient
        return gradients

    def hyperparameter_gradients(
        self,
        tape: PointsTape,
        d_K_BZ: NDArray[np.floating] | None,
        d_K_Z: NDArray[np.floating] | None,
        d_K_diag: NDArray[np.floating] | None,
    ) -> dict[str, NDArray[np.floating]]:
        """Return the gradients of a kernel without ARD by the names of hyperparameters.

        Gradients by covariances that are zero may be None.
        """
        gradients = self._noise_gradient(tape, d_K_Z, d_K_diag)
        for term, covariances, _ in tape.terms:
            d_hyperparameters = term.hyperparameter_gradients(covariances, d_K_BZ, d_K_Z, d_K_diag)
            gradients |= {f"kernel.{term.name}.{name}": value for name, value in d_hyperparameters.items()}
        return gradients

    def _noise_gradient(
        self, tape: PointsTape, d_K_Z: NDArray[np.floating] | None, d_K_diag: NDArray[np.floating] | None
    ) -> dict[str, NDArray[np.floating]]:
        if tape.noise is None:
            return {}
        d_noise = 0 if d_K_diag is None else d_K_diag.sum()
        d_noise += 0 if d_K_Z is None else np.trace(d_K_Z)
        return {NOISE_VARIANCE: d_noise * tape.noise * is_inside(tape.noise)}
