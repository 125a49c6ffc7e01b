"""xmlgp for Python users: an estimator with scikit-learn's manners."""

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted

from xmlgp.errors import SettingsError
from xmlgp.prediction.mlgpf import MLGPFPredictor
from xmlgp.preprocess.pipeline import preprocess
from xmlgp.settings import MLGPFSettings
from xmlgp.training.fit import fit

__all__ = ["MLGPFClassifier"]


class MLGPFClassifier(ClassifierMixin, BaseEstimator):
    """Multi-label classification by the Gaussian-process factor model f = Φ h + b ([S] section 3, [L] section 3).

    Parameters
    ----------
    weighting, inducing, basis_size, inducing_count, inducing_start, inducing_fixed, kernel, ard, lengthscale, \
posterior, diagonal, start, factors, label_weights, regression_points, nodes, negatives, sampling, \
optimiser, learning_rate, schedule, epochs, validation, patience, refit, batch_size, batch_size_first, dtype, seed
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

    def fit(self, X, Y):
        """Train on points and their labels.

        Parameters
        ----------
        X : array or sparse matrix, N×D
        Y : array or sparse matrix, N×K
            Nonzero where a point has a label.

        Returns
        -------
        MLGPFClassifier
            Itself.

        Raises
        ------
        SettingsError
            For a setting that is not allowed, or X and Y that do not fit each other.
        """
        settings = MLGPFSettings(**self.get_params())
        features = self._features(X)
        labels = sp.csr_array(check_array(Y, accept_sparse="csr", dtype=None)).astype(bool)
        labels.eliminate_zeros()
        labels.sum_duplicates()
        if labels.shape[0] != features.shape[0]:
            raise SettingsError(f"X has {features.shape[0]} points, but Y has {labels.shape[0]}")
        preprocessed = preprocess(features, settings)
        coordinates = preprocessed.coordinates(features, settings.dtype)
        found = fit(coordinates, labels, preprocessed.inducing, settings)
        self.parameters_, self.history_, self.validation_history_ = found
        self.n_features_in_ = features.shape[1]
        self.classes_ = [np.array([0, 1])] * labels.shape[1]
        self._predictor = MLGPFPredictor(settings, preprocessed, self.parameters_, features.shape[1])
        return self

    def decision_function(self, X):
        """Return the mean utilities f̄ of all labels, N×K, by which labels are ranked."""
        return self._score(X, "utility")

    def predict_proba(self, X):
        """Return the probabilities E σ(f) of all labels, N×K, integrated over the posterior."""
        return self._score(X, "probability")

    def predict(self, X):
        """Return 1 where a label is more likely than not, N×K."""
        return (self.predict_proba(X) > 0.5).astype(int)

    def _score(self, X, output):
        check_is_fitted(self)
        features = self._features(X)
        self._predictor.check(features.shape[1])
        scores, _ = self._predictor.score(features, output)
        return scores

    def _features(self, X):
        features = sp.csr_array(check_array(X, accept_sparse="csr", dtype=np.float32))
        if not features.has_canonical_format:
            features = features.copy()
            features.sum_duplicates()
        return features
