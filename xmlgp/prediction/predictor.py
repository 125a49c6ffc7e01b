"""Scoring points with a trained model: utilities or probabilities of the top labels, in bounded memory."""

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.gp import expectations
from xmlgp.gp.mlgpf import MLGPF
from xmlgp.gp.products import Points
from xmlgp.models.build import stored_preprocessing
from xmlgp.prediction.scores_file import Scores

__all__ = ["OUTPUTS", "Predictor", "top_labels"]

OUTPUTS = ("utility", "probability")

#: Bytes that the largest arrays of one chunk of points may take together.
CHUNK_BYTES = 256 << 20


class Predictor:
    """A trained model, ready to score.

    Parameters
    ----------
    settings : Settings
    preprocessed : Preprocessed
        Its start of the inducing inputs is not needed.
    parameters : mapping of str to ndarray
        As training returns them.
    feature_count : int
        D.
    """

    def __init__(self, settings, preprocessed, parameters, feature_count):
        self.feature_count = feature_count
        self.label_count = len(parameters["bias"])
        self._dtype = np.dtype(settings.dtype)
        self._preprocessed = preprocessed
        self._parameters = parameters
        self._utilities = MLGPF(settings).predictive(parameters)
        self._nodes = settings.nodes

    @classmethod
    def open(cls, folder):
        """Return the predictor of a model folder.

        Parameters
        ----------
        folder : ModelFolder
            At stage "trained".

        Raises
        ------
        ModelFolderError
            Where the model was preprocessed but not trained yet, or is damaged.
        """
        if folder.stage != "trained":
            raise ModelFolderError(f"{folder.path}: the model is {folder.stage}, but not trained yet")
        preprocessed, parameters = stored_preprocessing(folder), folder.arrays("parameters.")
        D, K = (folder.description["data"][name] for name in "DK")
        try:
            predictor = cls(folder.settings, preprocessed, parameters, D)
            # No points at all are scored by arrays of the right shapes only.
            fits = predictor.utilities(sp.csr_array((0, D), dtype=np.float32))[0].shape == (0, K)
        except (LookupError, TypeError, ValueError):
            fits = False
        if not fits:
            raise ModelFolderError(f"{folder.path}: the model is damaged, its arrays do not fit each other")
        return predictor

    def check(self, feature_count):
        """Raise SettingsError for points with another number of features than the model."""
        if feature_count != self.feature_count:
            raise SettingsError(
                f"the points have {feature_count} features, but the model was trained on {self.feature_count}"
            )

    def utilities(self, features):
        """Return mean and variance of q(f_ik) for all labels, both N×K, without regard to memory.

        Parameters
        ----------
        features : csr_array, N×D
            As read, without weighting.
        """
        coordinates = self._preprocessed.coordinates(features, self._dtype, dense_limit=0)
        return self._utilities(Points(*coordinates.rows(slice(None))))

    def score(self, features, output="utility", with_std=False):
        """Return scores of all labels, N×K, and their standard deviations or None.

        The utility is its mean f̄ = Φ m + b; the probability is E σ(f) under q(f), and its standard
        deviation that of σ(f) ([S] A.3).

        Parameters
        ----------
        features : csr_array, N×D
        output : str
            One of `OUTPUTS`.
        with_std : bool
        """
        mean, variance = self.utilities(features)
        if output == "utility":
            return mean, np.sqrt(np.maximum(variance, 0)) if with_std else None
        probability = expectations.logistic(mean, variance, self._nodes)
        if not with_std:
            return probability, None
        _, half_spread = expectations.logistic_gradients(mean, variance, self._nodes)
        # half_spread is ½ E σ(1−σ), so E σ² = E σ − 2 half_spread.
        return probability, np.sqrt(np.maximum(probability - 2 * half_spread - probability**2, 0))

    def top(self, features, k, output="utility", with_std=False):
        """Yield the top labels of points (`Scores`), a chunk of points at a time.

        Parameters
        ----------
        features : csr_array, N×D
        k : int or None
            Labels a point; None for all.
        output : str
            One of `OUTPUTS`.
        with_std : bool

        Raises
        ------
        SettingsError
            Where the points have another number of features than the model.
        """
        self.check(features.shape[1])
        width = max(self.label_count, *self._parameters["inducing"].shape) * self._dtype.itemsize
        chunk = max(1, CHUNK_BYTES // (6 * width))
        for start in range(0, features.shape[0], chunk):
            scores, std = self.score(features[start : start + chunk], output, with_std)
            yield top_labels(scores, std, min(k or self.label_count, self.label_count))


def top_labels(scores, std, k):
    """Return the k labels of highest score of each point, best first, equal ones by label (`Scores`).

    Parameters
    ----------
    scores : ndarray, B×K
    std : ndarray, B×K, or None
    k : int
        At most K.
    """
    if k < scores.shape[1]:
        labels = np.argpartition(scores, -k, axis=1)[:, -k:]
        # Where more labels than k reach the least of these scores, the partition chose among them at random.
        least = np.take_along_axis(scores, labels, axis=1).min(axis=1, keepdims=True)
        tied = np.flatnonzero(np.count_nonzero(scores >= least, axis=1) > k)
        labels[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
        labels.sort(axis=1)
    else:
        labels = np.broadcast_to(np.arange(k), (len(scores), k))
    order = np.argsort(-np.take_along_axis(scores, labels, axis=1), axis=1, kind="stable")
    labels = np.take_along_axis(labels, order, axis=1)
    picked = (None if values is None else np.take_along_axis(values, labels, axis=1) for values in (scores, std))
    picked_scores, picked_std = picked
    return Scores.from_top(labels, picked_scores, scores.shape[1], picked_std)
