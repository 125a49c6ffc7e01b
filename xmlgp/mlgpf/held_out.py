"""Points that are held out of training: how they are ranked, and the calibration of probabilities on them."""

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import NumericalError
from xmlgp.gp.inner_products import Points
from xmlgp.gp.label_weights import hidden_label_weights
from xmlgp.linear_algebra import sparse
from xmlgp.metrics.ranking import true_entries
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.weight_space import make_model
from xmlgp.prediction.calibration import RANKS, fit_calibration
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.checkpoints import TrainingState
from xmlgp.training.stopping import hold_out, ndcg_of_blocks

__all__ = ["CalibrationAfterEpoch", "HeldOut", "calibration_points", "can_judge", "without_labels_of"]

#: Fewest held-out points with labels; fewer rank all epochs alike, and say little about probabilities.
HELD_OUT_LEAST = 10

#: Share of the points that is held out for the calibration in weight space, and their least and greatest number. The
#: coefficients of 1000 points have an error of about 0.005 in probabilities near one half.
CALIBRATION_SHARE, CALIBRATION_LEAST, CALIBRATION_MOST = 0.05, 100, 2000

#: Most points that the calibration is fitted to; more would only take memory.
FITTED_MOST = 10_000

#: Points that are ranked at a time, and their scores.
ROWS, SCORES = 256, 1 << 24


def calibration_points(settings, labels):
    """Return the points that training in weight space holds out for the calibration, and the others.

    Parameters
    ----------
    settings : MLGPFSettings
    labels : csr_array, N×K
        Y.

    Returns
    -------
    trained, held : ndarray of int
        In ascending order; none are held out with few points, or if the settings do not want a calibration.
    """
    N = labels.shape[0]
    share = min(CALIBRATION_SHARE, CALIBRATION_MOST / max(1, N))
    if not settings.calibration or share * N < CALIBRATION_LEAST:
        share = 0
    # Its own random stream: what training draws does not depend on whether points are held out.
    trained, held = hold_out(N, share, np.random.default_rng([settings.seed, 1]))
    return (trained, held) if can_judge(labels, held) else (np.arange(N), held[:0])


def can_judge(labels, held):
    """Return whether enough of the held-out points have labels; see `HELD_OUT_LEAST`."""
    return np.count_nonzero(np.diff(labels.indptr)[held]) >= HELD_OUT_LEAST


def without_labels_of(labels, points):
    """Return Y with no labels for some points, N×K."""
    lengths = np.diff(labels.indptr)
    kept = np.ones(len(lengths), bool)
    kept[points] = False
    stored = np.repeat(kept, lengths)
    indptr = np.concatenate([[0], np.cumsum(lengths * kept)]).astype(labels.indptr.dtype)
    return sp.csr_array((labels.data[stored], labels.indices[stored], indptr), shape=labels.shape)


