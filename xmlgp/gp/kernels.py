"""Covariance functions: linear, squared exponential, and their weighted sum with noise, with or without ARD.

Each term is a function of the inner products of `xmlgp.gp.inner_products`, with its hyperparameters, scalars. The
forward pass has two stages: the covariances of the inducing inputs alone, from which the posterior is prepared, then
those with a minibatch.
"""

import numpy as np

from xmlgp.gp import inner_products
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.log_parameters import LIMIT, bounded_exp, checked_log, is_inside
from xmlgp.linear_algebra import dense, elementary
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["NOISE_START", "NOISE_VARIANCE", "Kernel"]

#: Least number of exponentials per thread.
GRAIN = 1 << 16

#: Initial variance of the noise, relative to a unit variance of the other terms.
NOISE_START = 0.01


class Linear:
    """The linear kernel k(x, x′) = σ² xᵀx′ with the hyperparameter log σ²."""

    name = "linear"
    hyperparameters = ("log_variance",)

    def forward_inducing(self, inner, log_variance):
        """Return K_Z and a tape, given the inner products of the inducing inputs."""
        K_Z = bounded_exp(log_variance) * inner
        return K_Z, K_Z

    def forward_points(self, inner, norms, inducing_norms, log_variance):
        """Return K_BZ, diag K_B and a tape, given inner products, B×M, and the squared norms of points and of Z."""
        variance = bounded_exp(log_variance)
        K_BZ = variance * inner
        K_diag = variance * norms
        return K_BZ, K_diag, (variance, K_BZ, K_diag)

    def backward(self, tape, d_covariances, inner_needed=True):
        """Return the gradients by the inner products (`Covariances`) and by the hyperparameters (dict).

        The tape is those of `forward_inducing` and `forward_points`. If not `inner_needed`, the first result is None,
        and gradients by covariances that are zero may be None.
        """
        K_Z, (variance, K_BZ, K_diag) = tape
        pairs = zip(d_covariances, Covariances(K_BZ, K_Z, K_diag), strict=True)
        d_log_variance = sum(np.vdot(gradient, values) for gradient, values in pairs if gradient is not None)
        gradients = {"log_variance": d_log_variance * is_inside(variance)}
        d_inner = Covariances(*(variance * gradient for gradient in d_covariances)) if inner_needed else None
        return d_inner, gradients


class SquaredExponential:
    """The squared exponential kernel k(x, x′) = σ² exp(−‖x − x′‖² / 2ℓ²) with log σ² and log ℓ."""

    name = "se"
    hyperparameters = ("log_variance", "log_lengthscale")

    def forward_inducing(self, inner, log_variance, log_lengthscale):
        """Return K_Z and a tape; see `Linear.forward_inducing`."""
        norms = np.diagonal(inner)
        precision = _inverse_squared_lengthscale(log_lengthscale)
        tape = _squared_exponential(inner, norms, norms, bounded_exp(log_variance), precision)
        return tape[0], tape

    def forward_points(self, inner, norms, inducing_norms, log_variance, log_lengthscale):
        """Return K_BZ, diag K_B and a tape; see `Linear.forward_points`."""
        variance = bounded_exp(log_variance)
        precision = _inverse_squared_lengthscale(log_lengthscale)
        K_BZ, exponent = _squared_exponential(inner, norms, inducing_norms, variance, precision)
        K_diag = np.full_like(norms, variance)
        return K_BZ, K_diag, (variance, precision, K_BZ, exponent, K_diag)

    def backward(self, tape, d_covariances, inner_needed=True):
        """Return the gradients by the inner products and the hyperparameters; see `Linear.backward`.

        With the exponent e = −‖x − x′‖² / 2ℓ², ∂k/∂log σ² = k and ∂k/∂log ℓ = −2 k e.
        """
        (K_Z, exponent_Z), (variance, precision, K_BZ, exponent_BZ, K_diag) = tape
        if not inner_needed:
            sums = np.zeros(2)
            if d_covariances.K_BZ is not None:
                sums += _gradient_sums(d_covariances.K_BZ, K_BZ, exponent_BZ)
                sums += [np.vdot(d_covariances.K_diag, K_diag), 0]
            if d_covariances.K_Z is not None:
                sums += _gradient_sums(d_covariances.K_Z, K_Z, exponent_Z)
            d_log_lengthscale = -2 * sums[1] * is_inside(precision)
            return None, {"log_variance": sums[0] * is_inside(variance), "log_lengthscale": d_log_lengthscale}
        d_exponent_BZ = d_covariances.K_BZ * K_BZ
        d_exponent_Z = d_covariances.K_Z * K_Z
        d_log_variance = d_exponent_BZ.sum() + d_exponent_Z.sum() + np.vdot(d_covariances.K_diag, K_diag)
        d_exponents = np.vdot(d_exponent_BZ, exponent_BZ) + np.vdot(d_exponent_Z, exponent_Z)
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


