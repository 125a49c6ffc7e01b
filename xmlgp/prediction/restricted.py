"""Rank only some of a model's labels."""

import numpy as np

from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.scores_file import Scores

__all__ = ["RestrictedPredictor"]


class RestrictedPredictor:
    """A predictor that lists allowed labels only, at least one; their scores are those among all labels.

    `allowed` is an ndarray of bool, K. Of a `Predictor` it has what `assign` needs.
    """

    def __init__(self, predictor, allowed):
        self._predictor, self._allowed = predictor, allowed
        self.label_count = int(np.count_nonzero(allowed))
        self.feature_count, self.default_output = predictor.feature_count, predictor.default_output

    def check(self, feature_count):
        """Raise SettingsError if points do not have the model's number of features."""
        self._predictor.check(feature_count)

    def top(self, features, k, output=None, with_std=False, memory=MEMORY):
        """Yield the allowed labels of highest score (`Scores`), a chunk of points at a time; see `Predictor.top`."""
        k = min(k or self.label_count, self.label_count)
        # So many labels contain the k best that are allowed.
        listed = k + len(self._allowed) - self.label_count
        for ranked in self._predictor.top(features, listed, output, with_std, memory):
            labels, scores, std = (
                None if array is None else array.reshape(ranked.N, listed)
                for array in (ranked.labels, ranked.scores, ranked.std)
            )
            places = np.argsort(~self._allowed[labels], axis=1, kind="stable")[:, :k]
            labels, scores, std = (
                None if array is None else np.take_along_axis(array, places, axis=1) for array in (labels, scores, std)
            )
            yield Scores.from_top(labels, scores, ranked.K, std)
