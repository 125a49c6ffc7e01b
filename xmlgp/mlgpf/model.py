"""MLGPF as a whole: its kernel, posterior and bound, its parameters, and its predictive distribution."""

import functools

import numpy as np
import scipy.sparse as sp

from xmlgp.gp import exact_gp
from xmlgp.gp.bound import Bound, LearningBound
from xmlgp.gp.expectations import approximate_log_odds, make_expectations
from xmlgp.gp.inner_products import Points
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.label_weights import LabelWeights
from xmlgp.gp.likelihood import pair_moments
from xmlgp.gp.posteriors import POSTERIORS, Cholesky, Moments, SharedDiagonal, Unwhitened
from xmlgp.gp.utilities import UtilityMoments
from xmlgp.linear_algebra import dense
from xmlgp.runtime.threads import run_parallel

__all__ = ["MLGPF", "Predictive", "initial_bias", "random_rows"]

#: Number of rows that are drawn at a time, in double precision.
ROW_BLOCK = 1 << 14

#: Points whose latent functions are computed at a time, on one core.
POINT_BLOCK = 128


class MLGPF:
    """The multi-label Gaussian-process factor model ([S] section 3, [L] section 3).

    f_k(x) = Σ_p φ_kp h_p(x) + b_k with h_p ~ GP(0, k) and p(y_k = 1) = σ(f_k).

    Parameters
    ----------
    settings : MLGPFSettings

    Attributes
    ----------
    kernel : Kernel
    posterior : object
        The family of q(u_p), one of `POSTERIORS`.
    bound : Bound
    """

    def __init__(self, settings):
        self.settings = settings
        self.kernel = Kernel(settings.kernel.split("+"), settings.ard)
        self.posterior = POSTERIORS[settings.posterior]
        expectations = make_expectations(settings.expectations, settings.nodes)
        self.bound = Bound(self.kernel, self.posterior, {"inducing"} if settings.inducing_fixed else (), expectations)

    def make_bound(self, coordinates):
        """Return the bound for minibatches of some points.

        Parameters
        ----------
        coordinates : Inputs
            Of the N training points.
        """
        return self.bound

    def learning_bound(self, coordinates, parameters):
        """Return the bound of a batch to be learned, with the posterior of trained parameters as the prior.

        Parameters
        ----------
        coordinates : Inputs
            Of the points of the batch.
        parameters : mapping of str to ndarray
            Those of the latent functions.
        """
        return LearningBound(self.kernel, self.posterior, parameters, self.bound.expectations)

    def posterior_of(self, parameters):
        """Return the family of the q(u_p) of trained parameters.

        In models from before it was whitened, that of `cholesky` is `Unwhitened`.

        Parameters
        ----------
        parameters : mapping of str to ndarray
        """
        older = isinstance(self.posterior, Cholesky) and parameters.keys() >= set(Unwhitened.parameter_names)
        return Unwhitened() if older else self.posterior

    def parameter_names(self, parameters=()):
        """Return the names of the parameters that `initial` returns, or those that trained parameters must have.

        Parameters
        ----------
        parameters : mapping of str to ndarray, optional
            Trained parameters.
        """
        posterior = self.posterior_of(parameters) if parameters else self.posterior
        return ["inducing", *self.kernel.parameter_names(), *posterior.parameter_names, "loadings", "bias"]

    def initial(self, inducing, labels, random):
        """Return initial parameters: b at the log odds of each label's frequency, Φ ~ N(0, 1/P), small means of q(u_p).

        Parameters
        ----------
        inducing : ndarray, M×R or M×D
            Initial A or Z.
        labels : csr_array, N×K
            Y.
        random : numpy.random.Generator
        """
        settings, dtype = self.settings, np.dtype(self.settings.dtype)
        # Fortran order, which the products of `inner_products` are fastest with.
        parameters = {"inducing": np.array(inducing, dtype, order="F")}
        parameters |= self.kernel.initial(inducing.shape[1], settings.lengthscale, dtype)
        parameters |= self.posterior.initial(len(inducing), settings.factor_count, settings.diagonal, random, dtype)
        if isinstance(self.posterior, Cholesky):
            # A diagonal covariance of q(u_p) would be far from a prior of lower rank than M.
            diagonal = SharedDiagonal().initial(len(inducing), settings.factor_count, settings.diagonal, random, dtype)
            parameters |= self.posterior.parameters_of_diagonal(diagonal, self.kernel.forward_inducing(parameters)[0])
        parameters["loadings"] = random_rows(labels.shape[1], settings.factor_count, random, dtype)
        parameters["bias"] = initial_bias(labels, dtype)
        return parameters

    def trained(self, parameters):
        """Return the parameters of a trained model, given those that training moves.

        Parameters
        ----------
        parameters : mapping of str to ndarray
        """
        return parameters

    def predictive(self, parameters, feature_count=None):
        """Return the predictive distribution of trained parameters (`Predictive`).

        Parameters
        ----------
        parameters : mapping of str to ndarray
        feature_count : int, optional
            D; required if the parameters include a regression.
        """
        return Predictive(self, parameters, feature_count)