class HeldOut:
    """The validation part of training that is not in weight space.

    Parameters
    ----------
    features : csr_array, B×D
        Of the held-out points, as read.
    coordinates : Coordinates
        Of the same points.
    labels : csr_array of bool, B×K
    preprocessed : Preprocessed
    settings : MLGPFSettings
    """

    def __init__(self, features, coordinates, labels, preprocessed, settings):
        self._features, self._coordinates, self._labels = features, coordinates, labels
        self._preprocessed, self._settings = preprocessed, settings

    def ndcg(self, parameters):
        """Return nDCG@5 of the points, ranked by a model as the settings say, in percent."""
        coordinates, settings = self._coordinates, self._settings
        with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            predictive = make_model(settings).predictive(parameters, coordinates.feature_count)

            def blocks():
                size = max(1, min(ROWS, SCORES // self._labels.shape[1]))
                for start in range(0, len(coordinates), size):
                    rows = slice(start, start + size)
                    points = Points(*coordinates.rows(rows))
                    yield predictive.rank_scores(points, coordinates.weighted(rows), settings.ranking)

            return ndcg_of_blocks(self._labels, blocks())

    def calibration(self, parameters, trained):
        """Return the coefficients of the `Calibration` of a model's probabilities, fitted to the points, or None.

        Parameters
        ----------
        parameters : mapping of str to ndarray
        trained : csr_array, N×K
            Y of the points that the model was trained on.

        Returns
        -------
        list of float or None
            None if too few of the points have a label that a point of training has.
        """
        points = self._features, self._labels
        return _calibrate(parameters, *points, trained, self._preprocessed, self._settings)


def _calibrate(parameters, features, labels, trained, preprocessed, settings):
    """Return the coefficients of the `Calibration` of a model's probabilities, fitted to points it was not trained on.

    Points whose labels are all new to the model are left out. They are not in a test set either if the labels of a data
    set are those of its training points. None if those that remain cannot judge (`can_judge`).

    Raises
    ------
    NumericalError
        If a probability is not finite.
    """
    known = sparse.column_sums(trained.indices, labels.shape[1]) > 0
    kept = np.flatnonzero((labels @ known.astype(np.float32) > 0) | (np.diff(labels.indptr) == 0))
    # Points in equal steps, because neighbours may be alike.
    kept = kept[:: max(1, -(-len(kept) // FITTED_MOST))]
    features, labels = features[kept], labels[kept]
    if not can_judge(labels, np.arange(len(kept))):
        return None
    predictor = MLGPFPredictor(settings, preprocessed, parameters, features.shape[1])
    probabilities, correct = [], []
    for block in predictor.top(features, RANKS, "probability"):
        start = sum(map(len, correct))
        found = np.zeros(block.scores.shape, bool)
        found[true_entries(block.matrix, labels[start : start + block.N])] = True
        probabilities.append(block.scores.reshape(block.N, -1))
        correct.append(found.reshape(block.N, -1))
    probabilities = np.concatenate(probabilities)
    if not np.isfinite(probabilities).all():
        raise NumericalError("a probability of a held-out point is not finite")
    return fit_calibration(probabilities, np.concatenate(correct)).coefficients.tolist()


class CalibrationAfterEpoch:
    """A hook of the training loop that fits the calibration after one epoch, in weight space.

    Later epochs may train on the held-out points. Label weights on features that only held-out points have count as
    zero meanwhile, because a new point has no weights on features that are new to a label.

    Parameters
    ----------
    epoch : int
        Counted from 1.
    features : csr_array, N×D
        X as read.
    labels : csr_array, N×K
        Y.
    held : ndarray of int
        The held-out points.
    preprocessed : Preprocessed
    settings : MLGPFSettings

    Attributes
    ----------
    coefficients : list of float or None
        Of the `Calibration`; None before that epoch, and if too few of the held-out points have a label that another
        point has.
    """

    def __init__(self, epoch, features, labels, held, preprocessed, settings):
        self._epoch, self._features, self._labels, self._held = epoch, features, labels, held
        self._preprocessed, self._settings = preprocessed, settings
        self.reset()

    def reset(self):
        """Return to the state before the first epoch."""
        self.coefficients = None

    def __call__(self, epoch, parameters):
        """Fit the calibration if it is time for it."""
        if epoch != self._epoch:
            return
        parameters, held = parameters(), self._held
        trained = without_labels_of(self._labels, held)
        with hidden_label_weights(parameters, self._features, trained):
            points = self._features[held], self._labels[held]
            self.coefficients = _calibrate(parameters, *points, trained, self._preprocessed, self._settings)

    def state(self):
        """Return the state to resume from (`TrainingState`)."""
        return TrainingState({"calibration": self.coefficients}, {})

    def restore(self, checkpoint, parameters):
        """Restore the state in a checkpoint; see `EarlyStopping.restore`."""
        with checkpoint.checked():
            self.coefficients = checkpoint.facts["calibration"]
