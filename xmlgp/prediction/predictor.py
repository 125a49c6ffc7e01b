"""Scoring points with a trained model of any kind: scores of the top labels, in bounded memory."""

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import ModelFolderError, NumericalError, SettingsError
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.top_k import update_top_k
from xmlgp.runtime.threads import one_blas_thread, parallel_for

__all__ = ["MEMORY", "OUTPUTS", "Predictor", "overflow_is_told_later", "predictors"]

OUTPUTS = ("utility", "probability")

#: Megabytes that scoring may take, unless told otherwise.
MEMORY = 256

#: Points and labels scored at a time: their scores stay in a core's own cache until the best are picked.
ROWS, LABELS = 256, 1024

#: Of more labels than this the best are found by sorting all.
FEW = 64


def predictors():
    """Return the class that scores with models of each kind, by the name that model.json has for it."""
    # They are subclasses of the one here.
    from xmlgp.bmlpl.predictor import BMLPLPredictor
    from xmlgp.gpc.predictor import GPCPredictor
    from xmlgp.mlgpf.predictor import MLGPFPredictor

    return {"mlgpf": MLGPFPredictor, "bmlpl": BMLPLPredictor, "gpc": GPCPredictor}


class Predictor(ABC):
    """A trained model, ready to score: what is the same for all kinds of models.

    Each kind says what is its own: `from_folder`, `all_scores`, and for `top` `prepare`, `scores`, `deviations` and
    `bytes_a_point`. Whatever computes scores is called with BLAS on one thread and without NumPy's warnings of what is
    not finite; for `top` by several threads at once, each with points of its own.

    Parameters
    ----------
    feature_count, label_count : int
        D and K.
    dtype : dtype
        Of scores.

    Attributes
    ----------
    feature_count, label_count, dtype
        The same.
    usual_output : str
        The one of `OUTPUTS` that users of such models want, unless they say otherwise.
    """

    usual_output = "utility"

    def __init__(self, feature_count, label_count, dtype):
        self.feature_count = feature_count
        self.label_count = label_count
        self.dtype = np.dtype(dtype)

    @staticmethod
    def open(folder):
        """Return the predictor of a model folder, of the class for its kind of model.

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
        kind = predictors()[folder.description["model"]]
        D, K = (folder.description["data"][name] for name in "DK")
        try:
            with overflow_is_told_later():
                predictor = kind.from_folder(folder)
            # No points at all are scored by arrays of the right shapes only.
            nothing = sp.csr_array((0, D), dtype=np.float32)
            fits = predictor is not None and predictor.score(nothing)[0].shape == (0, K)
        except (LookupError, TypeError, ValueError):
            fits = False
        if not fits:
            raise ModelFolderError(f"{folder.path}: the model is damaged, its arrays do not fit each other")
        return predictor

    @classmethod
    @abstractmethod
    def from_folder(cls, folder):
        """Return the predictor of a trained model's folder, or None where its arrays are not those of such a model.

        A LookupError, TypeError or ValueError says the same as None.

        Parameters
        ----------
        folder : ModelFolder
            Its arrays are a stranger's: which there are, their types, shapes and values are to be checked here, as far
            as `all_scores` of no points does not.

        Raises
        ------
        ModelFolderError
            Where more can be said of what is damaged.
        """

    @abstractmethod
    def all_scores(self, features, output, with_std):
        """Return scores of all labels, N×K, and their standard deviations or None, finite or not; see `score`."""

    @abstractmethod
    def prepare(self, features, output, with_std):
        """Return what `scores` and, if `with_std`, `deviations` need of a few hundred points.

        Parameters
        ----------
        features : csr_array, B×D
            As read, without weighting.
        output : str
            One of `OUTPUTS`.
        with_std : bool
        """

    @abstractmethod
    def scores(self, points, labels, output):
        """Return the scores of a block of labels, B×L.

        Parameters
        ----------
        points
            As `prepare` returns them.
        labels : slice
            Which those L are, from the first to before the stop, which may be beyond K.
        output : str
            One of `OUTPUTS`.
        """

    @abstractmethod
    def deviations(self, points, labels, output):
        """Return the standard deviations of the scores of some labels of each point, B×k.

        Parameters
        ----------
        points
            As `prepare` returns them.
        labels : ndarray of int32, B×k
            C-contiguous.
        output : str
            One of `OUTPUTS`.
        """

    @abstractmethod
    def bytes_a_point(self, output, with_std):
        """Return what a point needs while it is scored, beside the scores and deviations of its labels."""

    def check(self, feature_count):
        """Raise SettingsError for points with another number of features than the model."""
        if feature_count != self.feature_count:
            raise SettingsError(
                f"the points have {feature_count} features, but the model was trained on {self.feature_count}"
            )

    def score(self, features, output="utility", with_std=False):
        """Return scores of all labels, N×K, and their standard deviations or None, without regard to memory.

        What utilities and probabilities are is said by the class for the kind of model.

        Parameters
        ----------
        features : csr_array, N×D
            As read, without weighting.
        output : str
            One of `OUTPUTS`.
        with_std : bool

        Raises
        ------
        NumericalError
            Where a score is not finite: features that are not weighted can be too large.
        """
        with one_blas_thread(), overflow_is_told_later():
            scores, std = self.all_scores(features, output, with_std)
        finite = np.isfinite(scores) & (True if std is None else np.isfinite(std))
        if not finite.all():
            point, label = np.argwhere(~finite)[0]
            raise NumericalError(f"the score of label {label} for point {point} is not finite")
        return scores, std

    def top(self, features, k, output="utility", with_std=False, memory=MEMORY):
        """Yield the top labels of points (`Scores`), a chunk of points at a time.

        Parameters
        ----------
        features : csr_array, N×D
            As read, without weighting.
        k : int or None
            Labels a point; None for all.
        output : str
            One of `OUTPUTS`.
        with_std : bool
        memory : int
            Megabytes that a chunk may take, beside the model.

        Raises
        ------
        SettingsError
            Where the points have another number of features than the model.
        """
        self.check(features.shape[1])
        k = min(k or self.label_count, self.label_count)
        needed = self._bytes_for_labels(k) + self.bytes_a_point(output, with_std)
        chunk = max(1, (memory << 20) // needed)
        for start in range(0, features.shape[0], chunk):
            with one_blas_thread(), overflow_is_told_later():
                scores = self._top(features[start : start + chunk], k, output, with_std)
            yield scores

    def _bytes_for_labels(self, k):
        """Return what the scores and deviations of a point take until they are written."""
        numbers = 4 * k + 2 * min(LABELS, self.label_count)
        if k > FEW:
            numbers += 4 * self.label_count
        return numbers * 8

    def _top(self, features, k, output, with_std):
        count = features.shape[0]
        labels, scores = np.empty((count, k), np.int32), np.empty((count, k), self.dtype)
        std = np.empty((count, k), self.dtype) if with_std else None

        def part(first, last):
            for start in range(first, last, ROWS):
                rows = slice(start, min(start + ROWS, last))
                points = self.prepare(features[rows], output, with_std)
                self._pick(points, output, labels[rows], scores[rows])
                if with_std:
                    std[rows] = self.deviations(points, labels[rows], output)

        parallel_for(part, count, 1)
        return Scores.from_top(labels, scores, self.label_count, std)

    def _pick(self, points, output, labels, scores):
        """Fill in the labels of highest score and their scores, best first, equal ones by label."""
        k = labels.shape[1]
        width = self.label_count if k > FEW else LABELS
        for start in range(0, self.label_count, width):
            values = self.scores(points, slice(start, start + width), output)
            if k > FEW:
                order = np.argsort(-values, axis=1, kind="stable")[:, :k]
                labels[:], scores[:] = order, np.take_along_axis(values, order, axis=1)
            else:
                update_top_k(values, start, labels, scores)


def overflow_is_told_later():
    """Have NumPy not warn of what is not finite: scores are looked at, here or where they are written."""
    return np.errstate(divide="ignore", over="ignore", invalid="ignore")
