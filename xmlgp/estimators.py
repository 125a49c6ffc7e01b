"""xmlgp for Python users: an estimator for each model, with scikit-learn's manners."""

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d

from xmlgp.bmlpl.predictor import BMLPLPredictor
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.bmlpl.train import train_topics
from xmlgp.errors import SettingsError
from xmlgp.gpc.predictor import GPCPredictor
from xmlgp.gpc.settings import GPCSettings
from xmlgp.gpc.train import train_gpc
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import fit
from xmlgp.preprocess.pipeline import preprocess

__all__ = ["BMLPLClassifier", "GPCClassifier", "MLGPFClassifier"]


class _Classifier(ABC, ClassifierMixin, BaseEstimator):
    """What the classifiers of all models have in common: their parameters are the settings of the model."""

    #: The class of those settings.
    settings_class = None

    _feature_dtype = np.float32

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
            Itself.

        Raises
        ------
        SettingsError
            For a setting that is not allowed, or X and Y that do not fit each other.
        """
        features = self._features(X)
        labels = sp.csr_array(check_array(Y, accept_sparse="csr", dtype=None)).astype(bool)
        labels.eliminate_zeros()
        labels.sum_duplicates()
        if labels.shape[0] != features.shape[0]:
            raise SettingsError(f"X has {features.shape[0]} points, but Y has {labels.shape[0]}")
        return self._fit(features, labels, [np.array([0, 1])] * labels.shape[1])

    def decision_function(self, X):
        """Return the utilities of all labels, N×K, by which labels are ranked."""
        return self._score(X, "utility")

    def predict_proba(self, X):
        """Return the probabilities of all labels, N×K."""
        return self._score(X, "probability")

    def predict(self, X):
        """Return 1 where a label is more likely than not, N×K."""
        return (self.predict_proba(X) > 0.5).astype(int)

    def _fit(self, features, labels, classes):
        settings = self.settings_class(**self.get_params())
        preprocessed = preprocess(features, settings)
        self._predictor = self._train(features, labels, preprocessed, settings)
        self.n_features_in_ = features.shape[1]
        self.classes_ = classes
        return self

    def _score(self, X, output):
        check_is_fitted(self)
        features = self._features(X)
        self._check(features.shape[1])
        scores, _ = self._predictor.score(features, output)
        return scores

    def _check(self, feature_count):
        """Raise an error for points with another number of features than those of `fit`."""
        self._predictor.check(feature_count)

    def _features(self, X):
        features = sp.csr_array(check_array(X, accept_sparse="csr", dtype=self._feature_dtype))
        if not features.has_canonical_format or not features.data.all():
            features = features.copy()
            features.sum_duplicates()
            features.eliminate_zeros()
        return features

    @abstractmethod
    def _train(self, features, labels, preprocessed, settings):
        """Train, keep what is to be seen of it, and return the predictor.

        Parameters
        ----------
        features : csr_array, N×D
        labels : csr_array of bool, N×K
        preprocessed : Preprocessed
        settings : Settings
            Of `settings_class`.
        """


class MLGPFClassifier(_Classifier):
    """Multi-label classification by the Gaussian-process factor model f = Φ h + b ([S] section 3, [L] section 3).

    Its utilities are the means f̄, its probabilities E σ(f), integrated over the posterior.

    Parameters
    ----------
    weighting, inducing, basis_size, inducing_count, inducing_start, inducing_fixed, kernel, ard, lengthscale, \
posterior, diagonal, start, factors, label_weights, regression_points, expectations, nodes, negatives, \
sampling, optimiser, learning_rate, schedule, epochs, validation, patience, refit, batch_size, batch_size_first, \
dtype, seed
        The settings of `xmlgp train`, by the same names and with the same defaults; see `xmlgp.settings.MLGPFSettings`.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        As described in docs/model-folder.md.
    history_ : list of dict
        For each epoch `epoch`, `bound` and `seconds`.
    validation_history_ : list of dict or None
        The same, with `ndcg@5`, of the training that was stopped by held-out points; None where none were held out.
    n_features_in_ : int
        D.
    classes_ : list of ndarray
        [0, 1] for each of the K labels.
    """

    settings_class = MLGPFSettings

    def __init__(
        self,
        *,
        weighting="root-idf",
        inducing="free",
        basis_size=1000,
        inducing_count=200,
        inducing_start="rows",
        inducing_fixed=False,
        kernel="linear",
        ard=True,
        lengthscale=0.7,
        posterior="shared-diagonal",
        diagonal=1.0,
        start="newton",
        factors=100,
        label_weights=None,
        regression_points=25_000,
        expectations="quadrature",
        nodes=10,
        negatives=None,
        sampling="frequency",
        optimiser="adam",
        learning_rate=None,
        schedule="linear",
        epochs=None,
        validation=0.1,
        patience=10,
        refit=True,
        batch_size=500,
        batch_size_first=None,
        dtype="float32",
        seed=0,
    ):
        self.weighting = weighting
        self.inducing = inducing
        self.basis_size = basis_size
        self.inducing_count = inducing_count
        self.inducing_start = inducing_start
        self.inducing_fixed = inducing_fixed
        self.kernel = kernel
        self.ard = ard
        self.lengthscale = lengthscale
        self.posterior = posterior
        self.diagonal = diagonal
        self.start = start
        self.factors = factors
        self.label_weights = label_weights
        self.regression_points = regression_points
        self.expectations = expectations
        self.nodes = nodes
        self.negatives = negatives
        self.sampling = sampling
        self.optimiser = optimiser
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.epochs = epochs
        self.validation = validation
        self.patience = patience
        self.refit = refit
        self.batch_size = batch_size
        self.batch_size_first = batch_size_first
        self.dtype = dtype
        self.seed = seed

    def _train(self, features, labels, preprocessed, settings):
        coordinates = preprocessed.coordinates(features, settings.dtype)
        found = fit(coordinates, labels, preprocessed.inducing, settings)
        self.parameters_, self.history_, self.validation_history_ = found
        return MLGPFPredictor(settings, preprocessed, self.parameters_, features.shape[1])


class BMLPLClassifier(_Classifier):
    """Multi-label classification by topics of labels, learned from positive labels alone ([B] section 2).

    Its probabilities are p = 1 − Π_t (1 + v_t e^ψ_t)^(−r_t) with ψ = Wᵀx + b, its utilities −log(1 − p).

    Parameters
    ----------
    weighting, inference, topics, iterations, cg_steps, concentration, precision, learn_precision, burn_in, thinning, \
