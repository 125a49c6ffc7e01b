"""The stochastic bound of MLGPF and its gradient: calls of the components, forwards and then backwards."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import NumericalError
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inner_products import Covariances, Points
from xmlgp.gp.likelihood import IndexedRows, SampledPairs, full_log_likelihood, sampled_log_likelihood
from xmlgp.gp.posteriors.earlier import EARLIER
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.runtime.threads import start_task

__all__ = ["Batch", "Bound", "LabelSample", "LearningBound", "WeightSpaceBound"]


class LabelSample(NamedTuple):
    """Labels that all points of a minibatch share: those of its points, and sampled ones.

    Attributes
    ----------
    labels : ndarray of int, L
        In ascending order.
    weights : ndarray, L
        The weight of each label where it is a negative: 1 / its probability of being used.
    """

    labels: np.ndarray
    weights: np.ndarray


class Batch(NamedTuple):
    """A minibatch.

    Attributes
    ----------
    points : Points
        Coordinates and residuals of the points.
    labels : csr_array, B×K
        Their positives.
    pairs : SampledPairs or None
        Positives and sampled negatives; None for all negatives.
    scale : float
        N / |B|.
    sample : LabelSample or None
        The labels that are used; None for all.
    """

    points: Points
    labels: sp.csr_array
    pairs: SampledPairs | None
    scale: float
    sample: LabelSample | None = None


class Bound:
    """The lower bound F = N/|B| Σ_{i∈B} Σ_k E log σ(y_ik f_ik) − Σ_p KL[q(u_p) ‖ p(u_p)] on log p(Y).

    Source: [S] (20) and (23), [L] (11).

    Parameters
    ----------
    kernel : Kernel
    posterior : SharedDiagonal, Diagonal or Cholesky
    fixed : collection of str
        Names of parameters that are not optimised.
    expectations : Quadrature, JaakkolaJordan or Taylor, optional
        Computes E log σ(yf); quadrature by default. With Taylor F is an approximation, not a bound.
    """

    def __init__(self, kernel, posterior, fixed=(), expectations=None):
        self.kernel = kernel
        self.posterior = posterior
        self.fixed = frozenset(fixed)
        self.expectations = expectations or Quadrature()

    def value_and_gradients(self, parameters, batch, value_needed=True, for_step=False):
        """Return the unbiased estimate of the bound and its gradients by parameter name.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            `inducing`, `kernel.*`, `posterior.*`, `loadings` (Φ, K×P) and `bias` (b, K).
        batch : Batch
        value_needed : bool
            Without the value, which is None then, the computation is faster.
        for_step : bool
            Return the values for a training step: preconditioned directions in place of some gradients, and
            expectations that are only as precise as a step needs.

        Returns
        -------
        value : float or None
        gradients : dict of str to ndarray or IndexedRows
            By every parameter that is not fixed. With sampled negatives those by Φ and b are `IndexedRows`. Quadrature
            approximates the expectations and their derivatives separately. With enough nodes for the variances, the
            latter are the derivatives of the former; with few nodes and large variances, they are closer to the
            derivatives of the exact bound.

        Raises
        ------
        NumericalError
            If a covariance matrix cannot be factorised, or a gradient is not finite.
        """
        # Forward.
        moments, kl, tape = self._forward_latent(parameters, batch, value_needed)
        log_likelihood, d_moments, gradients = self._log_likelihood(
            parameters, batch, moments, value_needed=value_needed, fast=for_step
        )

        # Backward.
        scale = float(batch.scale)
        gradients = {name: _multiply(gradient, scale) for name, gradient in gradients.items()}
        d_moments = type(d_moments)(*(scale * gradient for gradient in d_moments))
        gradients |= self._backward_latent(tape, d_moments, for_step)
        gradients = {name: gradient for name, gradient in gradients.items() if name not in self.fixed}
        _check_finite(gradients)
        if not value_needed:
            return None, gradients
        return scale * log_likelihood - float(kl), gradients

    def _forward_latent(self, parameters, batch, value_needed):
        """Return the moments of the latent functions, their KL divergence if it is needed, and a tape."""
        K_Z, inducing_tape = self.kernel.forward_inducing(parameters)
        prepared = self._start_preparing(parameters, K_Z)
        K_BZ, K_diag, kernel_tape = self.kernel.forward_points(batch.points, inducing_tape)
        covariances = Covariances(K_BZ, K_Z, K_diag)
        moments, kl, posterior_tape = self.posterior.forward(parameters, covariances, prepared())
        return moments, kl, (kernel_tape, posterior_tape)

    def _backward_latent(self, tape, d_moments, for_step):
        """Return the gradients with respect to the parameters of the latent functions."""
        kernel_tape, posterior_tape = tape
        d_covariances, d_posterior = self.posterior.backward(posterior_tape, d_moments, d_kl=-1)
        if for_step:
            d_posterior = self.posterior.precondition(posterior_tape, d_posterior)
        return d_posterior | self.kernel.backward(
            kernel_tape, d_covariances, inducing_needed="inducing" not in self.fixed
        )

    def _start_preparing(self, parameters, K_Z):
        """Return a function that returns the prepared posterior, or None if `forward` is to prepare it.

        The factorisation of K_Z uses one core; meanwhile the others multiply points and inducing inputs.
        """
        if self.posterior.prepare_is_parallel:
            return lambda: None
        return start_task(lambda: self.posterior.prepare(parameters, K_Z))

    def _log_likelihood(self, parameters, batch, moments, **options):
        """Return the expected log likelihood and its gradients with respect to the moments, Φ and b."""
        loadings, bias = parameters["loadings"], parameters["bias"]
        if batch.sample is not None:
            return self._log_likelihood_of_sample(loadings, bias, batch, moments, **options)
        if batch.pairs is None:
            return full_log_likelihood(moments, loadings, bias, batch.labels, self.expectations, **options)
        return sampled_log_likelihood(moments, loadings, bias, batch.pairs, self.expectations, **options)

    def _log_likelihood_of_sample(self, loadings, bias, batch, moments, **options):
        """Return what `full_log_likelihood` does, estimated from the labels of a sample."""
        used, weights = batch.sample
        columns = np.searchsorted(used, batch.labels.indices)
        shape = batch.labels.shape[0], len(used)
        labels = sp.csr_array((batch.labels.data, columns, batch.labels.indptr), shape=shape)
        value, d_moments, gradients = full_log_likelihood(
            moments, loadings[used], bias[used], labels, self.expectations, negative_weights=weights, **options
        )
        return value, d_moments, {name: IndexedRows(used, gradient) for name, gradient in gradients.items()}


class LearningBound(Bound):
    """The bound of points that a model learns on with, where an earlier posterior q₀(u) is the prior.

    Only q(u) and Φ move: F = N/|B| Σ_{i∈B} Σ_k E log σ(y_ik f_ik) − Σ_p KL[q(u_p) ‖ q₀(u_p)].

    Parameters
    ----------
    kernel : Kernel
    posterior : SharedDiagonal, Diagonal or Cholesky
    parameters : mapping of str to ndarray
        `inducing`, `kernel.*` and `posterior.*` of q₀.
    expectations : Quadrature, JaakkolaJordan or Taylor
        As for `Bound`.
    """

    def __init__(self, kernel, posterior, parameters, expectations):
        own = {*posterior.parameter_names, "loadings"}
        super().__init__(kernel, posterior, {"bias", *parameters} - own, expectations)
        K_Z, self._between = kernel.forward_inducing(parameters)
        self._K_Z = K_Z
        self._earlier = EARLIER[type(posterior)](posterior, parameters, K_Z)

    def _forward_latent(self, parameters, batch, value_needed):
        K_BZ, K_diag, _ = self.kernel.forward_points(batch.points, self._between)
        moments, kl, tape = self.posterior.forward(parameters, Covariances(K_BZ, self._K_Z, K_diag))
        value, gradients = self._earlier.expectation(tape)
        return moments, kl - value, (tape, gradients)

    def _backward_latent(self, tape, d_moments, for_step):
        tape, gradients = tape
        _, own = self.posterior.backward(tape, d_moments, d_kl=-1)
        own = {name: gradient + gradients[name] for name, gradient in own.items()}
        return self.posterior.precondition(tape, own) if for_step else own


class WeightSpaceBound(Bound):
    """The bound F with latent functions in weight space, whose divergence is Σ_p KL[q(t_p) ‖ p(t_p)].

    Parameters
    ----------
    latent : WeightSpace
    expectations : Quadrature, JaakkolaJordan or Taylor, optional
        As for `Bound`.
    fixed : collection of str
        Names of parameters that are not optimised.
    """

    def __init__(self, latent, expectations=None, fixed=()):
        self.latent = latent
        self.fixed = frozenset(fixed)
        self.expectations = expectations or Quadrature()

    def _forward_latent(self, parameters, batch, value_needed):
        return self.latent.forward(parameters, batch.points.coordinates, value_needed)

    def _backward_latent(self, tape, d_moments, for_step):
        return self.latent.backward(tape, d_moments, d_kl=-1)


def _multiply(gradient, scale):
    """Multiply a gradient in place and return it."""
    values = gradient.values if isinstance(gradient, IndexedRows) else gradient
    values *= scale
    return gradient


def _check_finite(gradients):
    for name, gradient in gradients.items():
        if not all_finite(gradient.values if isinstance(gradient, IndexedRows) else gradient):
            raise NumericalError(f"the gradient of {name} is not finite")
