"""The base class of the multi-label classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from xmlgp.api.memory import check_columns, columns_of
from xmlgp.api.points import TrainingData
from xmlgp.api.source import DenseFeatures
from xmlgp.cluster.connection import open_executor
from xmlgp.data.dataset import Dataset, Features
from xmlgp.data.formats import REPOSITORY
from xmlgp.estimators.estimator import Estimator
from xmlgp.estimators.inputs import MatrixLike, read_features, read_labels
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
        features = read_features(X, dense, self.feature_dtype)
        dataset = Dataset(features, read_labels(self, y, features.N))
        names = Names(columns_of(y, "label"), columns_of(X, "feature"))
        with open_executor(client=client) as executor:
            return self._fit(TrainingData(dataset, REPOSITORY, names), executor)

    def decision_function(self, X: MatrixLike, *, dense: DenseFeatures | None = None) -> NDArray[np.floating]:
        """Return the utilities of all labels, or the log odds of an `MLGPFClassifier`, N×K."""
        return self._decide(self._features_of_fit(X, dense))

    def _decide(self, features: Features) -> NDArray[np.floating]:
        """Return the numbers that labels are ranked by, N×K."""
        return self._score(features, "utility")

    def predict_proba(self, X: MatrixLike, *, dense: DenseFeatures | None = None) -> NDArray[np.floating]:
        """Return the probabilities of all labels, N×K."""
        return self._score(self._features_of_fit(X, dense), "probability")

    def predict(self, X: MatrixLike, *, dense: DenseFeatures | None = None) -> NDArray[np.int_]:
        """Return 1 where a label is assigned, N×K: where its probability is above one half."""
        return (self.predict_proba(X, dense=dense) > 1 / 2).astype(int)

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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        tags.target_tags.single_output = False
        return tags
