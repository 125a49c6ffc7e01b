"""GPC as a whole: one latent function with an SE kernel and noise, its q(u), its parameters, and its predictions."""

import numpy as np

from xmlgp.gp.bound import Bound
from xmlgp.gp.divergences import gauss_kl
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.inner_products import Covariances, Points
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.log_parameters import bounded_exp, is_inside
from xmlgp.linear_algebra.cholesky import add_jitter, factorise, jitter_backward
from xmlgp.prediction.logistic import logistic_scores, logistic_std
from xmlgp.prediction.predictor import Predictor

__all__ = [
    "KERNEL",
    "PARAMETER_NAMES",
    "POSTERIOR",
    "GPCPredictor",
    "Predictive",
    "initial_parameters",
    "prior_variance",
    "uncollapsed_bound",
]


class FullPosterior:
    """q(u) = N(m, L Lᵀ) with a lower triangular L, M×M; its methods are described in `xmlgp.gp.posteriors`.

    It is the full posterior of [L] section 4.1 for one latent function, in the parameters of the paper.

    With Q = K_BZ K_Z⁻¹: m_i = (Q m)_i; s_i = k(x_i, x_i) − (Q K_ZB)_ii + Σ_j (Q L)_ij². K_Z has jitter on its diagonal,
    and the noise of GPC, without which gradients with the factor K_Z⁻¹ would make training diverge.

    Parameters in the flat mapping: `posterior.mean`, m, M×1; `posterior.factor`, 1×M×M, the lower triangle of L with
    the logarithms of its diagonal. Source: [L] (9), (10), (13).
    """

    parameter_names = ("posterior.mean", "posterior.factor")
    prepare_is_parallel = False

    def parameters_of_prior(self, K_Z):
        """Return the parameters for which q(u) is the prior, by name."""
        factor = factorise(add_jitter(K_Z), "K_Z").factor
        np.fill_diagonal(factor, np.log(np.diagonal(factor)))
        return {"posterior.mean": np.zeros((len(K_Z), 1), K_Z.dtype), "posterior.factor": factor[None]}

    def prepare(self, parameters, K_Z):
        """Return m, L and the factorised K_Z."""
        factor = np.tril(parameters["posterior.factor"][0])
        np.fill_diagonal(factor, bounded_exp(np.diagonal(factor)))
        return parameters["posterior.mean"], factor, factorise(add_jitter(K_Z), "K_Z")

    def moments(self, prepared, K_BZ, K_diag):
        """Return the moments at points, and Q and Q L, B×M."""
        mean, factor, prior = prepared
        projected = K_BZ @ prior.inverse
        projected_factor = projected @ factor
        variance = K_diag - np.einsum("bm,bm->b", projected, K_BZ)
        variance += np.einsum("bm,bm->b", projected_factor, projected_factor)
        return Moments(projected @ mean, variance[:, None]), (projected, projected_factor)

    def forward(self, prepared, covariances):
        """Return the moments, the divergence, and the tape."""
        mean, factor, prior = prepared
        moments, projections = self.moments(prepared, covariances.K_BZ, covariances.K_diag)
        solved_mean = prior.inverse @ mean
        solved_factor = prior.inverse @ factor
        mahalanobis = np.vdot(mean, solved_mean)
        trace = np.vdot(factor, solved_factor)
        logdet_S = 2 * np.log(np.diagonal(factor)).sum()
        kl = gauss_kl(mahalanobis, trace, prior.log_determinant - logdet_S, len(mean))
        return moments, kl, (mean, factor, covariances, prior.inverse, *projections, solved_mean, solved_factor)

    def backward(self, tape, d_moments):
        """Return the gradients by covariances and parameters."""
        mean, factor, covariances, inverse, projected, projected_factor, solved_mean, solved_factor = tape
        d_variance = d_moments.variance
        d_projected = d_moments.mean @ mean.T - d_variance * covariances.K_BZ
        d_projected_factor = 2 * d_variance * projected_factor
        d_projected += d_projected_factor @ factor.T
        d_factor = projected.T @ d_projected_factor - solved_factor
        # The diagonal is parametrised by logarithms: d log L = L dL, and −log L is itself a term of the divergence.
        diagonal = np.diagonal(factor)
        np.fill_diagonal(d_factor, (np.diagonal(d_factor) * diagonal + 1) * is_inside(diagonal))
        d_projected_prior = d_projected @ inverse
        d_K_Z = -projected.T @ d_projected_prior
        # K_Z⁻¹ (m mᵀ + L Lᵀ) K_Z⁻¹.
        second_moment = solved_mean @ solved_mean.T + solved_factor @ solved_factor.T
        d_K_Z -= 0.5 * (inverse - second_moment)
        jitter_backward(d_K_Z)
        gradients = {
            "posterior.mean": projected.T @ d_moments.mean - solved_mean,
            "posterior.factor": np.tril(d_factor)[None],
        }
        return Covariances(d_projected_prior - d_variance * projected, d_K_Z, d_variance[:, 0]), gradients


