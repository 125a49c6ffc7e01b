"""Predictions of MLGPF: means and variances of the utilities of labels, and probabilities integrated over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs, Points
from xmlgp.features.pipeline import Preprocessed
from xmlgp.gp.expectations import approximate_log_odds, expected_sigmoid
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.parameters import bounded_exp
from xmlgp.gp.weight_space import PRIOR
from xmlgp.linear_algebra import dense, sparse
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, arrays_fit
from xmlgp.models.mlgpf.label_weights.posterior import LABEL_WEIGHTS, LabelWeights
from xmlgp.models.mlgpf.label_weights.utilities import linear_utilities, prepare_points
from xmlgp.models.mlgpf.methods import Parameters, load_method, log_odds
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.neighbours.label_texts import LABEL_TEXTS, TextTerm
from xmlgp.neighbours.predictions import DENSE, NEIGHBOURS, Neighbours, NeighbourTerm
from xmlgp.prediction.calibration import CALIBRATION, Calibration
from xmlgp.prediction.contributions import Contributions
from xmlgp.prediction.predictor import Predictor, score_std
from xmlgp.prediction.terms import Pairs, Prepared, Utilities
from xmlgp.prediction.top_k import best_of_blocks, for_parts, labels_of_rows, united
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.threads import one_blas_thread, single_thread
from xmlgp.training.result import LABEL_COUNTS

__all__ = ["MLGPFPredictor", "word_scales"]

#: The k best labels are sought among the `CANDIDATES` (k + `CANDIDATES_OFFSET`) labels of highest approximate
#: probability.
CANDIDATES = 8
CANDIDATES_OFFSET = 4

#: The arrays of Φ and b.
FACTORS = ArrayGroup(loadings=Array("K P"), bias=Array("K"))

#: The name of the array of `LABEL_COUNTS`.
(LABEL_COUNTS_NAME,) = LABEL_COUNTS.arrays


class MLGPFPredictor(Predictor):
    """A trained MLGPF, which scores points.

    The utility is the mean of q(f), pooled with the regression on the nearest training points if the model has them
    (`xmlgp.neighbours`). The probability is E σ(f) under the same distribution; standard deviations are those of f and
    of σ(f) ([S] A.3). If points were held out in training, probabilities are calibrated
    (`xmlgp.prediction.calibration`). The default output is the one that the settings rank labels by.

    With a linear kernel the utility of label k is a sum over the weighted features x_d of a point. `explain` returns
    its terms x_d (Σ_p φ_kp t_dp + m_kd), where the latent functions have the means h_p(x) = Σ_d t_dp x_d, and m are the
    means of the label weights, and the bias b_k. This is exact for the linear part. The regression compares whole
    points, so it has no terms of single features: where utilities are pooled with it, the terms of the linear part have
    the weight of that part in the pool, and the log odds that the regression predicts are a term.
    """

    def __init__(
        self, settings: MLGPFSettings, preprocessed: Preprocessed, parameters: Parameters, feature_count: int
    ) -> None:
        #: D and K in training. Only neighbours use the features and labels that were learned later.
        self._training_sizes = _training_sizes(parameters, feature_count)
        label_count = len(parameters.get(LABEL_COUNTS_NAME, parameters["bias"]))
        neighbours = Neighbours.of(parameters, feature_count, label_count)
        self._neighbours = neighbours and NeighbourTerm(
            neighbours, word_scales(parameters, feature_count), parameters[LABEL_COUNTS_NAME], self._training_sizes.K
        )
        width = self._neighbours.width if self._neighbours else 0
        super().__init__(feature_count, label_count if neighbours else self._training_sizes.K, settings.dtype, width)
        self.default_output = settings.ranking
        self._kernel = settings.kernel
        if "inducing" not in parameters:
            # Dense products of models in weight space are those of `product_by_rows`; see `Predictor.min_points`.
            self.min_points = 2
        self._preprocessed = preprocessed
        self._parameters = parameters
        # Results do not depend on the number of cores.
        with single_thread(), one_blas_thread():
            self._latent = load_method(settings).predict(parameters)
            #: The map of weighted features to means of the latent functions, D×P; None unless the kernel is linear.
            self._map = self._latent.weights()
            if self._map is not None and preprocessed.basis is not None:
                self._map = dense.product(preprocessed.basis.T, self._map)
        self.pooled = neighbours is not None
        self._texts = TextTerm(parameters, parameters[LABEL_COUNTS_NAME]) if LABEL_TEXTS.is_in(parameters) else None
        if self._texts:
            self.uncalibrated = self._texts.texts_only
        #: Nodes of the quadrature of E σ(f).
        self.nodes = settings.nodes
        if "calibration" in parameters:
            self.calibration = Calibration(parameters["calibration"])
        self._linear = self._linear_utilities()
        others = [term for term in (self._neighbours, self._texts) if term]
        self._utilities = self._linear._replace(terms=[*self._linear.terms, *others])

    def _linear_utilities(self) -> Utilities:
        """Return Φ h + b + W x; for labels that were learned after training, the log odds of their frequency."""
        loadings, bias = (self._parameters[name] for name in FACTORS.arrays)
        weights = LabelWeights.of(self._parameters)
        latent_weights = self._map
        if latent_weights is not None and self.feature_count > self._training_sizes.D:
            latent_weights = np.pad(latent_weights, [(0, self.feature_count - self._training_sizes.D), (0, 0)])
        new_labels = self.label_count - self._training_sizes.K
        if new_labels and self._neighbours:
            loadings = np.pad(loadings, [(0, new_labels), (0, 0)])
            counts = self._parameters[LABEL_COUNTS_NAME][-new_labels:]
            bias = np.append(bias, log_odds(counts, self._neighbours.point_count).astype(bias.dtype))
            if weights is not None:
                weights = weights._replace(indptr=np.pad(weights.indptr, (0, new_labels), mode="edge"))
        return linear_utilities(loadings, bias, weights, latent_weights)

    @classmethod
    def parameters_fit(cls, settings: MLGPFSettings, parameters: Parameters, D: int, K: int) -> bool:
        """Return whether arrays can be the parameters of such a model; see `Predictor`."""
        groups = {
            FACTORS: True,
            **load_method(settings).array_groups,
            CALIBRATION: None,
            LABEL_WEIGHTS: settings.label_weights,
        }
        # These have the features and labels that were learned after training, too; the others have those of training.
        current_groups = {LABEL_COUNTS: None, NEIGHBOURS: None, DENSE: None, LABEL_TEXTS: None}
        names = {name for group in current_groups for name in group.arrays}
        current = {name: array for name, array in parameters.items() if name in names}
        trained = {name: array for name, array in parameters.items() if name not in names}
        sizes = _training_sizes(parameters, D)
        fits = sizes.D <= D and sizes.K <= K if NEIGHBOURS.is_in(parameters) else sizes == (D, K)
        # The term of label texts uses the labels of neighbours.
        fits &= NEIGHBOURS.is_in(parameters) or not LABEL_TEXTS.is_in(parameters)
        return (
            fits
            and arrays_fit(trained, groups, sizes._asdict())
            and arrays_fit(current, current_groups, {"D": D, "K": K})
        )

    def prepare(self, features: Features, output: str, with_std: bool) -> Prepared:
        """Return the inputs of the terms of the utilities at points; see `Predictor`."""
        weighted = self._preprocessed.weigh(features)
        trained = self._trained_features(weighted)
        if with_std or output != "utility":
            moments = self._latent.moments(self._points(trained))
        else:
            # Mean utilities need no variance.
            moments = Moments(self._latent_mean(trained), None)  # type: ignore[arg-type]
        linear = prepare_points(self._linear, moments, trained.sparse)
        return linear._replace(of_terms=[*linear.of_terms, *self._other_inputs(weighted, trained)])

    def _other_inputs(self, weighted: Features, trained: Features) -> Iterator[Any]:
        """Yield what the terms of neighbours and label texts need, those the model has; see `prepare`.

        `weighted` has all features, `trained` only those of training.
        """
        if self._neighbours:
            predicted = self._neighbours.predict(weighted)
            yield predicted
            if self._texts:
                yield self._texts.predict(trained.sparse, predicted.shares)

    def scores(self, points: Prepared, labels: slice | NDArray[np.int32], output: str) -> NDArray[np.floating]:
        """Return the scores of a block of labels, or of some labels of each point, B×L; see `Predictor`."""
        if output == "utility":
            return self._utilities.means(points, labels)
        return expected_sigmoid(*self._utilities.moments(points, labels), self.nodes)

    def std(self, points: Prepared, labels: NDArray[np.int32], output: str) -> NDArray[np.floating]:
        """Return the standard deviations of the scores of some labels of each point, B×k; see `Predictor`."""
        return score_std(*self._utilities.moments(points, labels), output, self.nodes)

    def best_labels(self, points: Prepared, count: int, output: str) -> NDArray[np.int32] | None:
        """Return candidates for the best labels of each point, or None to score all labels; see `Predictor`.

        They are the labels of the nearest training points, the most frequent ones, and those of the nearest label
        texts. If the model has no neighbours, or they miss too many of the best labels, they are the labels of highest
        approximate probability.
        """
        if self._neighbours:
            predicted, *text_predictions = points.of_terms[len(self._linear.terms) :]
            best = self._neighbours.best_labels(predicted, count)
            if best is not None:
                return united(best, labels_of_rows(text_predictions[0].log_odds)) if text_predictions else best
        candidate_count = CANDIDATES * (count + CANDIDATES_OFFSET)
        if output == "utility" or candidate_count >= self.label_count:
            return None

        def approximate(labels: slice) -> NDArray[np.floating]:
            return approximate_log_odds(*self._utilities.moments(points, labels))

        return best_of_blocks(approximate, points.size, self.label_count, candidate_count, self.dtype)[0]

    def check_explainable(self) -> None:
        """Raise SettingsError if the kernel is not linear; see `Predictor`."""
        if self._kernel != "linear":
            raise SettingsError(
                f"a model with kernel={self._kernel} cannot be explained, because its se term compares whole points, "
                "so that utilities are not sums over features; train with kernel=linear"
            )

    def contributions(self, features: Features, pairs: Pairs, count: int) -> Contributions:
        """Return the contributions of features to the utilities of pairs; see `Predictor`."""
        weighted = self._preprocessed.weigh(features)
        inputs = list(self._other_inputs(weighted, self._trained_features(weighted)))
        # The linear terms are explained without their inputs.
        points = Prepared(features.N, [None] * len(self._linear.terms) + inputs)
        contributions = self._utilities.explain(points, pairs, weighted.sparse)
        if self._neighbours:
            contributions.supporters = self._neighbours.supporters(inputs[0], pairs, weighted.sparse, count)
        return contributions

    def moments(
        self, features: Features, labels: NDArray[np.int32]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return the means and variances of the utilities of some labels of each point, B×L; `labels` is B×L."""

        def part(rows: slice) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
            return self._utilities.moments(self.prepare(features[rows], "probability", False), labels[rows])

        mean, variance = zip(*for_parts(part, features.N), strict=True)
        return np.concatenate(mean), np.concatenate(variance)

    def _trained_features(self, weighted: Features) -> Features:
        """Return the features without those that were learned after training."""
        count = self._training_sizes.D
        return weighted if count == weighted.D else weighted.with_sparse(csr_array(weighted.sparse[:, :count]))

    def _points(self, weighted: Features) -> Points:
        """Return weighted points in the coordinates of the kernel."""
        is_sparse = self._preprocessed.inducing is None
        coordinates = Inputs(weighted, self._preprocessed.basis, self.dtype, dense_limit=0, sparse=is_sparse)
        return coordinates.rows(slice(None))

    def _latent_mean(self, weighted: Features) -> NDArray[np.floating]:
        """Return the means of the latent functions, B×P."""
        if self._map is None:
            return self._latent.mean(self._points(weighted))
        return sparse.product(weighted.sparse.astype(self.dtype, copy=False), self._map)


class _Sizes(NamedTuple):
    """The numbers of features and labels of a model in training."""

    D: int
    K: int


def _training_sizes(parameters: Parameters, D: int) -> _Sizes:
    """Return D and K in training, given the current D, which can be larger only for models in weight space."""
    return _Sizes(len(parameters[PRIOR]) if PRIOR in parameters else D, len(parameters["bias"]))


def word_scales(parameters: Parameters, D: int) -> NDArray[np.float32]:
    """Return the scale of each word in the search for neighbours, D.

    It is the prior standard deviation of the weights of the word, which the latent functions learned, and 1 for words
    that were learned after training.
    """
    scales = np.ones(D, np.float32)
    # The parameters are log variances; the power ½ gives standard deviations.
    trained_scales = bounded_exp(parameters[PRIOR], 0.5)
    scales[: len(trained_scales)] = trained_scales
    return scales
