"""The base class of the estimators, which follow the scikit-learn API."""

import dataclasses
import inspect
from abc import ABC

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted

from xmlgp.data.dataset import Dataset
from xmlgp.errors import SettingsError
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.tuning import LONGEST, METRICS, check_labels, tune
from xmlgp.runtime.progress import silent

__all__ = ["Classifier"]


class Classifier(ABC, ClassifierMixin, BaseEstimator):
    """A multi-label classifier; its parameters are the settings of its model.

    A subclass names its model and inherits the signature of its constructor from the settings:
    `class MLGPFClassifier(Classifier, model=MLGPF)`.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        As described in docs/model-folder.md.
    history_ : list of dict
        For each epoch `epoch`, the model's objective and `seconds`.
    n_features_in_ : int
        Number of features, D.
    classes_ : list of ndarray
        [0, 1] for each of the K labels.
    assignment_rule_ : AssignmentRule or None
        The threshold on probabilities and the limit that `tune` chose.
    """

    #: Features are converted to this type.
    feature_dtype = np.float32

    def __init_subclass__(cls, model, **options):
        super().__init_subclass__(**options)
        specs = dataclasses.fields(model.settings)

        def __init__(self, **settings):
            unknown = settings.keys() - {spec.name for spec in specs}
            if unknown:
                raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {min(unknown)!r}")
            for spec in specs:
                setattr(self, spec.name, settings.get(spec.name, spec.default))

        # scikit-learn reads the names of the parameters and their defaults from the signature.
        kind = inspect.Parameter
        named = [kind(spec.name, kind.KEYWORD_ONLY, default=spec.default, annotation=spec.type) for spec in specs]
        __init__.__signature__ = inspect.Signature([kind("self", kind.POSITIONAL_OR_KEYWORD), *named])
        __init__.__doc__ = None
        cls.__init__, cls.model = __init__, model

    def fit(self, X, Y):
        """Train on points and their labels.

        Parameters
        ----------
        X : array or sparse matrix, N×D
        Y : array or sparse matrix, N×K
            Nonzero where a point has a label.

        Returns
        -------
        Classifier
            The estimator itself.

        Raises
        ------
        SettingsError
            For a setting that is not allowed, for X and Y with different numbers of points, or for training that does
            not fit into memory.
        """
        features = self._features(X)
        labels = self._labels(Y)
        if labels.shape[0] != features.shape[0]:
            raise SettingsError(f"X has {features.shape[0]} points, but Y has {labels.shape[0]}")
        return self._fit(features, labels, [np.array([0, 1])] * labels.shape[1])

    def decision_function(self, X):
        """Return the utilities of all labels, N×K."""
        return self._score(X, "utility")

    def predict_proba(self, X):
        """Return the probabilities of all labels, N×K."""
        return self._score(X, "probability")

    def predict(self, X):
        """Return 1 where a label is assigned, N×K: by the tuned rule, or where its probability is above one half."""
        probabilities = self.predict_proba(X)
        rule = self.assignment_rule_
        if rule is None:
            return (probabilities > 0.5).astype(int)
        order = np.argsort(-probabilities, axis=1, kind="stable")
        assigned = np.zeros(probabilities.shape, int)
        np.put_along_axis(assigned, order[:, : rule.limit], 1, axis=1)
        assigned[probabilities < np.float64(rule.threshold)] = 0
        return assigned

    def tune(self, X, Y, metric="f1-micro"):
        """Choose the threshold and the limit by which `predict` assigns labels; `fit` drops them.

        Parameters
        ----------
        X : array or sparse matrix, N×D
            Points that the estimator was not fitted to.
        Y : array or sparse matrix, N×K
            Nonzero where a point has a label.
        metric : str
            The F1 that is maximised: "f1-micro" over all pairs of point and label, "f1-macro", the mean over labels, or
            "f1-point", the mean over points.

        Returns
        -------
        Classifier
            The estimator itself.

        Raises
        ------
        SettingsError
            For another metric, for X and Y with other shapes than expected, or if there is one label or no true label.
        """
        check_is_fitted(self)
        if self._predictor.label_count == 1:
            raise SettingsError("there is one label, so there is no number of labels to tune")
        if metric not in METRICS:
            raise SettingsError(f"metric must be one of {', '.join(METRICS)}, not {metric!r}")
        features, labels = self._features(X), self._labels(Y)
        expected = features.shape[0], self._predictor.label_count
        if labels.shape != expected:
            raise SettingsError(f"Y must be {expected[0]}×{expected[1]}, not {labels.shape[0]}×{labels.shape[1]}")
        self._check_features(features.shape[1])
        check_labels(labels)
        k = min(LONGEST, self._predictor.label_count)
        scores = Scores.stack(list(self._predictor.top(features, k, "probability")))
        self.assignment_rule_, _ = tune(scores, labels, metric)
        return self

    def _fit(self, features, labels, classes):
        settings = self.model.settings(**self.get_params()).for_shape(*features.shape, labels.shape[1])
        self.model.check_memory(settings, Dataset(features, labels))
        preprocessed = self.model.preprocess(features, settings, silent)
        trained = self.model.train(features, labels, preprocessed, settings, silent, None)
        self.parameters_, self.history_, self.validation_history_ = trained
        self._predictor = self.model.predictor(settings, preprocessed, self.parameters_, features.shape[1])
        self.n_features_in_ = features.shape[1]
        self.classes_ = classes
        self.assignment_rule_ = None
        return self

    def _score(self, X, output):
        check_is_fitted(self)
        features = self._features(X)
        self._check_features(features.shape[1])
        scores, _ = self._predictor.score(features, output)
        return scores

    def _check_features(self, count):
        """Raise an error for points with a different number of features than those of `fit`."""
        self._predictor.check(count)

    def _labels(self, Y):
        labels = sp.csr_array(check_array(Y, accept_sparse="csr", dtype=None)).astype(bool)
        labels.eliminate_zeros()
        labels.sum_duplicates()
        return labels

    def _features(self, X):
        features = sp.csr_array(check_array(X, accept_sparse="csr", dtype=self.feature_dtype))
        if not features.has_canonical_format or not features.data.all():
            features = features.copy()
            features.sum_duplicates()
            features.eliminate_zeros()
        return features
