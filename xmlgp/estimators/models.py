"""The estimator of each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.special import logit
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from xmlgp.bmlpl.record import BMLPL
from xmlgp.data.dataset import Dataset
from xmlgp.data.formats import REPOSITORY
from xmlgp.estimators.classifier import Classifier, Estimator
from xmlgp.gpc.record import GPC
from xmlgp.inputs.memory import columns_of
from xmlgp.inputs.training_data import TrainingData
from xmlgp.mlgpf.record import MLGPF
from xmlgp.text.names import Names

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Self

    from xmlgp.estimators.classifier import Matrix

__all__ = ["BMLPLClassifier", "GPCClassifier", "MLGPFClassifier"]


class MLGPFClassifier(Classifier, model=MLGPF):
    """Multi-label classification by the Gaussian-process factor model f = Φ h + b ([S] section 3, [L] section 3).

    Utilities are the means f̄, probabilities E σ(f), integrated over the posterior. The setting `ranking` says which of
    them rank labels in `xmlgp predict`; `decision_function` returns the log odds of the probabilities, or these
    utilities. The parameters are the settings of
    `xmlgp.mlgpf.settings.MLGPFSettings`. See `Classifier` for the other methods and attributes.
    """

    def _decide(self, features):
        output = self.model_.predictor.default_output
        scores = self._score(features, output)
        if output == "utility":
            return scores
        # The log odds of a probability that is rounded to 0 or 1 would be infinite.
        rounding = np.finfo(scores.dtype)
        return logit(np.clip(scores, rounding.tiny, 1 - rounding.epsneg))


class BMLPLClassifier(Classifier, model=BMLPL):
    """Multi-label classification by topics of labels, learned from positive labels alone ([B] section 2).

    Probabilities are p = 1 − Π_t (1 + v_t e^ψ_t)^(−r_t) with ψ = Wᵀx + b, utilities −log(1 − p). The parameters are
    the settings of `xmlgp.bmlpl.settings.BMLPLSettings`. See `Classifier` for the other methods and attributes.

    Attributes
    ----------
    topics_ : ndarray, K×T
        V of `parameters_`: each column is a distribution over labels.
    """

    @property
    def topics_(self) -> np.ndarray:
        """V, K×T."""
        return self.parameters_["topics"]


class GPCClassifier(Estimator, model=GPC):
    """Binary classification by a Gaussian process with inducing inputs ([I]), for two classes of any kind.

    Utilities are the means of the latent function, probabilities E σ(f), integrated over the posterior. The parameters
    are the settings of `xmlgp.gpc.settings.GPCSettings`. See `Estimator` for the other methods and attributes.

    Attributes
    ----------
    classes_ : ndarray, 2
        The classes in ascending order; the commands write the probability of the second one. They are 0 and 1 if
        `xmlgp train` has written the model.
    """

    #: Features that are standardised later may be far from zero.
    feature_dtype = np.float64

    @property
    def classes_(self) -> np.ndarray:
        """The two classes, in ascending order."""
        classes = self.model_.classes
        return np.array([0, 1]) if classes is None else classes

    def fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Train on points and their classes; return the estimator itself.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame, N×D
        y : array, N
            With two different values, otherwise there is a ValueError.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        features = self._features(X)
        names = Names(None, columns_of(X, "feature"))
        y = column_or_1d(y, warn=True)
        check_consistent_length(features.sparse, y)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) != 2:
            count = "one class" if len(classes) == 1 else f"{len(classes)} classes"
            raise ValueError(f"Only binary classification is supported, but y has {count}")
        self._fit(TrainingData(Dataset(features, sp.csr_array(codes[:, None].astype(bool))), REPOSITORY, names))
        self.model_.classes = classes
        return self

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return the means of the latent function, N, above zero where the second class is more likely."""
        return self._score(self._known_features(X), "utility")[:, 0]

    def predict_proba(self, X: Matrix) -> np.ndarray:
        """Return the probabilities of both classes, N×2."""
        second = self._score(self._known_features(X), "probability")
        return np.hstack([1 - second, second])

    def predict(self, X: Matrix) -> np.ndarray:
        """Return the more likely class, N."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags
