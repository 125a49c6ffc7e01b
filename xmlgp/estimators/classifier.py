"""The base class of the multi-label classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from xmlgp.api.memory import check_columns, columns_of
from xmlgp.api.points import TrainingData
from xmlgp.api.predict import Predictions, matrix, predict
from xmlgp.api.source import DenseFeatures
from xmlgp.cluster.connection import open_work
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.data.formats import REPOSITORY
from xmlgp.estimators.estimator import Estimator
from xmlgp.estimators.features import MatrixLike, check_feature_count, read_features, unlabelled
from xmlgp.estimators.labels import read_labels
from xmlgp.prediction.assignment import ABOVE_HALF
from xmlgp.runtime.errors import SettingsError
from xmlgp.text.names import Names

if TYPE_CHECKING:
    from distributed import Client
    from sklearn.utils import Tags
    from typing_extensions import Self

__all__ = ["Classifier"]


class Classifier(Estimator):
    """A multi-label classifier; see `Estimator` for its other attributes.

    Attributes
    ----------
    classes_ : ndarray, K×2
        [0, 1] for each of the K labels. Their names, if y was a DataFrame, are `names_.labels`.
    """

    @property
    def classes_(self) -> NDArray[np.int_]:
        """[0, 1] for each label, K×2: an array, as scikit-learn's `cross_val_predict` needs it."""
        return np.broadcast_to([0, 1], (self.model_.data["K"], 2))

    def fit(
        self, X: MatrixLike, y: MatrixLike, client: Client | None = None, *, dense: DenseFeatures | None = None
    ) -> Self:
        """Train on points and their labels; return the estimator itself.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame, N×D
            Features, weighted like counts of words.
        y : array, sparse matrix or DataFrame, N×K
            Nonzero where a point has a label. A DataFrame names its labels by its columns.
        client : distributed.Client, optional
            The client of a Dask cluster to train on.
        dense : array or path of a .npy file, N×E, optional
            Dense features of the points beside X, such as embeddings, for the regression on the nearest points of an
            `MLGPFClassifier` with the default `kernel` and `inducing`.

        Raises
        ------
        SettingsError, NumericalError, ClusterError
            As for `xmlgp.train`.
        """
        points = self._points(X, y, dense)
        with open_work(client=client) as work:
            self._fit(points, work)
        return self

    def decision_function(self, X: MatrixLike, *, dense: DenseFeatures | None = None) -> NDArray[np.floating]:
        """Return the utilities of all labels, or the log odds of an `MLGPFClassifier`, N×K."""
        return self._decide(self._features_of_fit(X, dense))

    def _decide(self, features: Features) -> NDArray[np.floating]:
        """Return the numbers that labels are ranked by, N×K."""
        return self._score(features, "utility")

    def predict_proba(
        self, X: MatrixLike, client: Client | None = None, *, dense: DenseFeatures | None = None
    ) -> NDArray[np.floating]:
        """Return the probabilities of all labels, N×K, perhaps computed on the Dask cluster of a client."""
        features = self._features_of_fit(X, dense)
        if client is None:
            return self._score(features, "probability")
        with open_work(client=client) as work, self._threads():
            predictions = predict(self.model_, unlabelled(features), k="all", output="probability", work=work)
            probabilities: NDArray[np.floating] = matrix(predictions).toarray()
        return probabilities

    def predict(self, X: MatrixLike, *, dense: DenseFeatures | None = None) -> NDArray[np.int_]:
        """Return 1 where a label is assigned, N×K: where its probability is above one half."""
        with self._threads():
            scores = matrix(self._assigned(self._features_of_fit(X, dense)))
        # An assigned label may have the utility 0.
        scores.data = np.ones(scores.nnz, int)
        assigned: NDArray[np.int_] = scores.toarray()
        return assigned

    def score(
        self,
        X: MatrixLike,
        y: MatrixLike,
        sample_weight: ArrayLike | None = None,
        *,
        dense: DenseFeatures | None = None,
    ) -> float:
        """Return the share of points with exactly the true labels, scikit-learn's accuracy of several labels.

        X, y and `dense` are as for `fit`. A DataFrame with other labels, or in another order, raises a SettingsError.
        """
        check_is_fitted(self)
        check_columns("label", columns_of(y, "label"), self.names_.labels)
        assigned = self.predict(X, dense=dense)
        labels = read_labels(self, y, len(assigned)).toarray()
        if labels.shape != assigned.shape:
            raise SettingsError(f"y has {labels.shape[1]} labels, but the model was trained on {assigned.shape[1]}")
        return float(accuracy_score(labels, assigned, sample_weight=sample_weight))

    def _assigned(self, features: Features, threshold: float | None = ABOVE_HALF, k: int | None = None) -> Predictions:
        """Return the labels of probabilities from a threshold on, at most k of them; without both, all labels."""
        count = "all" if k is None and threshold is None else k
        return predict(self.model_, unlabelled(features), threshold=threshold, k=count, output="probability")

    def _points(
        self, X: MatrixLike, y: MatrixLike, dense: DenseFeatures | None = None, fitted: bool = False
    ) -> TrainingData:
        """Return points with labels, and with names if they are DataFrames, for the fitted model or a new one."""
        features = read_features(X, dense, self.feature_dtype)
        if fitted:
            check_feature_count(self, features.D, more=True)
        dataset = Dataset(features, read_labels(self, y, features.N))
        names = Names(columns_of(y, "label"), columns_of(X, "feature"))
        return TrainingData(dataset, REPOSITORY, names)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        tags.target_tags.single_output = False
        return tags
