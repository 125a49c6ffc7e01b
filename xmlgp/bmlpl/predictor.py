"""Scoring points with a trained BMLPL, in closed form."""

import numpy as np

from xmlgp.bmlpl.parameters import are_valid_parameters
from xmlgp.bmlpl.predictive import Predictive
from xmlgp.prediction.predictor import LABELS, Predictor

__all__ = ["BMLPLPredictor"]


class BMLPLPredictor(Predictor):
    """A trained BMLPL, ready to score.

    The probability of a label is p = 1 − Π_t (1 + v_t e^ψ_t)^(−r_t), activations integrated out ([B] (19)); its
    standard deviation is that of 1 − e^(−λ) over the activations. The utility is −log(1 − p), which ranks alike and
    keeps its digits where p is near one; its standard deviation is that of the rate λ.

    Parameters
    ----------
    settings : BMLPLSettings
    preprocessed : Preprocessed
    parameters : mapping of str to ndarray
        As training returns them.
    """

    def __init__(self, settings, preprocessed, parameters, feature_count=None):
        super().__init__(len(parameters["weights"]), len(parameters["topics"]), settings.dtype)
        self._preprocessed = preprocessed
        self._predictive = Predictive(parameters, self.dtype)

    @classmethod
    def from_folder(cls, folder):
        """Return the predictor of a trained model's folder, or None where its arrays do not fit; see `Predictor`."""
        from xmlgp.runs.stored import stored_preprocessing

        preprocessed, parameters = stored_preprocessing(folder), folder.arrays("parameters.")
        if not fits(folder, parameters):
            return None
        return cls(folder.settings, preprocessed, parameters)

    def all_scores(self, features, output, with_std):
        """Return scores of all labels, N×K, and their standard deviations or None, finite or not; see `score`."""
        points = self.prepare(features, output, with_std)
        scores, std = self.scores(points, slice(0, self.label_count), output), None
        if with_std:
            every = np.broadcast_to(np.arange(self.label_count, dtype=np.int32), scores.shape)
            std = self.deviations(points, np.ascontiguousarray(every), output)
        return scores, std

    def prepare(self, features, output, with_std):
        """Return the scales of activations, B×T; see `Predictor`."""
        return self._predictive.scales(self._preprocessed.weigh(features))

    def scores(self, points, labels, output):
        """Return the scores of a block of labels, B×L; see `Predictor`."""
        start, stop, _ = labels.indices(self.label_count)
        found = np.empty((len(points), stop - start), self.dtype)
        # Topics of all labels at once would be some further copies of the model.
        for first in range(start, stop, LABELS):
            block = slice(first, min(first + LABELS, stop))
            rates = self._predictive.rates(points, block)
            found[:, first - start : block.stop - start] = rates if output == "utility" else -np.expm1(-rates)
        return found

    def deviations(self, points, labels, output):
        """Return the standard deviations of the scores of some labels of each point, B×k; see `Predictor`."""
        return self._predictive.std(points, labels, output == "probability")

    def bytes_a_point(self, output, with_std):
        """Return what a point needs while it is scored; see `Predictor`."""
        return 6 * self._predictive.topic_count * self.dtype.itemsize


def fits(folder, parameters):
    """Return whether there are the parameters of a model of this kind, and no others.

    Parameters
    ----------
    folder : ModelFolder
        At stage "trained".
    parameters : mapping of str to ndarray
        A stranger's.
    """
    D, K = (folder.description["data"][name] for name in "DK")
    T = len(parameters["shapes"])
    asked = folder.settings.topics
    return T > 0 and (asked is None or min(asked, K) == T) and are_valid_parameters(parameters, (D, K, T))
