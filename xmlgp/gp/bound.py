"""The stochastic bound of MLGPF and its gradient: latent functions, then the likelihood, and both backwards."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import NumericalError
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inner_products import Points
from xmlgp.gp.likelihood import IndexedRows, SampledPairs, full_log_likelihood, sampled_log_likelihood
from xmlgp.linear_algebra.dense import all_finite

__all__ = ["Batch", "Bound", "LabelSample"]


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
        Inputs and residuals of the points.
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

    f_ik = Σ_p φ_kp h_p(x_i) + b_k. Sources: [S] (12), [L] (13).

    Parameters
    ----------
    latent : Inducing or WeightSpace
        The form of the latent functions h_p, perhaps with an earlier posterior q₀(u_p) in place of the prior p(u_p).
    expectations : Quadrature, JaakkolaJordan or Taylor, optional
        With Taylor, F is not a bound.
    fixed : collection of str
        Names of parameters that are not optimised, beside those that the latent functions keep.

    Attributes
    ----------
    latent : Inducing or WeightSpace
    expectations : object
    fixed : frozenset of str
    """

    def __init__(self, latent, expectations=None, fixed=()):
        self.latent = latent
        self.expectations = expectations or Quadrature()
        self.fixed = frozenset(fixed) | latent.fixed

    def value_and_gradients(self, parameters, batch, value_needed=True, for_step=False):
        """Return the unbiased estimate of the bound and its gradients by parameter name.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            Those of the latent functions, `loadings` (Φ, K×P) and `bias` (b, K).
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
        moments, kl, tape = self.latent.forward(parameters, batch.points, value_needed)
        log_likelihood, d_moments, gradients = self._log_likelihood(
            parameters, batch, moments, value_needed=value_needed, fast=for_step
        )

        # Backward.
        scale = float(batch.scale)
        gradients = {name: _multiply(gradient, scale) for name, gradient in gradients.items()}
        d_moments = type(d_moments)(*(scale * gradient for gradient in d_moments))
        gradients |= self.latent.backward(tape, d_moments, for_step)
        gradients = {name: gradient for name, gradient in gradients.items() if name not in self.fixed}
        _check_finite(gradients)
        if not value_needed:
            return None, gradients
        return scale * log_likelihood - float(kl), gradients

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


def _multiply(gradient, scale):
    """Multiply a gradient in place and return it."""
    values = gradient.values if isinstance(gradient, IndexedRows) else gradient
    values *= scale
    return gradient


def _check_finite(gradients):
    for name, gradient in gradients.items():
        if not all_finite(gradient.values if isinstance(gradient, IndexedRows) else gradient):
            raise NumericalError(f"the gradient of {name} is not finite")