def _inverse_squared_lengthscale(log_lengthscale):
    """Return 1/ℓ², inside the limits of `log_parameters`."""
    return bounded_exp(-2 * np.clip(log_lengthscale, -LIMIT, LIMIT))


def _squared_exponential(inner, left_norms, right_norms, variance, precision):
    """Return the covariances and their exponents."""
    covariance = np.empty_like(inner)
    exponent = np.empty_like(inner)
    scalars = (inner.dtype.type(variance), inner.dtype.type(precision))
    half_norms = 0.5 * left_norms, 0.5 * right_norms

    def fill(start, stop):
        rows = slice(start, stop)
        _fill_exponentials(inner[rows], half_norms[0][rows], half_norms[1], *scalars, covariance[rows], exponent[rows])

    parallel_for(fill, len(inner), GRAIN // max(1, inner.shape[1]))
    return covariance, exponent


@compiled
def _fill_exponentials(inner, left_half_norms, right_half_norms, variance, precision, covariance, exponent):
    zero = inner.dtype.type(0)
    for i in range(inner.shape[0]):
        for j in range(inner.shape[1]):
            x = (inner[i, j] - left_half_norms[i] - right_half_norms[j]) * precision
            # A squared distance below zero is a rounding error. NaN stays NaN.
            x = zero if x > zero else x
            exponent[i, j] = x
            covariance[i, j] = variance * elementary.exponential(x) if x == x else x


def _gradient_sums(gradient, covariance, exponent):
    """Return Σ dK K and Σ dK K e, for the gradient dK with respect to covariances K with exponents e, in one pass."""

    def sums(start, stop):
        rows = slice(start, stop)
        return _sum_products(gradient[rows], covariance[rows], exponent[rows])

    return np.sum(parallel_for(sums, len(covariance), GRAIN // max(1, covariance.shape[1])), axis=0)


@compiled
def _sum_products(gradient, covariance, exponent):
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
TERMS = {term.name: term for term in (Linear(), SquaredExponential())}

#: Name of the noise variance in the flat mapping of parameters.
NOISE_VARIANCE = "kernel.noise.log_variance"


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

    def __init__(self, terms, ard):
        self.terms = [TERMS[name] for name in terms if name != "noise"]
        self.noise = "noise" in terms
        self.ard = ard

    def parameter_names(self):
        """Return the names of the hyperparameters in the flat mapping."""
        extra = ("log_relevance",) if self.ard else ()
        names = [f"kernel.{term.name}.{name}" for term in self.terms for name in term.hyperparameters + extra]
        return names + [NOISE_VARIANCE] * self.noise

    def initial(self, dimension, lengthscale, dtype):
        """Return initial hyperparameters by name, for inputs of R or D dimensions; the variances of terms sum to one.

        The lengthscale of a squared exponential term is in the units of the rows of X; one that is outside the limits
        raises NumericalError.
        """
        log_lengthscale = checked_log(lengthscale, "the lengthscale", share=0.5)
        start = {"log_variance": 0.0, "log_lengthscale": log_lengthscale, "log_relevance": np.zeros(dimension)}
        start["log_variance"] = -np.log(len(self.terms))
        parameters = {name: np.array(start[name.rpartition(".")[2]], dtype) for name in self.parameter_names()}
        if self.noise:
            parameters[NOISE_VARIANCE] = np.array(np.log(NOISE_START), dtype)
        return parameters

    def forward_inducing(self, parameters):
        """Return K_Z, M×M, and the tape that `forward_points` needs."""
        # Without ARD all terms have the same inner products.
        shared = None if self.ard else inner_products.forward_inducing(parameters["inducing"])
        term_tapes = []
        K_Z = None
        for term in self.terms:
            hyperparameters = [parameters[f"kernel.{term.name}.{name}"] for name in term.hyperparameters]
            if self.ard:
                relevance = parameters[f"kernel.{term.name}.log_relevance"]
                shared = inner_products.forward_inducing(parameters["inducing"], relevance)
            inner, scaled = shared
            covariance, term_tape = term.forward_inducing(inner, *hyperparameters)
            K_Z = covariance if K_Z is None else K_Z + covariance
            term_tapes.append((term, hyperparameters, inner, scaled, term_tape))
        noise = None
        if self.noise:
            noise = bounded_exp(parameters[NOISE_VARIANCE])
            K_Z = K_Z + np.diag(np.full(len(K_Z), noise))
        return K_Z, (term_tapes, noise)

    def forward_points(self, points, inducing_tape):
        """Return K_BZ, B×M, diag K_B, B, and the tape of both stages, given the tape of `forward_inducing`."""
        term_tapes, noise = inducing_tape
        tape = []
        total = None
        inner = None
        for term, hyperparameters, inner_Z, scaled, term_tape in term_tapes:
            if inner is None or self.ard:
                *inner, inner_tape = inner_products.forward_points(points, scaled)
            *covariances, points_tape = term.forward_points(*inner, np.diagonal(inner_Z), *hyperparameters)
            total = covariances if total is None else list(map(np.add, total, covariances))
            tape.append((term, inner_tape, (term_tape, points_tape)))
        K_BZ, K_diag = total
        if noise is not None:
            K_diag = K_diag + noise
        return K_BZ, K_diag, (tape, noise)

    def primal_weights(self, parameters, dual_weights):
        """Return the weights W, R×P or D×P, for which K_BZ α = C W with α, M×P; None if the kernel is not linear."""
        if [term.name for term in self.terms] != [Linear.name]:
            return None
        variance = bounded_exp(parameters["kernel.linear.log_variance"])
        weights = dense.product(parameters["inducing"].T, variance * dual_weights)
        if self.ard:
            weights *= bounded_exp(parameters["kernel.linear.log_relevance"])[:, None]
        return weights

    def backward(self, tape, d_covariances, inducing_needed=True):
        """Return the gradients by parameter name, those by the inducing inputs only if needed.

        If not, and without ARD, gradients by covariances that are zero may be None: `K_Z`, or `K_BZ` with `K_diag`.
        """
        gradients = {}
        d_inner = None
        (tape, noise) = tape
        inner_needed = inducing_needed or self.ard
        for term, inner_tape, term_tape in tape:
            d_term, d_hyperparameters = term.backward(term_tape, d_covariances, inner_needed)
            gradients |= {f"kernel.{term.name}.{name}": value for name, value in d_hyperparameters.items()}
            if self.ard:
                d_inducing, d_relevance = inner_products.backward(inner_tape, d_term, inducing_needed)
                gradients[f"kernel.{term.name}.log_relevance"] = d_relevance
                if inducing_needed:
                    others = gradients.get("inducing")
                    gradients["inducing"] = d_inducing if others is None else others + d_inducing
            elif inner_needed:
                d_inner = d_term if d_inner is None else Covariances(*map(np.add, d_inner, d_term))
        if noise is not None:
            d_noise = 0 if d_covariances.K_diag is None else d_covariances.K_diag.sum()
            d_noise += 0 if d_covariances.K_Z is None else np.trace(d_covariances.K_Z)
            gradients[NOISE_VARIANCE] = d_noise * noise * is_inside(noise)
        if not self.ard and inducing_needed:
            gradients["inducing"], _ = inner_products.backward(inner_tape, d_inner)
        return gradients