revealed, batch_size, dtype, seed
        The settings of `xmlgp train --model bmlpl`, by the same names and with the same defaults; see
        `xmlgp.settings.BMLPLSettings`.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        As described in docs/model-folder.md.
    topics_ : ndarray, K×T
        V of these: each column is a distribution over labels.
    history_ : list of dict
        For each pass `epoch`, `log_posterior` and `seconds`.
    n_features_in_ : int
        D.
    classes_ : list of ndarray
        [0, 1] for each of the K labels.
    """

    settings_class = BMLPLSettings

    def __init__(
        self,
        *,
        weighting="root-idf",
        inference="em-cg",
        topics=None,
        iterations=None,
        cg_steps=2,
        concentration=0.01,
        precision=0.3,
        learn_precision=False,
        burn_in=None,
        thinning=5,
        revealed=1.0,
        batch_size=500,
        dtype="float32",
        seed=0,
    ):
        self.weighting = weighting
        self.inference = inference
        self.topics = topics
        self.iterations = iterations
        self.cg_steps = cg_steps
        self.concentration = concentration
        self.precision = precision
        self.learn_precision = learn_precision
        self.burn_in = burn_in
        self.thinning = thinning
        self.revealed = revealed
        self.batch_size = batch_size
        self.dtype = dtype
        self.seed = seed

    def _train(self, features, labels, preprocessed, settings):
        coordinates = preprocessed.coordinates(features, settings.dtype)
        self.parameters_, self.history_ = train_topics(coordinates, labels, settings)
        self.topics_ = self.parameters_["topics"]
        return BMLPLPredictor(settings, preprocessed, self.parameters_)


class GPCClassifier(_Classifier):
    """Binary classification by a Gaussian process with inducing inputs ([I]), for two classes of any kind.

    Its utilities are the means of the latent function, its probabilities E σ(f), integrated over the posterior.

    Parameters
    ----------
    standardise, inference, inducing_count, iterations, batch_size, learning_rate, nodes, seed
        The settings of `xmlgp train --model gpc`, by the same names and with the same defaults; see
        `xmlgp.settings.GPCSettings`.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        As described in docs/model-folder.md.
    history_ : list of dict
        For each iteration `epoch`, `bound` and `seconds`.
    n_features_in_ : int
        D.
    classes_ : ndarray, 2
        The classes in ascending order; the second is the one whose probability the commands write.
    """

    settings_class = GPCSettings

    # What is standardised may be far from zero.
    _feature_dtype = np.float64

    def __init__(
        self,
        *,
        standardise=True,
        inference="vi-taylor",
        inducing_count=200,
        iterations=None,
        batch_size=500,
        learning_rate=None,
        nodes=10,
        seed=0,
    ):
        self.standardise = standardise
        self.inference = inference
        self.inducing_count = inducing_count
        self.iterations = iterations
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.nodes = nodes
        self.seed = seed

    def fit(self, X, y):
        """Train on points and their classes.

        Parameters
        ----------
        X : array or sparse matrix, N×D
        y : array, N
            Of two different values.

        Returns
        -------
        GPCClassifier
            Itself.

        Raises
        ------
        SettingsError
            For a setting that is not allowed.
        ValueError
            For X and y that do not fit each other, and for other than two classes.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        features, y = self._features(X), column_or_1d(y, warn=True)
        check_consistent_length(features, y)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) != 2:
            told = "one class" if len(classes) == 1 else f"{len(classes)} classes"
            raise ValueError(f"Only binary classification is supported, but y has {told}")
        return self._fit(features, sp.csr_array(codes[:, None].astype(bool)), classes)

    def decision_function(self, X):
        """Return the means of the latent function, N, above zero where the second class is more likely."""
        return super().decision_function(X)[:, 0]

    def predict_proba(self, X):
        """Return the probabilities of both classes, N×2."""
        second = super().predict_proba(X)
        return np.hstack([1 - second, second])

    def predict(self, X):
        """Return the class that is more likely, N."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _check(self, feature_count):
        if feature_count != self.n_features_in_:
            wanted = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
            raise ValueError(f"X has {feature_count} features, but {wanted}")

    def _train(self, features, labels, preprocessed, settings):
        coordinates = preprocessed.coordinates(features, settings.dtype)
        self.parameters_, self.history_ = train_gpc(coordinates, labels, preprocessed.inducing, settings)
        return GPCPredictor(settings, preprocessed, self.parameters_)
