"""The estimator of GPC, Gaussian-process classification of points into two classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from xmlgp.api.memory import columns_of
from xmlgp.api.points import TrainingData
from xmlgp.data.dataset import Dataset
from xmlgp.data.formats import REPOSITORY
from xmlgp.estimators.estimator import Estimator
from xmlgp.estimators.from_settings import with_settings_of
from xmlgp.estimators.inputs import MatrixLike, check_given, read_features
from xmlgp.models.gpc.record import GPC
from xmlgp.text.names import Names

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self

__all__ = ["GPCClassifier"]


@with_settings_of(GPC)
class GPCClassifier(Estimator):
    """Binary classification by a Gaussian process with inducing inputs ([I]), for two classes of any kind.

    Utilities are the means of the latent function, probabilities E σ(f), integrated over the posterior. See
    `Estimator` for the other methods and attributes.

    Attributes
    ----------
    classes_ : ndarray, 2
        The classes in ascending order; the commands write the probability of the second one. They are 0 and 1 if
        `xmlgp train` has written the model.
    """

    #: Features that are standardised later may be far from zero.
    feature_dtype = np.float64

    @property
    def classes_(self) -> NDArray[Any]:
        """The two classes, in ascending order."""
        classes = self.model_.classes
        return np.array([0, 1]) if classes is None else classes

    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Train on points and their classes; return the estimator itself.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame, N×D
        y : array, N
            With two different values, otherwise there is a ValueError.
        """
        check_given(self, y)
        features = read_features(X, None, self.feature_dtype)
        names = Names(None, columns_of(X, "feature"))
        values = column_or_1d(y, warn=True)
        check_consistent_length(features.sparse, values)
        check_classification_targets(values)
        classes, codes = np.unique(values, return_inverse=True)
        if len(classes) != 2:
            count = "one class" if len(classes) == 1 else f"{len(classes)} classes"
            raise ValueError(f"Only binary classification is supported, but y has {count}")
        dataset = Dataset(features, sp.csr_array(codes[:, None].astype(bool)))
        self._fit(TrainingData(dataset, REPOSITORY, names))
        self.model_.classes = classes
        return self

    def decision_function(self, X: MatrixLike) -> NDArray[np.floating]:
        """Return the means of the latent function, N, above zero where the second class is more likely."""
        return self._score(self._features_of_fit(X), "utility")[:, 0]

    def predict_proba(self, X: MatrixLike) -> NDArray[np.floating]:
        """Return the probabilities of both classes, N×2."""
        second = self._score(self._features_of_fit(X), "probability")
        return np.hstack([1 - second, second])

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the more likely class, N."""
        second = self.decision_function(X) > 0
        classes: NDArray[Any] = self.classes_[second.astype(int)]
        return classes

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags
