"""The stochastic bound of MLGPF and its gradient: latent functions, then the likelihood, and both backwards."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from xmlgp.errors import NumericalError
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inner_products import Points
from xmlgp.gp.likelihood import IndexedRows, SampledPairs, full_log_likelihood, sampled_log_likelihood
from xmlgp.linear_algebra.dense import all_finite

__all__ = ["Batch", "Bound", "LabelSample", "log_absent"]


class LabelSample(NamedTuple):
    """Labels that all points of a minibatch share, L, ascending: those of its points, and sampled ones.

    The weight of a label, where it is a negative, is 1 / its probability of being used.
    """

    labels: np.ndarray
    weights: np.ndarray


class Batch(NamedTuple):
    """A minibatch: its points, their positives, B×K, and the scale N/B.

    `pairs` are positives and sampled negatives, `sample` is the labels that are used; None for all.
    """

    points: Points
    labels: sp.csr_array
    pairs: SampledPairs | None
    scale: float
    sample: LabelSample | None = None


def log_absent(count, special, size):
    """Return the log probability that a sample of B of N elements without replacement has no special one, elementwise.

    With n special elements it is log [C(N − n, B) / C(N, B)], and −∞ if no such sample exists.
    """
    rest = count - special - size
    log_ratio = gammaln(count - special + 1) - gammaln(np.maximum(rest, 0) + 1) - gammaln(count + 1)
    return np.where(rest >= 0, log_ratio + gammaln(count - size + 1), -np.inf)


class Bound:
    """The lower bound F = N/|B| Σ_{i∈B} Σ_k E log σ(y_ik f_ik) − Σ_p KL[q(u_p) ‖ p(u_p)] on log p(Y).

    f_ik = Σ_p φ_kp h_p(x_i) + b_k. The form of the latent functions h_p, `Inducing` or `WeightSpace`, may have an
    earlier posterior q₀(u_p) in place of the prior p(u_p). The expectations are by `Quadrature` unless others are
    given; by `Taylor`, F is not a bound. Parameters named `fixed` and those that the latent functions keep have no
    gradients.
    Sources: [S] (12), [L] (13).
    """

    def __init__(self, latent, expectations=None, fixed=()):
        self.latent = latent
        self.expectations = expectations or Quadrature()
        self.fixed = frozenset(fixed) | latent.fixed

    def value_and_gradients(self, parameters, batch, value_needed=True, for_step=False):
        """Return the unbiased estimate of the bound, and its gradients by every parameter name that is not fixed.

        Parameters are those of the latent functions, `loadings` (Φ, K×P) and `bias` (b, K). If not all negatives are
        used, the gradients by Φ and b are `IndexedRows`. Without `value_needed` the value is None, which is faster. For
        a training step there are preconditioned directions in place of some gradients, and expectations are only as
        precise as a step needs. A covariance matrix that cannot be factorised and a gradient that is not finite raise
        NumericalError.

        Quadrature approximates the expectations and their derivatives separately. With enough nodes for the variances,
        the latter are the derivatives of the former; with few nodes and large variances, they are closer to the
        derivatives of the exact bound.
        """
        # Forward.
        moments, kl, tape = self.latent.forward(parameters, batch.points, value_needed)
        log_likelihood, d_moments, gradients = self._log_likelihood(
            parameters, batch, moments, value_needed=value_needed, fast=for_step
        )

        # Backward.
        scale = float(batch.scale)
        for gradient in gradients.values():
            np.multiply(_values(gradient), scale, out=_values(gradient))
        d_moments = type(d_moments)(*(scale * gradient for gradient in d_moments))
        gradients |= self.latent.backward(tape, d_moments, for_step)
        gradients = {name: gradient for name, gradient in gradients.items() if name not in self.fixed}
        for name, gradient in gradients.items():
            if not all_finite(_values(gradient)):
                raise NumericalError(f"the gradient of {name} is not finite")
        return scale * log_likelihood - float(kl) if value_needed else None, gradients

    def _log_likelihood(self, parameters, batch, moments, **options):
        """Return the expected log likelihood and its gradients with respect to the moments, Φ and b."""
        loadings = parameters["loadings"]
        bias = parameters["bias"]
        if batch.pairs is not None:
            return sampled_log_likelihood(moments, loadings, bias, batch.pairs, self.expectations, **options)
        if batch.sample is None:
            return full_log_likelihood(moments, loadings, bias, batch.labels, self.expectations, **options)
        used, weights = batch.sample
        columns = np.searchsorted(used, batch.labels.indices)
        shape = batch.labels.shape[0], len(used)
        labels = sp.csr_array((batch.labels.data, columns, batch.labels.indptr), shape=shape)
        value, d_moments, gradients = full_log_likelihood(
            moments, loadings[used], bias[used], labels, self.expectations, negative_weights=weights, **options
        )
        return value, d_moments, {name: IndexedRows(used, gradient) for name, gradient in gradients.items()}


def _values(gradient):
    return gradient.values if isinstance(gradient, IndexedRows) else gradient
