"""The stochastic bound of MLGPF and its gradient: the components in order, downwards and upwards."""

from typing import NamedTuple

import scipy.sparse as sp

from xmlgp.errors import NumericalError
from xmlgp.gp import likelihood
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inner_products import Covariances, Points
from xmlgp.gp.label_weights import LABEL_WEIGHTS_FIXED, LabelWeights, WeightedPoints
from xmlgp.gp.likelihood import Pairs, Rows
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.runtime.threads import start_task

__all__ = ["Batch", "Bound"]


class Batch(NamedTuple):
    """A minibatch.

    Attributes
    ----------
    points : Points
        Coordinates and residuals of the points.
    labels : csr_array, B×K
        Their positives.
    pairs : Pairs or None
        Positives and sampled negatives; None for all negatives.
    scale : float
        N / |B|.
    features : csr_array, B×D, or None
        X, weighted; needed where labels have weights of their own.
    """

    points: Points
    labels: sp.csr_array
    pairs: Pairs | None
    scale: float
    features: sp.csr_array | None = None


class Bound:
    """A lower bound on log p(Y): F = N/|B| Σ_{i∈B} Σ_k E log σ(y_ik f_ik) − Σ_p KL[q(u_p) ‖ p(u_p)] − KL[q(W) ‖ p(W)].

    The last term and its part of f where labels have weights of their own. Source: [S] (20) and (23), [L] (11).

    Parameters
    ----------
    kernel : Kernel
    posterior : SharedDiagonal, Diagonal or Cholesky
    fixed : collection of str
        Names of parameters that are not optimised.
    expectations : Quadrature, JaakkolaJordan or Taylor, optional
        How E log σ(yf) is computed, by quadrature when not given. With Taylor F is an approximation and no bound.
    """

    def __init__(self, kernel, posterior, fixed=(), expectations=None):
        self.kernel = kernel
        self.posterior = posterior
        self.fixed = LABEL_WEIGHTS_FIXED.union(fixed)
        self.expectations = expectations or Quadrature()

    def value_and_gradients(self, parameters, batch, value_needed=True, for_step=False):
        """Return the unbiased estimate of the bound and its gradients by parameter name.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            `inducing`, `kernel.*`, `posterior.*`, `loadings` (Φ, K×P), `bias` (b, K), and where labels have
            weights of their own `label_weights.*`.
        batch : Batch
        value_needed : bool
            Without the value, None is returned in its place and the step is cheaper.
        for_step : bool
            What a step of training wants: in place of some gradients directions of ascent that lead there in fewer
            steps, and expectations no more precise than that needs.

        Returns
        -------
        value : float or None
        gradients : dict of str to ndarray or Rows
            Of every parameter not fixed; with sampled negatives those of Φ and b are `Rows`. By quadrature expectations
            and their derivatives are each computed by themselves; with enough nodes for the variances at hand the
            second are the derivatives of the first, with few nodes and wide variances they are closer to those of the
            exact bound.

        Raises
        ------
        NumericalError
            Where a covariance matrix cannot be factorised, or a gradient is not finite.
        """
        prior, between = self.kernel.forward_inducing(parameters)
        # One C⁻¹ needs one core; the products of points and inducing inputs are for the others meanwhile.
        prepared = None
        if not self.posterior.prepare_is_parallel:
            prepared = start_task(lambda: self.posterior.prepare(parameters, prior))
        cross, variances, kernel_tape = self.kernel.forward_points(batch.points, between)
        covariances = Covariances(cross, prior, variances)
        moments, kl, posterior_tape = self.posterior.forward(parameters, covariances, prepared and prepared())
        loadings, bias = parameters["loadings"], parameters["bias"]
        own = None
        if "label_weights.mean" in parameters:
            own = WeightedPoints(LabelWeights(parameters), batch.features)
            own.prepare_gradients()
        options = (self.expectations, value_needed, for_step, own)
        if batch.pairs is None:
            data_term = likelihood.all_labels(moments, loadings, bias, batch.labels, *options)
        else:
            data_term = likelihood.sampled_labels(moments, loadings, bias, batch.pairs, *options)
        data, d_moments, gradients = data_term

        scale = float(batch.scale)
        gradients = {name: _scaled(scale, gradient) for name, gradient in gradients.items()}
        d_moments = type(d_moments)(*(scale * gradient for gradient in d_moments))
        d_covariances, d_posterior = self.posterior.backward(posterior_tape, d_moments, d_kl=-1)
        if for_step:
            d_posterior = self.posterior.precondition(posterior_tape, d_posterior)
        d_kernel = self.kernel.backward(kernel_tape, d_covariances, inducing_needed="inducing" not in self.fixed)
        gradients |= d_posterior | d_kernel
        if own is not None:
            gradients |= own.weights.gradients(scale, own.by_mean, own.by_variance)
            if value_needed:
                kl = kl + own.weights.kl()
        gradients = {name: gradient for name, gradient in gradients.items() if name not in self.fixed}
        for name, gradient in gradients.items():
            if not all_finite(gradient.values if isinstance(gradient, Rows) else gradient):
                raise NumericalError(f"the gradient of {name} is not finite")
        value = None if data is None else scale * data - float(kl)
        return value, gradients


def _scaled(scale, gradient):
    values = gradient.values if isinstance(gradient, Rows) else gradient
    values *= scale
    return gradient
