"""Covariance functions: linear, squared exponential and their weighted sum, each with or without ARD, and noise."""

import numpy as np

from xmlgp.gp import inner_products
from xmlgp.gp.inner_products import Products
from xmlgp.gp.log_parameters import LIMIT, exponential, log_within_limit, within
from xmlgp.linear_algebra import elementary
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["NOISE_START", "NOISE_VARIANCE", "TERMS", "Kernel", "Linear", "Noise", "SquaredExponential"]

#: Exponentials that are worth a thread.
EXPONENTIALS = 1 << 16

#: Variance that noise starts from, beside a unit variance of the other terms.
NOISE_START = 0.01


class Linear:
    """The linear kernel k(x, x′) = σ² xᵀx′.

    Parameters: `log_variance`, log σ², a scalar.
    """

    name = "linear"
    hyperparameters = ("log_variance",)

    def between_inducing(self, inner, log_variance):
        """Return K_Z of the inner products, M×M, and the tape."""
        covariance = exponential(log_variance) * inner
        return covariance, covariance

    def with_points(self, inner, squares, norms, log_variance):
        """Return K_BZ and diag K_B of the inner products, B×M, and squared norms of points, B, and the tape.

        `norms` are the squared norms of the inducing inputs, M.
        """
        variance = exponential(log_variance)
        cross, points = variance * inner, variance * squares
        return cross, points, (variance, cross, points)

    def backward(self, tape, d, inner_needed=True):
        """Return the gradients of the inner products (`Products`, None if not needed) and of the hyperparameters."""
        inducing, (variance, cross, points) = tape
        covariances = Products(cross, inducing, points)
        d_log_variance = sum(np.vdot(*pair) for pair in zip(d, covariances, strict=True) if pair[0] is not None)
        gradients = {"log_variance": d_log_variance * within(variance)}
        return Products(*(variance * gradient for gradient in d)) if inner_needed else None, gradients


class SquaredExponential:
    """The squared exponential kernel k(x, x′) = σ² exp(−‖x − x′‖² / 2ℓ²).

    Parameters: `log_variance`, log σ², and `log_lengthscale`, log ℓ, scalars.
    """

    name = "se"
    hyperparameters = ("log_variance", "log_lengthscale")

    def between_inducing(self, inner, log_variance, log_lengthscale):
        """Return K_Z of the inner products, M×M, and the tape."""
        norms = np.diagonal(inner)
        precision = _precision(log_lengthscale)
        tape = _squared_exponential(inner, norms, norms, exponential(log_variance), precision)
        return tape[0], tape

    def with_points(self, inner, squares, norms, log_variance, log_lengthscale):
        """Return K_BZ and diag K_B, and the tape, as `Linear.with_points` does."""
        variance, precision = exponential(log_variance), _precision(log_lengthscale)
        cross, exponent = _squared_exponential(inner, squares, norms, variance, precision)
        points = np.full_like(squares, variance)
        return cross, points, (variance, precision, cross, exponent, points)

    def backward(self, tape, d, inner_needed=True):
        """Return the gradients of the inner products and of the hyperparameters, as `Linear.backward` does."""
        (inducing, exponent_inducing), (variance, precision, cross, exponent_cross, points) = tape
        if not inner_needed:
            sums = np.zeros(2)
            if d.cross is not None:
                sums += _sums(d.cross, cross, exponent_cross) + [np.vdot(d.points, points), 0]
            if d.inducing is not None:
                sums += _sums(d.inducing, inducing, exponent_inducing)
            # The exponent is −‖x−x′‖²/2ℓ²: its derivative by log ℓ is −2 times itself.
            return None, {
                "log_variance": sums[0] * within(variance),
                "log_lengthscale": -2 * sums[1] * within(precision),
            }
        d_cross = d.cross * cross
        d_inducing = d.inducing * inducing
        gradients = {
            "log_variance": (d_cross.sum() + d_inducing.sum() + np.vdot(d.points, points)) * within(variance),
            # The exponent is −‖x−x′‖²/2ℓ²: its derivative by log ℓ is −2 times itself.
            "log_lengthscale": (-2 * within(precision).astype(d_cross.dtype))
            * (np.vdot(d_cross, exponent_cross) + np.vdot(d_inducing, exponent_inducing)),
        }
        # The squared norms of the inducing inputs stand on the diagonal of their inner products.
        d_norms = -0.5 * (d_cross.sum(axis=0) + d_inducing.sum(axis=0) + d_inducing.sum(axis=1))
        d_points = -0.5 * precision * d_cross.sum(axis=1)
        d_inducing[np.diag_indices_from(d_inducing)] += d_norms
        d_cross *= precision
        d_inducing *= precision
        return Products(d_cross, d_inducing, d_points), gradients