#: The model of [I] (7) to (11): p(y = 1 | f) = σ(f), f ~ GP(0, k), k(x, x′) = σ² exp(−‖x − x′‖²/2ℓ²) + ν² [x is x′].
#: The inducing inputs Z are fixed, and q(u) = N(m, L Lᵀ) for every inference method. The model is MLGPF with P = K = 1,
#: Φ = 1 and b = 0, so parameters have the same names.
KERNEL = Kernel(("se", "noise"), ard=False)
POSTERIOR = FullPosterior()
PARAMETER_NAMES = ["inducing", *KERNEL.parameter_names(), *POSTERIOR.parameter_names]


def initial_parameters(inducing):
    """Return the inducing inputs Z, M×D, and initial hyperparameters by name, in double precision.

    σ² = 1, and ℓ² is half of the mean squared distance between two inducing inputs: the kernel is then neither constant
    nor diagonal, for any units and any number of dimensions.
    """
    inducing = np.array(inducing, np.float64, order="F")
    # The mean squared distance between two of them is twice their variance.
    scale = np.sqrt(np.square(inducing - inducing.mean(axis=0)).sum(axis=1).mean()) if len(inducing) else 0
    return {"inducing": inducing} | KERNEL.initial(inducing.shape[1], scale or 1.0, np.float64)


def prior_variance(parameters):
    """Return the prior variance of f at any point, σ² + ν²."""
    return sum(bounded_exp(parameters[f"kernel.{name}.log_variance"]) for name in ("se", "noise"))


def uncollapsed_bound(inducing, nodes):
    """Return the bound [I] (11), a function of q(u) as well (`Bound`), and initial values of its parameters.

    Initially q(u) is the prior. Z, Φ = 1 and b = 0 are fixed.
    """
    parameters = initial_parameters(inducing)
    prior, _ = KERNEL.forward_inducing(parameters)
    parameters |= POSTERIOR.parameters_of_prior(prior)
    parameters |= {"loadings": np.ones((1, 1)), "bias": np.zeros(1)}
    latent = Inducing(KERNEL, POSTERIOR, inputs_fixed=True)
    return Bound(latent, Quadrature(nodes), ("loadings", "bias")), parameters


class Predictive:
    """The predictive distribution q(f*) of trained parameters; what does not depend on the points is computed once."""

    def __init__(self, parameters):
        prior, self._between = KERNEL.forward_inducing(parameters)
        self._prepared = POSTERIOR.prepare(parameters, prior)

    def __call__(self, points):
        """Return mean and variance of f with noise at `Points`, both B ([I] (10))."""
        cross, variances, _ = KERNEL.forward_points(points, self._between)
        moments, _ = POSTERIOR.moments(self._prepared, cross, variances)
        # Rounding errors can make a variance near zero negative.
        return moments.mean[:, 0], np.maximum(moments.variance[:, 0], 0)


class GPCPredictor(Predictor):
    """A trained GPC, which scores its one label.

    The utility is the mean of q(f), the probability is E σ(f) under q ([I] (11)); standard deviations are those of f
    and of σ(f). The inducing inputs are those of the parameters, not those of the preprocessing.
    """

    default_output = "probability"

    def __init__(self, settings, preprocessed, parameters, feature_count):
        super().__init__(feature_count, 1, settings.dtype)
        self._preprocessed = preprocessed
        self._inducing_count = len(parameters["inducing"])
        self._predictive = Predictive(parameters)
        self._nodes = settings.nodes

    @classmethod
    def parameters_fit(cls, settings, parameters, D, K):
        """Return whether arrays can be the parameters of such a model; see `Predictor`."""
        M = len(parameters["inducing"])
        shapes = {"inducing": (M, D), "posterior.mean": (M, 1), "posterior.factor": (1, M, M)}
        return (
            M > 0
            and parameters.keys() == set(PARAMETER_NAMES)
            and all(value.shape == shapes.get(name, ()) for name, value in parameters.items())
            and all(value.dtype == np.float64 and np.isfinite(value).all() for value in parameters.values())
        )

    def prepare(self, features, output, with_std):
        """Return the moments of q(f); see `Predictor`."""
        coordinates = self._preprocessed.inputs(features, self.dtype, dense_limit=0)
        mean, variance = self._predictive(Points(*coordinates.rows(slice(None))))
        return Moments(mean[:, None], variance[:, None])

    def scores(self, points, labels, output):
        """Return the scores of a block of labels, B×L; see `Predictor`."""
        return logistic_scores(*points, output, self._nodes)[:, labels]

    def std(self, points, labels, output):
        """Return the standard deviations of the scores of some labels of each point, B×k; see `Predictor`."""
        return np.take_along_axis(logistic_std(*points, output, self._nodes), labels, axis=1)

    def bytes_per_point(self, output, with_std):
        """Return the memory that scoring takes per point; see `Predictor`."""
        # Covariances, their exponents, and their products with K_Z⁻¹ and L; centred coordinates are dense, and copied.
        dense = 2 * self.feature_count if self._preprocessed.is_centered else 0
        return (4 * self._inducing_count + dense) * self.dtype.itemsize
