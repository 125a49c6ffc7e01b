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

from xmlgp.gp import inner_products
from xmlgp.gp.inner_products import Covariances, Points, ScaledInducing
from xmlgp.gp.log_parameters import LIMIT, bounded_exp, checked_log, is_inside
from xmlgp.gp.parameters import Parameters
from xmlgp.linear_algebra import dense, elementary
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["NOISE_START", "NOISE_VARIANCE", "Kernel"]

#: Least number of exponentials per thread.
GRAIN = 1 << 16

#: Initial variance of the noise, relative to a unit variance of the other terms.
NOISE_START = 0.01


class LinearInducing(NamedTuple):
    """The variance and K_Z."""

    variance: NDArray[np.floating]
    K_Z: NDArray[np.floating]


class LinearPoints(NamedTuple):
    """K_BZ and the prior variances of points, beside the tape of the inducing inputs."""

    inducing: LinearInducing
    K_BZ: NDArray[np.floating]
    K_diag: NDArray[np.floating]


class Linear:
    """The linear kernel k(x, x′) = σ² xᵀx′ with the hyperparameter log σ²."""

    name = "linear"
    hyperparameters = ("log_variance",)

    def forward_inducing(
        self, inner: NDArray[np.floating], log_variance: NDArray[np.floating]
    ) -> tuple[NDArray[np.floating], LinearInducing]:
        """Return K_Z and a tape, given the inner products of the inducing inputs."""
        variance = bounded_exp(log_variance)
        tape = LinearInducing(variance, variance * inner)
        return tape.K_Z, tape

    def forward_points(
        self, inner: NDArray[np.floating], norms: NDArray[np.floating], inducing: LinearInducing
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], LinearPoints]:
        """Return K_BZ, diag K_B and a tape, given inner products, B×M, squared norms, B, and the earlier tape."""
        tape = LinearPoints(inducing, inducing.variance * inner, inducing.variance * norms)
        return tape.K_BZ, tape.K_diag, tape

    def backward(
        self, tape: LinearPoints, d_covariances: Covariances
    ) -> tuple[Covariances, dict[str, NDArray[np.floating]]]:
        """Return the gradients by the inner products and by the hyperparameters."""
        d_inner = Covariances(*(tape.inducing.variance * gradient for gradient in d_covariances))
        return d_inner, self.hyperparameter_gradients(tape, *d_covariances)

    def hyperparameter_gradients(
        self,
        tape: LinearPoints,
        d_K_BZ: NDArray[np.floating] | None,
        d_K_Z: NDArray[np.floating] | None,
        d_K_diag: NDArray[np.floating] | None,
    ) -> dict[str, NDArray[np.floating]]:
        """Return the gradients by the hyperparameters; those by covariances that are zero may be None."""
        (variance, K_Z), K_BZ, K_diag = tape
        pairs = ((d_K_BZ, K_BZ), (d_K_Z, K_Z), (d_K_diag, K_diag))
        d_log_variance = sum(np.vdot(gradient, values) for gradient, values in pairs if gradient is not None)
        return {"log_variance": d_log_variance * is_inside(variance)}


class Exponentials(NamedTuple):
    """Covariances of the squared exponential kernel and their exponents."""

    covariance: NDArray[np.floating]
    exponent: NDArray[np.floating]


class SquaredExponentialInducing(NamedTuple):
    """The variance, 1/ℓ², the squared norms of inducing inputs, and K_Z with its exponents."""

    variance: NDArray[np.floating]
    precision: NDArray[np.floating]
    norms: NDArray[np.floating]
    K_Z: Exponentials


class SquaredExponentialPoints(NamedTuple):
    """K_BZ with its exponents, and the prior variances of points, beside the tape of the inducing inputs."""

    inducing: SquaredExponentialInducing
    K_BZ: Exponentials
    K_diag: NDArray[np.floating]


