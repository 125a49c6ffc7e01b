"""Predictions of MLGPF: moments of the utilities of labels, and probabilities integrated over them."""

import functools
from typing import NamedTuple

import numpy as np

from xmlgp.gp import exact_gp, label_weights, weight_space
from xmlgp.gp.inner_products import Points
from xmlgp.gp.likelihood import pair_moments, utility_moments
from xmlgp.gp.linear_term import LinearTerm, PairsByLabel
from xmlgp.gp.posteriors import Moments
from xmlgp.linear_algebra import dense, sparse
from xmlgp.mlgpf.weight_space import make_model
from xmlgp.prediction.logistic import logistic_scores, logistic_std
from xmlgp.prediction.predictor import Predictor
from xmlgp.preprocess.coordinates import Coordinates

__all__ = ["MLGPFPredictor"]


class MLGPFPredictor(Predictor):
    """A trained MLGPF, which scores points.

    The utility is the mean of q(f), pooled with the regression if there is one (`gp.exact_gp.logarithmic_pool`). The
    probability is E σ(f) under the same distribution; standard deviations are those of f and of σ(f) ([S] A.3).

    Parameters
    ----------
    settings : MLGPFSettings
    preprocessed : Preprocessed
        Of its inducing inputs, only whether there are any is used.
    parameters : mapping of str to ndarray
        As training returns them.
    feature_count : int
        Number of features, D.
    """

    def __init__(self, settings, preprocessed, parameters, feature_count):
        super().__init__(feature_count, len(parameters["bias"]), settings.dtype)
        self._preprocessed = preprocessed
        self._parameters = parameters
        self._predictive = make_model(settings).predictive(parameters, feature_count)
        self._nodes = settings.nodes

    @classmethod
    def parameters_fit(cls, settings, parameters, D, K):
        """Return whether arrays can be the parameters of such a model; see `Predictor`."""
        return (
            _are_named_by(settings, parameters)
            and all(np.isfinite(value).all() for value in parameters.values())
            and parameters["loadings"].shape[:-1] == parameters["bias"].shape == (K,)
            and (weight_space.are_valid(parameters, D) if settings.in_weight_space else parameters["inducing"].size)
            and label_weights.are_valid(parameters, D, K)
            and exact_gp.are_valid(parameters, D, K)
        )

    def prepare(self, features, output, with_std):
        """Return the moments of the latent functions, and the other terms of utilities; see `Predictor`."""
        weighted = self._preprocessed.weigh(features)
        if with_std or output != "utility":
            moments = self._predictive.latent_moments(self._points(weighted))
        else:
            moments = Moments(self._latent_mean(weighted), None)
        return _Prepared(moments, self._predictive.linear_term(weighted), self._predictive.regression_latent(weighted))

    def scores(self, points, labels, output):
        """Return the scores of a block of labels, B×L; see `Predictor`."""
        phi, bias = self._parameters["loadings"][labels], self._parameters["bias"][labels]
        if output == "utility":
            mean, variance = points.moments.mean @ phi.T, None
            mean += bias
        else:
            mean, variance = utility_moments(points.moments, phi, bias)
        if points.own is not None:
            points.own.add_moments(labels.start, mean, variance)
        self._predictive.pool_regression(points.regressed, labels, mean, variance)
        return logistic_scores(mean, variance, output, self._nodes)

    def std(self, points, labels, output):
        """Return the standard deviations of the scores of some labels of each point, B×k; see `Predictor`."""
        indptr = np.arange(0, labels.size + 1, labels.shape[1])
        columns = labels.ravel()
        mean, variance = pair_moments(
            points.moments, self._parameters["loadings"], self._parameters["bias"], indptr, columns
        )
        if points.own is not None:
            points.own.add_pair_moments(
                PairsByLabel.from_pairs(indptr, *np.unique(columns, return_inverse=True)), mean, variance
            )
        self._predictive.pool_regression_pairs(points.regressed, indptr, columns, mean, variance)
        return logistic_std(mean, variance, output, self._nodes).reshape(labels.shape)

    def bytes_per_point(self, output, with_std):
        """Return the memory that scoring takes per point; see `Predictor`."""
        M, Q = self._parameters["inducing"].shape if "inducing" in self._parameters else (0, 0)
        P = self._parameters["loadings"].shape[1]
        numbers = 4 * P
        if self._predictive.has_regression:
            numbers += self._parameters["regression.loadings"].shape[1]
        if with_std or output != "utility" or self._map is None:
            # Covariances and their product with C⁻¹, which only the shared posterior does not have for each function.
            shared = self._parameters.get("posterior.log_diagonal", np.empty((1, 1))).ndim == 1
            numbers += Q + 2 * M * (1 if shared else P)
        return numbers * 8

    @functools.cached_property
    def _map(self):
        """The map of weighted features to means of the latent functions, D×P; None unless the kernel is linear."""
        mapped = self._predictive.primal_weights()
        if mapped is None or self._preprocessed.basis is None:
            return mapped
        return dense.product(self._preprocessed.basis.T, mapped)

    def _points(self, weighted):
        sparse = self._preprocessed.inducing is None
        coordinates = Coordinates(weighted, self._preprocessed.basis, self.dtype, dense_limit=0, sparse=sparse)
        return Points(*coordinates.rows(slice(None)))

    def _latent_mean(self, weighted):
        if self._map is None:
            return self._predictive.latent_mean(self._points(weighted))
        return sparse.product(weighted.astype(self.dtype, copy=False), self._map)


class _Prepared(NamedTuple):
    """The terms of the utilities of B points.

    Attributes
    ----------
    moments : Moments, B×P
        Of the latent functions; without variances if means are enough.
    own : LinearTerm or None
        The term of the label weights, if the model has them.
    regressed : ndarray, B×S, or None
        The latent functions of the regression.
    """

    moments: Moments
    own: LinearTerm | None
    regressed: np.ndarray | None


def _are_named_by(settings, parameters):
    """Return whether parameters have exactly the names that settings imply."""
    own, regressed = (
        any(name.startswith(f"{part}.") for name in parameters) for part in ("label_weights", "regression")
    )
    others = {name for name in parameters if not name.startswith(("label_weights.", "regression."))}
    return (
        others == set(make_model(settings).parameter_names())
        and settings.label_weights in (None, own)
        and (settings.regression_points > 0 or not regressed)
    )