def random_rows(count, width, random, dtype):
    """Return rows of mean square length one, count×width, ~ N(0, 1/width)."""
    rows = np.empty((count, width), dtype)
    for start in range(0, count, ROW_BLOCK):
        block = rows[start : start + ROW_BLOCK]
        block[:] = random.normal(0, width**-0.5, block.shape)
    return rows


def initial_bias(labels, dtype):
    """Return the log odds of each label's frequency, K.

    Half a count added on either side keeps them finite for labels that never or always occur.
    """
    point_count, label_count = labels.shape
    counts = np.bincount(labels.indices, minlength=label_count) + 0.5
    return np.log(counts / (point_count + 1 - counts)).astype(dtype)


def _by_blocks(function, points):
    """Return the values of a function of `Points` for blocks of them, on all cores.

    BLAS sums in another order if a matrix has another number of rows. So blocks do not depend on the number of cores.
    """
    starts = range(0, len(points.residual), POINT_BLOCK) or range(1)
    found = [None] * len(starts)

    def block(number, start):
        found[number] = function(Points(*(array[start : start + POINT_BLOCK] for array in points)))

    run_parallel(functools.partial(block, *pair) for pair in enumerate(starts))
    return found


class Predictive:
    """The predictive distribution q(f*) of a trained model.

    The constructor computes everything that does not depend on the points.

    Parameters
    ----------
    model : MLGPF
    parameters : mapping of str to ndarray
    feature_count : int, optional
        D; required if the parameters include a regression.

    Attributes
    ----------
    utilities : UtilityMoments
        Without the regression.
    has_regression : bool
        Whether utilities are pooled with those of exact GP regression.
    """

    def __init__(self, model, parameters, feature_count=None):
        self._model = model
        self._parameters = parameters
        self._prepare_latent()
        weights = LabelWeights(parameters) if "label_weights.mean" in parameters else None
        self.utilities = UtilityMoments(parameters["loadings"], parameters["bias"], weights)
        self.has_regression = "regression.weights" in parameters
        if self.has_regression:
            indptr, indices, values, weights = (
                parameters[f"regression.{name}"] for name in ("indptr", "indices", "values", "weights")
            )
            points = sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, feature_count))
            self._regression = exact_gp.ExactGP(points, weights)
            self._scales = parameters.get("regression.scales")

    def _prepare_latent(self):
        self._posterior = self._model.posterior_of(self._parameters)
        prior, self._between = self._model.kernel.forward_inducing(self._parameters)
        self._prepared = self._posterior.prepare(self._parameters, prior)
        self._weights = self._posterior.alpha(self._prepared)

    def latent_moments(self, points):
        """Return the moments of the latent functions (`Moments`, B×P) at points (`Points`)."""

        def moments(part):
            cross, variances, _ = self._model.kernel.forward_points(part, self._between)
            return self._posterior.moments(self._prepared, cross, variances)[0]

        return Moments(*map(np.concatenate, zip(*_by_blocks(moments, points), strict=True)))

    def latent_mean(self, points):
        """Return the means of the latent functions alone, B×P, at points (`Points`)."""

        def mean(part):
            cross, _, _ = self._model.kernel.forward_points(part, self._between)
            return dense.product(cross, self._weights)

        return np.concatenate(_by_blocks(mean, points))

    def primal_weights(self):
        """Return T, R×P or D×P, so that latent means are C T for coordinates C; None if the kernel is not linear."""
        return self._model.kernel.primal_weights(self._parameters, self._weights)

    def regression_latent(self, features):
        """Return the latent functions of the regression, B×S, at weighted features, B×D; None without a regression."""
        if not self.has_regression:
            return None
        if self._scales is not None:
            features = exact_gp.scaled_features(features, self._scales)
        return self._regression.latent(features)

    def pool_regression(self, latent, labels, mean, variance=None):
        """Pool the moments of the utilities of L labels with the predictions of the regression, in place.

        Parameters
        ----------
        latent : ndarray, B×S, or None
            As `regression_latent` returns them.
        labels : slice
            The L labels.
        mean, variance : ndarray, B×L
            Moments of q(f).
        """
        if latent is not None:
            predicted = latent @ self._parameters["regression.loadings"][labels].T
            predicted += self._parameters["regression.mean"][labels]
            exact_gp.logarithmic_pool(predicted, mean, variance)

    def pool_regression_pairs(self, latent, indptr, labels, mean, variance=None):
        """Do what `pool_regression` does for some labels of each point, those of point i from `indptr[i]` on."""
        if latent is not None:
            moments = Moments(latent, np.zeros((len(latent), 1), latent.dtype))
            shared = self._parameters["regression.loadings"], self._parameters["regression.mean"]
            predicted, _ = pair_moments(moments, *shared, indptr, labels)
            exact_gp.logarithmic_pool(predicted, mean, variance)

    def contributions(self, features, latent_weights, indptr, labels, values, rest):
        """Write the contributions of features to the mean utilities of pairs, for a linear kernel, and the rests.

        The contribution of feature d to the utility of label k is x_d (Σ_p φ_kp t_dp + m_kd), and the rest is b_k. With
        a regression the utility is w f + w log(g/(1 − g)) with w = `exact_gp.POOL_WEIGHT`, so contributions are w times
        that, and the rest is w b_k + w log(g/(1 − g)).

        Parameters
        ----------
        features : csr_array, B×D
            X, weighted.
        latent_weights : ndarray, D×P
            T: latent means are X T.
        indptr, labels, values
            As in `UtilityMoments.contributions`.
        rest : ndarray, n
            Output array.
        """
        rest[:] = self._parameters["bias"][labels]
        self.utilities.contributions(features, latent_weights, indptr, labels, values)
        if self.has_regression:
            values *= exact_gp.POOL_WEIGHT
            self.pool_regression_pairs(self.regression_latent(features), indptr, labels, rest)

    def rank_scores(self, points, features=None, ranking="utility"):
        """Return scores by which labels are ranked, B×K, with utilities pooled with the regression if there is one.

        For the ranking by utility they are the means ([S] A.3). For the ranking by probability they are
        `approximate_log_odds`.

        Parameters
        ----------
        points : Points
        features : csr_array, B×D, optional
            X, weighted, of the same points; required if labels have their own weights, or with a regression.
        ranking : str
            "utility" or "probability".
        """
        uncertain = ranking == "probability"
        latent = self.latent_moments(points) if uncertain else Moments(self.latent_mean(points), None)
        mean, variance = self.utilities.moments(self.utilities.batch(latent, features), slice(None), uncertain)
        self.pool_regression(self.regression_latent(features), slice(None), mean, variance)
        return approximate_log_odds(mean, variance) if uncertain else mean
