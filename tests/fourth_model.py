"""A fourth model, in one file: logistic regression for each label, by gradient ascent."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xmlgp.estimators.classifier import Classifier
from xmlgp.estimators.estimator import RandomState
from xmlgp.linear_algebra import sparse
from xmlgp.model import Model
from xmlgp.prediction.logistic import logistic_scores, logistic_std
from xmlgp.prediction.predictor import Predictor
from xmlgp.preprocess.pipeline import weight_features
from xmlgp.runtime.progress import silent
from xmlgp.settings import shared
from xmlgp.settings.fields import Settings, setting
from xmlgp.training.inference import Inference
from xmlgp.training.loop import Loop
from xmlgp.training.trained import Trained

__all__ = ["LOGISTIC", "LogisticClassifier", "LogisticSettings"]

#: Quadrature nodes of the probabilities; the posterior is a point, so one is enough.
NODES = 1


@dataclass(frozen=True)
class LogisticSettings(Settings):
    """Settings of the model."""

    model: ClassVar[str] = "logistic"

    weighting: str = shared.weighting()
    iterations: int = setting(20, "Steps of gradient ascent.", minimum=1)
    step_size: float = setting(4.0, "Length of a step.", above=0)
    ridge: float = setting(1e-4, "Precision of the Gaussian prior of the weights, a point.", above=0)
    dtype: str = shared.dtype()
    seed: int = shared.seed()

    def unused(self):
        """Return `ridge` for a single step: the weights start at zero, where the prior has no gradient."""
        return {"ridge": "iterations=1"} if self.iterations == 1 else {}


class GradientAscent(Inference):
    """Maximises the mean log posterior of W and b."""

    objective = "log_posterior"

    def __init__(self, features, labels, settings):
        self.features, self.labels, self.settings = features, labels.toarray().astype(settings.dtype), settings
        self.transposed = features.T.tocsr()
        self.epochs = settings.iterations
        D, K = features.shape[1], labels.shape[1]
        self.weights, self.bias = np.zeros((D, K), settings.dtype), np.full(K, -2, settings.dtype)

    def step(self, epoch, done):
        f = sparse.product(self.features, self.weights) + self.bias
        residuals = self.labels - 1 / (1 + np.exp(-f))
        value = np.mean(self.labels * f - np.logaddexp(0, f)) - self.settings.ridge * np.square(self.weights).sum() / 2
        gradient = sparse.product(self.transposed, residuals) / len(f) - self.settings.ridge * self.weights
        self.weights += self.settings.step_size * gradient
        self.bias += self.settings.step_size * residuals.mean(axis=0)
        return float(value)

    def arrays(self):
        return self.parameters(None)

    def parameters(self, epochs):
        return {"weights": self.weights, "bias": self.bias}


def train(features, labels, preprocessed, settings, progress=silent, checkpoints=None):
    """Train as every model does."""
    weighted = preprocessed.weigh(features).sparse.astype(settings.dtype)
    return Trained(*Loop(GradientAscent, weighted, labels, settings).run(progress, checkpoints=checkpoints))


class LogisticPredictor(Predictor):
    """Scores by f = Wᵀx + b."""

    def __init__(self, settings, preprocessed, parameters, feature_count):
        super().__init__(feature_count, len(parameters["bias"]), settings.dtype)
        self._preprocessed, self._parameters = preprocessed, parameters

    @classmethod
    def parameters_fit(cls, settings, parameters, D, K):
        shapes = {name: value.shape for name, value in parameters.items()}
        return shapes == {"weights": (D, K), "bias": (K,)}

    def prepare(self, features, output, with_std):
        return self._preprocessed.weigh(features).sparse.astype(self.dtype)

    def scores(self, points, labels, output):
        weights = np.ascontiguousarray(self._parameters["weights"][:, labels])
        f = sparse.product(points, weights) + self._parameters["bias"][labels]
        return logistic_scores(f, np.zeros_like(f), output, NODES)

    def std(self, points, labels, output):
        zero = np.zeros(labels.shape, self.dtype)
        return logistic_std(zero, zero, output, NODES)

    def bytes_per_point(self, output, with_std):
        return 8 * self.label_count


LOGISTIC = Model(
    settings=LogisticSettings,
    summary="logistic regression for each label",
    preprocess=weight_features,
    train=train,
    load_predictor=lambda: LogisticPredictor,
    objective="log_posterior",
    epoch="iteration",
    notes=lambda settings, dataset: [f"learns {dataset.K} regressions"],
)


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticClassifier(Classifier, model=LOGISTIC):
    """The estimator of the model."""

    weighting: str = "root-idf"
    iterations: int = 20
    step_size: float = 4.0
    ridge: float = 1e-4
    dtype: str = "float32"
    random_state: RandomState = 0
    n_jobs: int | None = None