class SquaredExponential:
    """The squared exponential kernel k(x, x′) = σ² exp(−‖x − x′‖² / 2ℓ²) with log σ² and log ℓ."""

    name = "se"
    hyperparameters = ("log_variance", "log_lengthscale")

    def forward_inducing(
        self, inner: NDArray[np.floating], log_variance: NDArray[np.floating], log_lengthscale: NDArray[np.floating]
    ) -> tuple[NDArray[np.floating], SquaredExponentialInducing]:
        """Return K_Z and a tape; see `Linear.forward_inducing`."""
        variance = bounded_exp(log_variance)
        # 1/ℓ² is inside the limits of `log_parameters` as well.
        precision = bounded_exp(-2 * np.clip(log_lengthscale, -LIMIT, LIMIT))
        norms = np.diagonal(inner)
        K_Z = _squared_exponential(inner, norms, norms, variance, precision)
        return K_Z.covariance, SquaredExponentialInducing(variance, precision, norms, K_Z)

    def forward_points(
        self, inner: NDArray[np.floating], norms: NDArray[np.floating], inducing: SquaredExponentialInducing
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], SquaredExponentialPoints]:
        """Return K_BZ, diag K_B and a tape; see `Linear.forward_points`."""
        K_BZ = _squared_exponential(inner, norms, inducing.norms, inducing.variance, inducing.precision)
        K_diag = np.full_like(norms, inducing.variance)
        return K_BZ.covariance, K_diag, SquaredExponentialPoints(inducing, K_BZ, K_diag)

    def backward(
        self, tape: SquaredExponentialPoints, d_covariances: Covariances
    ) -> tuple[Covariances, dict[str, NDArray[np.floating]]]:
        """Return the gradients by the inner products and the hyperparameters.

        With the exponent e = −‖x − x′‖² / 2ℓ², ∂k/∂log σ² = k and ∂k/∂log ℓ = −2 k e.
        """
        (variance, precision, _, K_Z), K_BZ, K_diag = tape
        d_exponent_BZ = d_covariances.K_BZ * K_BZ.covariance
        d_exponent_Z = d_covariances.K_Z * K_Z.covariance
        d_log_variance = d_exponent_BZ.sum() + d_exponent_Z.sum() + np.vdot(d_covariances.K_diag, K_diag)
        d_exponents = np.vdot(d_exponent_BZ, K_BZ.exponent) + np.vdot(d_exponent_Z, K_Z.exponent)
        gradients = {
            "log_variance": d_log_variance * is_inside(variance),
            "log_lengthscale": (-2 * is_inside(precision).astype(d_exponent_BZ.dtype)) * d_exponents,
        }
        # The squared norms of the inducing inputs are the diagonal of their inner products.
        d_inducing_norms = -0.5 * (d_exponent_BZ.sum(axis=0) + d_exponent_Z.sum(axis=0) + d_exponent_Z.sum(axis=1))
        d_norms = -0.5 * precision * d_exponent_BZ.sum(axis=1)
        d_exponent_Z[np.diag_indices_from(d_exponent_Z)] += d_inducing_norms
        d_exponent_BZ *= precision
        d_exponent_Z *= precision
        return Covariances(d_exponent_BZ, d_exponent_Z, d_norms), gradients

    def hyperparameter_gradients(
        self,
        tape: SquaredExponentialPoints,
        d_K_BZ: NDArray[np.floating] | None,
        d_K_Z: NDArray[np.floating] | None,
        d_K_diag: NDArray[np.floating] | None,
    ) -> dict[str, NDArray[np.floating]]:
        """Return the gradients by the hyperparameters in one pass; see `Linear.hyperparameter_gradients`."""
        (variance, precision, _, K_Z), K_BZ, K_diag = tape
        sums = np.zeros(2)
        if d_K_BZ is not None:
            sums += _gradient_sums(d_K_BZ, K_BZ)
        if d_K_diag is not None:
            sums[0] += np.vdot(d_K_diag, K_diag)
        if d_K_Z is not None:
            sums += _gradient_sums(d_K_Z, K_Z)
        d_log_lengthscale = -2 * sums[1] * is_inside(precision)
        return {"log_variance": sums[0] * is_inside(variance), "log_lengthscale": d_log_lengthscale}


