"""What is chosen on points that are held out of training: whether regression joins, and the calibration."""

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import NumericalError
from xmlgp.gp.label_weights import hidden_label_weights
from xmlgp.linear_algebra import sparse
from xmlgp.metrics.ranking import evaluate_ranking, true_entries
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.prediction.calibration import RANKS, fit_calibration
from xmlgp.training.checkpoints import TrainingState
from xmlgp.training.hold_out import hold_out

__all__ = ["HeldOutChoices", "calibration_points", "can_judge", "without_labels_of"]

#: Fewest held-out points with labels; fewer say little about the ranking and about probabilities.
HELD_OUT_LEAST = 10

#: Share of the points that is held out, their least and greatest number, and the largest share that these may be. The
#: coefficients of 1000 points have an error of about 0.005 in probabilities near one half.
CALIBRATION_SHARE, CALIBRATION_LEAST, CALIBRATION_MOST, LARGEST_SHARE = 0.05, 100, 2000, 0.1

#: Regression is added unless nDCG@5 of the held-out points, in percent, is lower with it by this. A few hundred points
#: often rank equally well with and without; on test points of Bibtex precision is higher with it in such cases.
POOL_TOLERANCE = 0.5


def calibration_points(settings, labels):
    """Return the points that training does not hold out, and those that it does.

    Parameters
    ----------
    settings : MLGPFSettings
    labels : csr_array, N×K
        Y.

    Returns
    -------
    trained, held : ndarray of int
        In ascending order; none are held out if too few would have labels, or if the settings want no calibration.
    """
    N = labels.shape[0]
    share = 0.0
    if settings.calibration and N:
        share = min(max(CALIBRATION_SHARE, CALIBRATION_LEAST / N), CALIBRATION_MOST / N, LARGEST_SHARE)
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


class HeldOutChoices:
    """A hook of the training loop that chooses, after one epoch, on the held-out points.

    Later epochs may train on them. Label weights on features that only held-out points have count as zero meanwhile,
    because a new point has no weights on features that are new to a label.

    Points whose labels are all new to the model are left out. They are not in a test set either if the labels of a data
    set are those of its training points. If those that remain cannot judge (`can_judge`), regression joins, and there
    is no calibration.

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
    regress : callable, optional
        `regress(parameters)` returns the parameters of a regression on all points, and those of one without the
        held-out points; empty mappings if it cannot be fitted.

    Attributes
    ----------
    coefficients : list of float or None
        Of the `Calibration`; None before that epoch.
    pooled : bool or None
        Whether regression joins; None before that epoch.
    regression : dict of str to ndarray or None
        The parameters of the regression on all points; None if they are not known, as in a run that was resumed later.
    """

    def __init__(self, epoch, features, labels, held, preprocessed, settings, regress=None):
        trained = without_labels_of(labels, held)
        known = sparse.column_sums(trained.indices, labels.shape[1]) > 0
        kept = (labels[held] @ known.astype(np.float32) > 0) | (np.diff(labels.indptr)[held] == 0)
        kept = held[kept]
        self._epoch, self._all, self._trained = epoch, features, trained
        self._judges = can_judge(labels, kept)
        self._features, self._labels = features[kept], labels[kept]
        self._preprocessed, self._settings, self._regress = preprocessed, settings, regress
        self.reset()

    def reset(self):
        """Return to the state before the first epoch."""
        self.coefficients = self.pooled = self.regression = None

    def __call__(self, epoch, parameters):
        """Choose if it is time for it.

        Raises
        ------
        NumericalError
            If a probability is not finite.
        """
        if epoch != self._epoch:
            return
        parameters = parameters()
        with hidden_label_weights(parameters, self._all, self._trained):
            self.regression, part = self._regress(parameters) if self._regress else ({}, {})
            if not self._judges:
                self.pooled = True
                return
            best = self._ranked(parameters)
            pooled = self._ranked(parameters | part) if part else best
            self.pooled = self._ndcg(pooled) >= self._ndcg(best) - POOL_TOLERANCE
            self.coefficients = self._calibrate(pooled if self.pooled else best)

    def _ranked(self, parameters):
        """Return the probabilities of the `RANKS` first labels of each point (`csr_array`)."""
        predictor = MLGPFPredictor(self._settings, self._preprocessed, parameters, self._features.shape[1])
        blocks = [block.matrix for block in predictor.top(self._features, RANKS, "probability")]
        found = sp.csr_array(sp.vstack(blocks, "csr"))
        if not np.isfinite(found.data).all():
            raise NumericalError("a probability of a held-out point is not finite")
        return found

    def _ndcg(self, ranked):
        return evaluate_ranking(ranked, self._labels, ks=(5,))["nDCG@5"]

    def _calibrate(self, ranked):
        """Return the coefficients of the `Calibration` of these probabilities."""
        correct = np.zeros(ranked.nnz, bool)
        correct[true_entries(ranked, self._labels)] = True
        # The entries of a point are in the order of the ranks.
        shape = len(ranked.indptr) - 1, -1
        return fit_calibration(ranked.data.reshape(shape), correct.reshape(shape)).coefficients.tolist()

    def state(self):
        """Return the state to resume from (`TrainingState`)."""
        return TrainingState({"calibration": self.coefficients, "pooled": self.pooled}, {})

    def restore(self, checkpoint, parameters):
        """Restore the state in a checkpoint.

        Parameters
        ----------
        checkpoint : Checkpoint
        parameters : mapping of str to ndarray
            Those of training.
        """
        with checkpoint.checked():
            self.coefficients, self.pooled = checkpoint.facts["calibration"], checkpoint.facts["pooled"]
