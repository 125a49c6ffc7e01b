"""Covariance functions: linear, squared exponential and their weighted sum, each with or without ARD."""

import numpy as np

from xmlgp.gp import products
from xmlgp.gp.products import Products

__all__ = ["TERMS", "Kernel", "Linear", "SquaredExponential"]


class Linear:
    """The linear kernel k(x, x′) = σ² xᵀx′.

    Parameters: `log_variance`, log σ², a scalar.
    """

    name = "linear"
    hyperparameters = ("log_variance",)

    def forward(self, inner, log_variance):
        """Return the covariances (`Products`) of inner products and the tape."""
        variance = np.exp(log_variance)
        covariances = Products(*(variance * values for values in inner))
        return covariances, (variance, covariances)

    def backward(self, tape, d):
        """Return the gradients of the inner products (`Products`) and of the hyperparameters (mapping)."""
        variance, covariances = tape
        d_log_variance = sum(np.vdot(gradient, values) for gradient, values in zip(d, covariances, strict=True))
        return Products(*(variance * gradient for gradient in d)), {"log_variance": d_log_variance}


class SquaredExponential:
    """The squared exponential kernel k(x, x′) = σ² exp(−‖x − x′‖² / 2ℓ²).

    Parameters: `log_variance`, log σ², and `log_lengthscale`, log ℓ, scalars.
    """

    name = "se"
    hyperparameters = ("log_variance", "log_lengthscale")

    def forward(self, inner, log_variance, log_lengthscale):
        """Return the covariances (`Products`) of inner products and the tape."""
        variance = np.exp(log_variance)
        precision = np.exp(-2 * log_lengthscale)
        norms = np.diagonal(inner.inducing)
        cross, exponent_cross = _squared_exponential(inner.cross, inner.points, norms, variance, precision)
        inducing, exponent_inducing = _squared_exponential(inner.inducing, norms, norms, variance, precision)
        covariances = Products(cross, inducing, np.full_like(inner.points, variance))
        return covariances, (precision, covariances, exponent_cross, exponent_inducing)

    def backward(self, tape, d):
        """Return the gradients of the inner products (`Products`) and of the hyperparameters (mapping)."""
        precision, covariances, exponent_cross, exponent_inducing = tape
        d_cross = d.cross * covariances.cross
        d_inducing = d.inducing * covariances.inducing
        gradients = {
            "log_variance": d_cross.sum() + d_inducing.sum() + np.vdot(d.points, covariances.points),
            # The exponent is −‖x−x′‖²/2ℓ²: its derivative by log ℓ is −2 times itself.
            "log_lengthscale": -2 * (np.vdot(d_cross, exponent_cross) + np.vdot(d_inducing, exponent_inducing)),
        }
        # The squared norms of the inducing inputs stand on the diagonal of their inner products.
        d_norms = -0.5 * (d_cross.sum(axis=0) + d_inducing.sum(axis=0) + d_inducing.sum(axis=1))
        d_points = -0.5 * precision * d_cross.sum(axis=1)
        d_inducing[np.diag_indices_from(d_inducing)] += d_norms
        d_cross *= precision
        d_inducing *= precision
        return Products(d_cross, d_inducing, d_points), gradients


def _squared_exponential(inner, left_norms, right_norms, variance, precision):
    exponent = inner - 0.5 * left_norms[:, None]
    exponent -= 0.5 * right_norms
    exponent *= precision
    # A squared distance below zero is rounding.
    np.minimum(exponent, 0, out=exponent)
    return variance * np.exp(exponent), exponent


TERMS = {term.name: term for term in (Linear(), SquaredExponential())}


class Kernel:
    """The weighted sum of one or two kernels over inner products, each with ARD of its own or without.

    The weights are the variances σ² of the terms. With ARD every term weighs the coordinates by
    exp(log_relevance): in the subspace one weight a basis dimension, for free Z one a feature ([L] section 5).

    Parameters
    ----------
    terms : sequence of str
        Of "linear" and "se".
    ard : bool
        Automatic relevance determination.

    Notes
    -----
    Parameters are named `kernel.TERM.NAME` in the flat mapping, and the inducing inputs `inducing`.
    """

    def __init__(self, terms, ard):
        self.terms = [TERMS[name] for name in terms]
        self.ard = ard

    def parameter_names(self):
        """Names of the hyperparameters in the flat mapping."""
        extra = ("log_relevance",) if self.ard else ()
        return [f"kernel.{term.name}.{name}" for term in self.terms for name in term.hyperparameters + extra]

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
        """
        start = {"log_variance": 0.0, "log_lengthscale": np.log(lengthscale), "log_relevance": np.zeros(dimension)}
        # The terms of a sum share the unit variance.
        start["log_variance"] = -np.log(len(self.terms))
        return {name: np.array(start[name.rpartition(".")[2]], dtype) for name in self.parameter_names()}

    def forward(self, parameters, points):
        """Return the covariances K_BZ, K_Z and diag K_B (`Products`) and the tape."""
        total, tape, inner = None, [], None
        for term in self.terms:
            # Without ARD all terms see the same inner products.
            if inner is None or self.ard:
                relevance = parameters[f"kernel.{term.name}.log_relevance"] if self.ard else None
                inner, inner_tape = products.forward(points, parameters["inducing"], relevance)
            values = [parameters[f"kernel.{term.name}.{name}"] for name in term.hyperparameters]
            covariances, term_tape = term.forward(inner, *values)
            total = covariances if total is None else Products(*map(np.add, total, covariances))
            tape.append((term, inner_tape, term_tape))
        return total, tape

    def backward(self, tape, d_covariances, inducing_needed=True):
        """Return the gradients by parameter name, those of the inducing inputs only if needed."""
        gradients, d_inner = {}, None
        for term, inner_tape, term_tape in tape:
            d_term, d_hyperparameters = term.backward(term_tape, d_covariances)
            gradients |= {f"kernel.{term.name}.{name}": value for name, value in d_hyperparameters.items()}
            if self.ard:
                d_inducing, d_relevance = products.backward(inner_tape, d_term, inducing_needed)
                gradients[f"kernel.{term.name}.log_relevance"] = d_relevance
                if inducing_needed:
                    gradients["inducing"] = gradients.get("inducing", 0) + d_inducing
            else:
                d_inner = d_term if d_inner is None else Products(*map(np.add, d_inner, d_term))
        if not self.ard and inducing_needed:
            gradients["inducing"], _ = products.backward(inner_tape, d_inner)
        return gradients