class Noise:
    """Gaussian noise, k(x, x′) = ν² where x and x′ are the same point, and 0 elsewhere.

    Inducing variables have it as points do: they are values of the process with its noise.

    Parameters: `log_variance`, log ν², a scalar.
    """

    name = "noise"
    hyperparameters = ("log_variance",)

    def between_inducing(self, count, log_variance):
        """Return what is added to K_Z, M×M."""
        return np.diag(np.full(count, exponential(log_variance)))

    def with_points(self, count, log_variance):
        """Return what is added to diag K_B, B; nothing is added to K_BZ."""
        return np.full(count, exponential(log_variance))

    def backward(self, log_variance, d):
        """Return the gradients of the hyperparameters (mapping)."""
        variance = exponential(log_variance)
        total = 0 if d.points is None else d.points.sum()
        total += 0 if d.inducing is None else np.trace(d.inducing)
        return {"log_variance": total * variance * within(variance)}


def _precision(log_lengthscale):
    """Return 1/ℓ², within the limit."""
    return exponential(-2 * np.clip(log_lengthscale, -LIMIT, LIMIT))


def _squared_exponential(inner, left_norms, right_norms, variance, precision):
    """Return the covariances and their exponents."""
    covariance, exponent = np.empty_like(inner), np.empty_like(inner)
    scalars = (inner.dtype.type(variance), inner.dtype.type(precision))
    halves = 0.5 * left_norms, 0.5 * right_norms

    def part(start, stop):
        rows = slice(start, stop)
        _exponentials(inner[rows], halves[0][rows], halves[1], *scalars, covariance[rows], exponent[rows])

    parallel_for(part, len(inner), EXPONENTIALS // max(1, inner.shape[1]))
    return covariance, exponent


@compiled
def _exponentials(inner, left_halves, right_halves, variance, precision, covariance, exponent):
    zero = inner.dtype.type(0)
    for i in range(inner.shape[0]):
        for j in range(inner.shape[1]):
            x = (inner[i, j] - left_halves[i] - right_halves[j]) * precision
            # A squared distance below zero is rounding. What is no number stays so.
            x = zero if x > zero else x
            exponent[i, j] = x
            covariance[i, j] = variance * elementary.exponential(x) if x == x else x


def _sums(gradient, covariance, exponent):
    """Return Σ dK and Σ dK log K, of the gradient by a covariance and its exponent, in one walk over both."""
    found = []

    def part(start, stop):
        found.append((start, *_sums_of(gradient[start:stop], covariance[start:stop], exponent[start:stop])))

    parallel_for(part, len(covariance), EXPONENTIALS // max(1, covariance.shape[1]))
    # In an order that does not depend on which thread was faster.
    return np.sum(sorted(found), axis=0)[1:]


@compiled
def _sums_of(gradient, covariance, exponent):
    first, second = 0.0, 0.0
    for i in range(covariance.shape[0]):
        row_first, row_second = covariance.dtype.type(0), covariance.dtype.type(0)
        for j in range(covariance.shape[1]):
            product = gradient[i, j] * covariance[i, j]
            row_first += product
            row_second += product * exponent[i, j]
        first += row_first
        second += row_second
    return first, second


TERMS = {term.name: term for term in (Linear(), SquaredExponential())}

NOISE = Noise()

#: The name of its parameter.
NOISE_VARIANCE = "kernel.noise.log_variance"


class Kernel:
    """The weighted sum of one or two kernels over inner products, each with ARD of its own or without, and noise.

    The weights are the variances σ² of the terms. With ARD every term weighs the coordinates by
    exp(log_relevance): in the subspace one weight a basis dimension, for free Z one a feature ([L] section 5).
    Variances, 1/ℓ² and relevances are within the limit of `xmlgp.gp.log_parameters`.

    Parameters
    ----------
    terms : sequence of str
        Of "linear" and "se"; "noise" may follow them.
    ard : bool
        Automatic relevance determination.

    Notes
    -----
    Parameters are named `kernel.TERM.NAME` in the flat mapping, and the inducing inputs `inducing`.
    """

    def __init__(self, terms, ard):
        self.terms = [TERMS[name] for name in terms if name != NOISE.name]
        self.noise = NOISE.name in terms
        self.ard = ard

    def parameter_names(self):
        """Names of the hyperparameters in the flat mapping."""
        extra = ("log_relevance",) if self.ard else ()
        names = [f"kernel.{term.name}.{name}" for term in self.terms for name in term.hyperparameters + extra]
        return names + [f"kernel.{NOISE.name}.{name}" for name in NOISE.hyperparameters if self.noise]

    def initial(self, dimension, lengthscale, dtype):
        """Return hyperparameters to start from.

        Parameters
        ----------
        dimension : int
            R or D.
        lengthscale : float
            ℓ of a squared exponential term, in the units of the rows of X.
        dtype : dtype
            Of the arrays.

        Raises
        ------
        NumericalError
            For a lengthscale that is too small or too large for these.
        """
        log_lengthscale = log_within_limit(lengthscale, "the lengthscale", share=0.5)
        start = {"log_variance": 0.0, "log_lengthscale": log_lengthscale, "log_relevance": np.zeros(dimension)}
        # The terms of a sum share the unit variance.
        start["log_variance"] = -np.log(len(self.terms))
        parameters = {name: np.array(start[name.rpartition(".")[2]], dtype) for name in self.parameter_names()}
        if self.noise:
            parameters[NOISE_VARIANCE] = np.array(np.log(NOISE_START), dtype)
        return parameters

    def forward(self, parameters, points):
        """Return the covariances K_BZ, K_Z and diag K_B (`Products`) and the tape."""
        prior, between = self.between_inducing(parameters)
        cross, variances, tape = self.with_points(points, between)
        return Products(cross, prior, variances), tape

    def between_inducing(self, parameters):
        """Return K_Z, and what `with_points` needs of the parameters."""
        # Without ARD all terms see the same inner products.
        shared = None if self.ard else inner_products.between_inducing(parameters["inducing"])
        between, prior = [], None
        for term in self.terms:
            hyperparameters = [parameters[f"kernel.{term.name}.{name}"] for name in term.hyperparameters]
            if self.ard:
                relevance = parameters[f"kernel.{term.name}.log_relevance"]
                shared = inner_products.between_inducing(parameters["inducing"], relevance)
            inner, inducing = shared
            covariance, term_tape = term.between_inducing(inner, *hyperparameters)
            prior = covariance if prior is None else prior + covariance
            between.append((term, hyperparameters, inner, inducing, term_tape))
        noise = None
        if self.noise:
            noise = parameters[NOISE_VARIANCE]
            prior = prior + NOISE.between_inducing(len(prior), noise)
        return prior, (between, noise)

    def with_points(self, points, between):
        """Return K_BZ and diag K_B and the tape, given what `between_inducing` returned beside K_Z."""
        tape, total, inner_points = [], None, None
        between, noise = between
        for term, hyperparameters, inner, inducing, inducing_tape in between:
            if inner_points is None or self.ard:
                *inner_points, inner_tape = inner_products.with_points(points, inducing)
            *covariances, points_tape = term.with_points(*inner_points, np.diagonal(inner), *hyperparameters)
            total = covariances if total is None else list(map(np.add, total, covariances))
            tape.append((term, inner_tape, (inducing_tape, points_tape)))
        cross, variances = total
        if noise is not None:
            variances = variances + NOISE.with_points(len(variances), noise)
        return cross, variances, (tape, noise)

    def linear_map(self, parameters, weights):
        """Return T, R×P or D×P, with K_BZ times `weights`, M×P, equal to C T; None where the kernel is not linear."""
        if [term.name for term in self.terms] != [Linear.name]:
            return None
        relevance = parameters["kernel.linear.log_relevance"] if self.ard else None
        variance = exponential(parameters["kernel.linear.log_variance"])
        return inner_products.linear_map(parameters["inducing"], relevance, variance * weights)

    def backward(self, tape, d_covariances, inducing_needed=True):
        """Return the gradients by parameter name, those of the inducing inputs only if needed.

        If not, and without ARD, those of the covariances that are zero may be None, of points with that of K_BZ.
        """
        gradients, d_inner = {}, None
        tape, noise = tape
        inner_needed = inducing_needed or self.ard
        for term, inner_tape, term_tape in tape:
            d_term, d_hyperparameters = term.backward(term_tape, d_covariances, inner_needed)
            gradients |= {f"kernel.{term.name}.{name}": value for name, value in d_hyperparameters.items()}
            if self.ard:
                d_inducing, d_relevance = inner_products.backward(inner_tape, d_term, inducing_needed)
                gradients[f"kernel.{term.name}.log_relevance"] = d_relevance
                if inducing_needed:
                    earlier = gradients.get("inducing")
                    gradients["inducing"] = d_inducing if earlier is None else earlier + d_inducing
            elif inner_needed:
                d_inner = d_term if d_inner is None else Products(*map(np.add, d_inner, d_term))
        if noise is not None:
            gradients |= {
                f"kernel.{NOISE.name}.{name}": value for name, value in NOISE.backward(noise, d_covariances).items()
            }
        if not self.ard and inducing_needed:
            gradients["inducing"], _ = inner_products.backward(inner_tape, d_inner)
        return gradients
