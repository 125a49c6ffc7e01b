"""The stochastic bound of MLGPF and its gradient: latent functions, then the likelihood, and both backwards."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.gp.expectations import Expectations, Quadrature
from xmlgp.gp.inner_products import Points
from xmlgp.gp.likelihood import Moments, SampledPairs, full_log_likelihood, sampled_log_likelihood
from xmlgp.gp.parameters import Gradients, IndexedRows, Parameters
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.linear_algebra.special import log_factorials
from xmlgp.runtime.errors import NumericalError

__all__ = ["Batch", "Bound", "LabelSample", "LatentFunctions", "log_absent"]


class LabelSample(NamedTuple):
    """Labels that all points of a minibatch share, L, ascending: those of its points, and sampled ones.

    The weight of a label as a negative is the inverse of the probability that the minibatch uses it.
    """

    labels: NDArray[np.integer]
    weights: NDArray[np.floating]


class Batch(NamedTuple):
    """A minibatch: its points, their positives, B×K, and the scale N/B.

    With `pairs` (positives and sampled negatives) only these are used, with `sample` only its labels.
    """

    points: Points
    labels: sp.csr_array
    pairs: SampledPairs | None
    scale: float
    sample: LabelSample | None = None


def log_absent(count: int, special: NDArray[np.integer] | int, size: int) -> NDArray[np.float64]:
    """Return the log probability that a sample of B of N elements without replacement has no special one, elementwise.

    With n special elements it is log [C(N − n, B) / C(N, B)], and −∞ if no such sample exists.
    """
    log_factorial = log_factorials(count)
    spare = count - special - size
    log_ratio = log_factorial[count - special] - log_factorial[np.maximum(spare, 0)] - log_factorial[count]
    return np.where(spare >= 0, log_ratio + log_factorial[max(count - size, 0)], -np.inf)


Tape = TypeVar("Tape")


class LatentFunctions(Protocol[Tape]):
    """The form of the latent functions of a `Bound`: `Inducing` or `WeightSpace`."""

    #: Names of parameters that have no gradients.
    fixed: frozenset[str]

    #: Names of parameters whose steps have their root mean square as the unit.
    relative: frozenset[str]

    def forward(
        self, parameters: Parameters, points: Points, kl_needed: bool = True
    ) -> tuple[Moments, float | np.floating | None, Tape]:
        """Return the moments at points, the sum of the KL divergences, which may be None if not needed, and a tape."""

    def backward(self, tape: Tape, d_moments: Moments, for_step: bool = False) -> Gradients:
        """Return the gradients of the bound by parameter name; `for_step`, ascent directions in place of some."""


class Bound:
    """The lower bound F = N/|B| Σ_{i∈B} Σ_k E log σ(y_ik f_ik) − Σ_p KL[q(u_p) ‖ p(u_p)] on log p(Y).

    Unknown pairs (i, k) are left out of the sum: Y are the labels that are known.

    f_ik = Σ_p φ_kp h_p(x_i) + b_k. The default of the expectations is `Quadrature`; with `Taylor`, F is not a bound.
    Parameters named `fixed` and the fixed ones of the latent functions have no gradients. Sources: [S] (12), [L] (13).
    """

    def __init__(
        self, latent: LatentFunctions[Any], expectations: Expectations | None = None, fixed: Iterable[str] = ()
    ) -> None:
        self.latent = latent
        self.expectations = expectations or Quadrature()
        self.fixed = frozenset(fixed) | latent.fixed

    def value_and_gradients(
        self, parameters: Parameters, batch: Batch, value_needed: bool = True, for_step: bool = False
    ) -> tuple[float | None, Gradients]:
        """Return the unbiased estimate of the bound, and its gradients by every parameter name that is not fixed.

        Parameters are those of the latent functions, `loadings` (Φ, K×P) and `bias` (b, K). If not all negatives are
        used, the gradients by Φ and b are `IndexedRows`. Without `value_needed` the value is None, which is faster.
        With `for_step`, preconditioned directions replace some gradients, and expectations are only as precise as a
        training step needs. NumericalError is raised if a covariance matrix cannot be factorised or a gradient is not
        finite.

        Quadrature approximates the expectations and their derivatives separately. With enough nodes for the variances,
        the latter are the derivatives of the former; with few nodes and large variances, they are closer to the
        derivatives of the exact bound.
        """
        # Forward.
        moments, kl, tape = self.latent.forward(parameters, batch.points, value_needed)
        log_likelihood, d_moments, d_utilities = self._log_likelihood(
            parameters, batch, moments, value_needed=value_needed, fast=for_step
        )

        # Backward.
        scale = float(batch.scale)
        for gradient in d_utilities.values():
            np.multiply(_values(gradient), scale, out=_values(gradient))
        d_moments = Moments(*(scale * gradient for gradient in d_moments))
        gradients = {**d_utilities, **self.latent.backward(tape, d_moments, for_step)}
        gradients = {name: gradient for name, gradient in gradients.items() if name not in self.fixed}
        for name, gradient in gradients.items():
            if not all_finite(_values(gradient)):
                raise NumericalError(f"the gradient of {name} is not finite")
        value = None if log_likelihood is None or kl is None else scale * log_likelihood - float(kl)
        return value, gradients

    def _log_likelihood(
        self, parameters: Parameters, batch: Batch, moments: Moments, value_needed: bool, fast: bool
    ) -> tuple[float | None, Moments, Gradients]:
        """Return the expected log likelihood and its gradients with respect to the moments, Φ and b."""
        loadings = parameters["loadings"]
        bias = parameters["bias"]
        if batch.pairs is not None:
            return sampled_log_likelihood(moments, loadings, bias, batch.pairs, self.expectations, value_needed, fast)
        if batch.sample is None:
            return full_log_likelihood(moments, loadings, bias, batch.labels, self.expectations, value_needed, fast)
        used, weights = batch.sample
        columns = np.searchsorted(used, batch.labels.indices)
        shape = batch.labels.shape[0], len(used)
        labels = sp.csr_array((batch.labels.data, columns, batch.labels.indptr), shape=shape)
        value, d_moments, gradients = full_log_likelihood(
            moments, loadings[used], bias[used], labels, self.expectations, value_needed, fast, weights
        )
        return value, d_moments, {name: IndexedRows(used, gradient) for name, gradient in gradients.items()}


def _values(gradient: NDArray[np.floating] | IndexedRows) -> NDArray[np.floating]:
    return gradient.values if isinstance(gradient, IndexedRows) else gradient