def _squared_exponential(
    inner: NDArray[np.floating],
    left_norms: NDArray[np.floating],
    right_norms: NDArray[np.floating],
    variance: NDArray[np.floating],
    precision: NDArray[np.floating],
) -> Exponentials:
    covariance = np.empty_like(inner)
    exponent = np.empty_like(inner)
    scalars = (inner.dtype.type(variance), inner.dtype.type(precision))
    left_half_norms = 0.5 * left_norms
    right_half_norms = 0.5 * right_norms

    def fill(start: int, stop: int) -> None:
        rows = slice(start, stop)
        _fill_exponentials(
            inner[rows], left_half_norms[rows], right_half_norms, *scalars, covariance[rows], exponent[rows]
        )

    parallel_for(fill, len(inner), GRAIN // max(1, inner.shape[1]))
    return Exponentials(covariance, exponent)


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


def _gradient_sums(gradient: NDArray[np.floating], exponentials: Exponentials) -> NDArray[np.float64]:
    """Return Σ dK K and Σ dK K e, for the gradient dK with respect to covariances K with exponents e, in one pass."""
    covariance, exponent = exponentials

    def sums(start: int, stop: int) -> tuple[float, float]:
        rows = slice(start, stop)
        return _sum_products(gradient[rows], covariance[rows], exponent[rows])

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
TERMS: dict[str, Linear | SquaredExponential] = {"linear": Linear(), "se": SquaredExponential()}

#: Name of the noise variance in the flat mapping of parameters.
NOISE_VARIANCE = "kernel.noise.log_variance"


class InducingTerm(NamedTuple):
    """A term of a `Kernel`, the inducing inputs for its inner products, and its tape."""

    term: Linear | SquaredExponential
    scaled: ScaledInducing
    tape: Any


class InducingTape(NamedTuple):
    """What `Kernel.forward_points` needs; the noise variance is None for a kernel without noise."""

    terms: list[InducingTerm]
    noise: NDArray[np.floating] | None


class PointsTerm(NamedTuple):
    """A term of a `Kernel`, and the tapes of its inner products and of the term."""

    term: Linear | SquaredExponential
    inner_tape: inner_products.Tape
    tape: Any


class PointsTape(NamedTuple):
    """What `Kernel.backward` needs."""

    terms: list[PointsTerm]
    noise: NDArray[np.floating] | None


class Kernel:
    """The weighted sum of one or two kernels, each optionally with its own ARD, and optional white noise.

    The noise has k(x, x′) = ν² if x and x′ are the same point, otherwise 0. Inducing variables include it: they are
    values of the noisy process.

    The weights are the variances σ² of the terms. With ARD (automatic relevance determination) each term weights the
    coordinates by exp(log_relevance): one weight per basis dimension in the subspace, one per feature for free Z ([L]
    section 5). Variances, 1/ℓ² and relevances are limited by `xmlgp.gp.log_parameters`. The flat mapping of parameters
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
        terms: list[InducingTerm] = []
        covariances = []
        for term in self.terms:
            hyperparameters = [parameters[f"kernel.{term.name}.{name}"] for name in term.hyperparameters]
            # Without ARD all terms have the same inner products.
            if self.ard or not terms:
                relevance = parameters[f"kernel.{term.name}.log_relevance"] if self.ard else None
                inner, scaled = inner_products.forward_inducing(parameters["inducing"], relevance)
            covariance, tape = term.forward_inducing(inner, *hyperparameters)
            covariances.append(covariance)
            terms.append(InducingTerm(term, scaled, tape))
        K_Z = functools.reduce(np.add, covariances)
        if not self.noise:
            return K_Z, InducingTape(terms, None)
        noise = bounded_exp(parameters[NOISE_VARIANCE])
        return K_Z + np.diag(np.full(len(K_Z), noise)), InducingTape(terms, noise)

    def forward_points(
        self, points: Points, inducing_tape: InducingTape
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], PointsTape]:
        """Return K_BZ, B×M, diag K_B, B, and the tape of both stages, given the tape of `forward_inducing`."""
        terms: list[PointsTerm] = []
        cross = []
        diagonals = []
        for term, scaled, term_tape in inducing_tape.terms:
            if self.ard or not terms:
                inner, norms, inner_tape = inner_products.forward_points(points, scaled)
            K_BZ, K_diag, tape = term.forward_points(inner, norms, term_tape)
            cross.append(K_BZ)
            diagonals.append(K_diag)
            terms.append(PointsTerm(term, inner_tape, tape))
        K_diag = functools.reduce(np.add, diagonals)
        if inducing_tape.noise is not None:
            K_diag = K_diag + inducing_tape.noise
        return functools.reduce(np.add, cross), K_diag, PointsTape(terms, inducing_tape.noise)

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
        gradients: dict[str, NDArray[np.floating]] = {}
        d_inner = None
        for term, inner_tape, term_tape in tape.terms:
            d_term, d_hyperparameters = term.backward(term_tape, d_covariances)
            gradients |= {f"kernel.{term.name}.{name}": value for name, value in d_hyperparameters.items()}
            if self.ard:
                d_inputs = inner_products.backward(inner_tape, d_term, inducing_needed)
                gradients[f"kernel.{term.name}.log_relevance"] = d_inputs["log_relevance"]
                if inducing_needed:
                    d_inducing = d_inputs["inducing"]
                    earlier = gradients.get("inducing")
                    gradients["inducing"] = d_inducing if earlier is None else earlier + d_inducing
            else:
                d_inner = d_term if d_inner is None else Covariances(*map(np.add, d_inner, d_term))
        gradients |= self._noise_gradient(tape, d_covariances.K_Z, d_covariances.K_diag)
        return gradients if d_inner is None else gradients | inner_products.backward(inner_tape, d_inner)

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
        gradients: dict[str, NDArray[np.floating]] = {}
        for term, _, term_tape in tape.terms:
            d_hyperparameters = term.hyperparameter_gradients(term_tape, d_K_BZ, d_K_Z, d_K_diag)
            gradients |= {f"kernel.{term.name}.{name}": value for name, value in d_hyperparameters.items()}
        return gradients | self._noise_gradient(tape, d_K_Z, d_K_diag)

    def _noise_gradient(
        self, tape: PointsTape, d_K_Z: NDArray[np.floating] | None, d_K_diag: NDArray[np.floating] | None
    ) -> dict[str, NDArray[np.floating]]:
        if tape.noise is None:
            return {}
        d_noise = 0 if d_K_diag is None else d_K_diag.sum()
        d_noise += 0 if d_K_Z is None else np.trace(d_K_Z)
        return {NOISE_VARIANCE: d_noise * tape.noise * is_inside(tape.noise)}
