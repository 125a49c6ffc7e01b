"""Predictions of MLGPF: moments of the utilities of labels, and probabilities integrated over them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.dataset import no_points
from xmlgp.data.features import Features
from xmlgp.features.inputs import Inputs
from xmlgp.gp.expectations import approximate_log_odds
from xmlgp.gp.inner_products import Points
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gp.weight_space import PRIOR
from xmlgp.linear_algebra import dense, sparse
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, arrays_fit
from xmlgp.models.mlgpf.label_weights.posterior import LABEL_WEIGHTS, LabelWeights
from xmlgp.models.mlgpf.label_weights.utilities import Batch, UtilityMoments
from xmlgp.models.mlgpf.method import Parameters, load_method
from xmlgp.neighbours.label_texts import LABEL_TEXTS, TextEvidence, elements_of_pairs
from xmlgp.neighbours.predictions import (
    DENSE,
    NEIGHBOURS,
    NeighbourPredictions,
    Neighbours,
    Predicted,
    labels_of_rows,
    united,
)
from xmlgp.prediction.calibration import CALIBRATION, Calibration
from xmlgp.prediction.logistic import logistic_scores, logistic_std
from xmlgp.prediction.parts import for_parts
from xmlgp.prediction.predictor import Predictor
from xmlgp.prediction.selection import Best
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.threads import one_blas_thread, single_thread
from xmlgp.training.trained import COUNTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.data.features import Features
    from xmlgp.features.pipeline import Preprocessed
    from xmlgp.models.mlgpf.settings import MLGPFSettings
    from xmlgp.prediction.contributions import Contributions, Supporter
    from xmlgp.prediction.scores_file import Scores

__all__ = ["MLGPFPredictor", "word_scales"]

#: Labels of highest approximate probability among which the best k are, in multiples of k + 4.
CANDIDATES = 8

#: Φ and b.
FACTORS = ArrayGroup(loadings=Array("K P"), bias=Array("K"))

#: The name of the `COUNTS`.
(COUNTED,) = COUNTS.arrays


class MLGPFPredictor(Predictor):
    """A trained MLGPF, which scores points.

    The utility is the mean of q(f), pooled with the regression on the nearest training points if the model has them
    (`xmlgp.neighbours`). The probability is E σ(f) under the same distribution; standard deviations are those of f and
    of σ(f) ([S] A.3). If points were held out in training, probabilities are calibrated
    (`xmlgp.prediction.calibration`). The default output is the one that the settings rank labels by.

    With a linear kernel the utility of label k is a sum over the weighted features x_d of a point. `explain` returns
    its terms x_d (Σ_p φ_kp t_dp + m_kd), where the latent functions have the means h_p(x) = Σ_d t_dp x_d, and m are the
    means of the label weights, and the bias b_k. This is exact for the linear part.
    The regression compares whole points, so it has no terms of single features: where utilities are pooled with it, the
    terms of the linear part have its weight in the pool, and the log odds that the regression predicts are a term.
    """

    def __init__(
        self, settings: MLGPFSettings, preprocessed: Preprocessed, parameters: Parameters, feature_count: int
    ) -> None:
        #: D and K in training; the features and labels after these are known to neighbours alone.
        self._trained = _sizes_of_training(parameters, feature_count)
        neighbours = Neighbours.of(parameters, feature_count, len(parameters.get(COUNTED, parameters["bias"])))
        super().__init__(feature_count, neighbours.labels.shape[1] if neighbours else self._trained.K, settings.dtype)
        self.default_output = settings.ranking
        self._kernel = settings.kernel
        if "inducing" not in parameters:
            self.min_points = 2
        self._preprocessed = preprocessed
        self._parameters = parameters
        # Results do not depend on the number of cores.
        with single_thread(), one_blas_thread():
            self._latent = load_method(settings).predict(parameters)
        self._neighbours = neighbours and NeighbourPredictions(
            neighbours, word_scales(parameters, feature_count), parameters[COUNTED], self._trained.K
        )
        self.pooled = neighbours is not None
        self.has_texts = LABEL_TEXTS.is_in(parameters)
        self._texts = TextEvidence(parameters, parameters[COUNTED]) if self.has_texts else None
        if self._texts and self._texts.texts_only.any():
            self.uncalibrated = self._texts.texts_only
        #: Nodes of the quadrature of E σ(f).
        self.nodes = settings.nodes
        if "calibration" in parameters:
            self.calibration = Calibration(parameters["calibration"])

    @functools.cached_property
    def _utilities(self) -> UtilityMoments:
        # Arranging label weights takes time, and not all need predictions.
        loadings, bias = (self._parameters[name] for name in FACTORS.arrays)
        weights = LabelWeights.of(self._parameters)
        more = self.label_count - self._trained.K
        if more:
            loadings = np.vstack([loadings, np.zeros((more, loadings.shape[1]), loadings.dtype)])
            counts = self._parameters[COUNTED][-more:]
            N = self._neighbours.point_count if self._neighbours else 0
            bias = np.append(bias, np.log((counts + 0.5) / (N - counts + 0.5)).astype(bias.dtype))
            if weights is not None:
                weights = weights._replace(indptr=np.append(weights.indptr, np.repeat(weights.indptr[-1], more)))
        return UtilityMoments(loadings, bias, weights)

    @classmethod
    def parameters_fit(cls, settings: MLGPFSettings, parameters: Parameters, D: int, K: int) -> bool:
        """Return whether arrays can be the parameters of such a model; see `Predictor`."""
        groups = {
            FACTORS: True,
            **load_method(settings).array_groups,
            CALIBRATION: None,
            LABEL_WEIGHTS: settings.label_weights,
        }
        of_points = {COUNTS: None, NEIGHBOURS: None, DENSE: None, LABEL_TEXTS: None}
        names = {name for group in of_points for name in group.arrays}
        known = {name: array for name, array in parameters.items() if name in names}
        trained = {name: array for name, array in parameters.items() if name not in names}
        sizes = _sizes_of_training(parameters, D)
        # Features and labels that are learned later are known to neighbours alone.
        fits = sizes.D <= D and sizes.K <= K if NEIGHBOURS.is_in(parameters) else sizes == (D, K)
        # What texts say of labels needs the labels of neighbours.
        fits &= NEIGHBOURS.is_in(parameters) or not LABEL_TEXTS.is_in(parameters)
        return fits and arrays_fit(trained, groups, sizes._asdict()) and arrays_fit(known, of_points, {"D": D, "K": K})

    @property
    def no_points(self) -> Features:
        """The features of no points; see `Predictor`."""
        return no_points(self.feature_count, 0, self._neighbours.width if self._neighbours else 0).features

    def prepare(self, features: Features, output: str, with_std: bool) -> _Prepared:
        """Return the moments of the latent functions, and the other terms of utilities; see `Predictor`."""
        weighted = self._preprocessed.weigh(features)
        trained = self._trained_features(weighted)
        if with_std or output != "utility":
            moments = self._latent.moments(self._points(trained))
        else:
            # Utilities alone need no variance.
            moments = Moments(self._latent_mean(trained), None)  # type: ignore[arg-type]
        batch = self._utilities.batch(moments, trained.sparse)
        predicted = self._neighbours.predict(weighted) if self._neighbours else None
        texts = None
        if self._texts and predicted:
            texts = self._texts.log_odds(self._texts.evidence(trained.sparse, predicted.shares))
        return _Prepared(batch, predicted, texts)

    def scores(self, points: _Prepared, labels: slice, output: str) -> NDArray[np.floating]:
        """Return the scores of a block of labels, B×L; see `Predictor`."""
        return logistic_scores(*self._moments(points, labels, output), output, self.nodes)

    def best_labels(self, points: _Prepared, count: int, output: str) -> NDArray[np.int32] | None:
        """Return the labels of the nearest training points and the most frequent ones; see `Predictor`.

        Where these are not enough, return those of the highest approximate probability.
        """
        if self._neighbours is not None and points.predicted is not None:
            best = self._neighbours.best_labels(points.predicted, count)
            if best is not None:
                return best if points.texts is None else united(best, labels_of_rows(points.texts))
        most = CANDIDATES * (count + 4)
        if output == "utility" or most >= self.label_count:
            return None

        def log_odds(labels: slice) -> NDArray[np.floating]:
            mean, variance = self._moments(points, labels, output)
            return approximate_log_odds(mean, 0.0 if variance is None else variance)

        return Best.of_all(log_odds, len(points.batch.latent.mean), self.label_count, most, self.dtype).labels

    def scores_of(self, points: _Prepared, labels: NDArray[np.int32], output: str) -> NDArray[np.floating]:
        """Return the scores of some labels of each point, B×k; see `Predictor`."""
        return logistic_scores(*self.pair_moments(points, labels), output, self.nodes).reshape(labels.shape)

    def std(self, points: _Prepared, labels: NDArray[np.int32], output: str) -> NDArray[np.floating]:
        """Return the standard deviations of the scores of some labels of each point, B×k; see `Predictor`."""
        return logistic_std(*self.pair_moments(points, labels), output, self.nodes).reshape(labels.shape)

    def check_explainable(self) -> None:
        """Raise SettingsError if the kernel is not linear; see `Predictor`."""
        if self._kernel != "linear":
            raise SettingsError(
                f"a model with kernel={self._kernel} cannot be explained, because its se term compares whole points, "
                "so that utilities are not sums over features; train with kernel=linear"
            )

    def contributions(self, features: Features, scores: Scores, contributions: Contributions) -> None:
        """Write the contributions of features to the utilities of some labels of each point; see `Predictor`."""
        latent_map = self._map
        if latent_map is None:
            super().contributions(features, scores, contributions)
            return
        weighted = self._preprocessed.weigh(features)
        indptr = scores.indptr
        labels = scores.labels
        contributions.bias[:] = self._utilities.bias[labels]
        if self.feature_count > self._trained.D:
            latent_map = np.pad(latent_map, [(0, self.feature_count - self._trained.D), (0, 0)])
        self._utilities.contributions(weighted.sparse, latent_map, indptr, labels, contributions.values)
        if self._neighbours and contributions.neighbours is not None:
            predicted = self._neighbours.predict(weighted)
            shares = 1 - self._neighbours.weights(predicted, indptr, labels)
            np.multiply(contributions.bias, shares, out=contributions.bias)
            of_values = np.repeat(shares, np.diff(contributions.indptr))
            np.multiply(contributions.values, of_values, out=contributions.values)
            # Pooled with zero, this is what the regression adds.
            self._neighbours.pool_pairs(predicted, indptr, labels, contributions.neighbours)
            if self._texts and contributions.texts is not None and contributions.text is not None:
                evidence = self._texts.evidence(self._trained_features(weighted).sparse, predicted.shares)
                contributions.text[:] = elements_of_pairs(evidence.texts, indptr, labels) - 1
                contributions.texts[:] = elements_of_pairs(self._texts.log_odds(evidence), indptr, labels)
                # Nothing else says anything of a label without points.
                only = self._texts.texts_only[labels]
                contributions.bias[only] = self._texts.fit[-2]
                contributions.neighbours[only] = 0
                contributions.values[np.repeat(only, np.diff(contributions.indptr))] = 0

    def supporters(self, features: Features, scores: Scores, count: int) -> list[list[Supporter]] | None:
        """Return the nearest training points that weigh most for each label; see `Predictor`."""
        if self._neighbours is None:
            return None
        return self._neighbours.supporters(self._preprocessed.weigh(features), scores.indptr, scores.labels, count)

    def _moments(
        self, points: _Prepared, labels: slice, output: str
    ) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
        """Return mean and variance of the utilities of a block of labels, B×L; no variance if the output has none."""
        mean, variance = self._utilities.moments(points.batch, labels, output != "utility")
        if self._neighbours and points.predicted is not None:
            self._neighbours.pool(points.predicted, labels, mean, variance)
        if self._texts and points.texts is not None:
            self._texts.add(points.texts[:, labels].toarray(), labels, mean, variance)
        return mean, variance

    def moments_of(
        self, features: Features, labels: NDArray[np.int32]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return mean and variance of the utilities of some labels of each point, B×L, as B·L elements."""
        mean, variance = np.empty((2, *labels.shape), self.dtype)

        def write(rows: slice) -> None:
            points = self.prepare(features[rows], "probability", False)
            part = mean[rows].shape
            mean[rows], variance[rows] = (
                values.reshape(part) for values in self.pair_moments(points, np.ascontiguousarray(labels[rows]))
            )

        for_parts(write, features.N)
        return mean.ravel(), variance.ravel()

    def pair_moments(
        self, points: _Prepared, labels: NDArray[np.int32]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return mean and variance of the utilities of some labels of each point, B·k."""
        mean, variance = self._utilities.pair_moments(points.batch, labels)
        indptr = np.arange(0, labels.size + 1, labels.shape[1])
        if self._neighbours and points.predicted is not None:
            self._neighbours.pool_pairs(points.predicted, indptr, labels.ravel(), mean, variance)
        if self._texts and points.texts is not None:
            log_odds = elements_of_pairs(points.texts, indptr, labels.ravel())
            self._texts.add(log_odds, labels.ravel(), mean, variance)
        return mean, variance

    def bytes_per_point(self, output: str, with_std: bool) -> int:
        """Return the memory that scoring takes per point; see `Predictor`."""
        M, Q = self._parameters["inducing"].shape if "inducing" in self._parameters else (0, 0)
        P = self._parameters["loadings"].shape[1]
        numbers = 4 * P
        if self._neighbours:
            numbers += self._neighbours.numbers_per_point
        if self._texts:
            numbers += self._texts.numbers_per_point
        if with_std or output != "utility" or self._map is None:
            # Covariances and their product with C⁻¹, which only the shared posterior does not have for each function.
            shared = self._parameters.get("posterior.log_diagonal", np.empty((1, 1))).ndim == 1
            numbers += Q + 2 * M * (1 if shared else P)
        return int(numbers * 8)

    @functools.cached_property
    def _map(self) -> NDArray[np.floating] | None:
        """The map of weighted features to means of the latent functions, D×P; None unless the kernel is linear."""
        with single_thread(), one_blas_thread():
            mapped = self._latent.weights()
            if mapped is None or self._preprocessed.basis is None:
                return mapped
            return dense.product(self._preprocessed.basis.T, mapped)

    def _trained_features(self, weighted: Features) -> Features:
        """Return the features that training knew."""
        count = self._trained.D
        return weighted if count == weighted.D else weighted.with_sparse(csr_array(weighted.sparse[:, :count]))

    def _points(self, weighted: Features) -> Points:
        sparse = self._preprocessed.inducing is None
        coordinates = Inputs(weighted, self._preprocessed.basis, self.dtype, dense_limit=0, sparse=sparse)
        return Points(*coordinates.rows(slice(None)))

    def _latent_mean(self, weighted: Features) -> NDArray[np.floating]:
        if self._map is None:
            return self._latent.mean(self._points(weighted))
        return sparse.product(weighted.sparse.astype(self.dtype, copy=False), self._map)


class _Prepared(NamedTuple):
    """The terms of the utilities of B points; None without neighbours, or without texts of labels."""

    batch: Batch
    predicted: Predicted | None
    texts: csr_array | None


class _Sizes(NamedTuple):
    D: int
    K: int


def _sizes_of_training(parameters: Parameters, D: int) -> _Sizes:
    """Return D and K in the training of a model; only models in weight space may have learned more than D features."""
    return _Sizes(len(parameters.get(PRIOR, range(D))), len(parameters["bias"]))


def word_scales(parameters: Parameters, D: int) -> NDArray[np.float32]:
    """Return the roots of the relevances that the latent functions of words have learned, D; 1 for later words."""
    scales = np.ones(D, np.float32)
    trained = bounded_exp(parameters[PRIOR], 0.5)
    scales[: len(trained)] = trained
    return scales
