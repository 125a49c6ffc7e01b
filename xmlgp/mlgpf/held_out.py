"""What is chosen on points that are held out of training, in a stage: whether regression joins, and the calibration."""

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import NumericalError
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gp.weight_space import PRIOR
from xmlgp.label_weights.posterior import hidden_label_weights
from xmlgp.linear_algebra import sparse
from xmlgp.metrics.probabilities import top_calibration_errors
from xmlgp.metrics.ranking import are_true, evaluate_ranking
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.prediction.calibration import IDENTITY, RANKS, fit_calibration
from xmlgp.regression.fitting import fit_regression
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import hold_out
from xmlgp.training.trained import HeldOut

__all__ = ["HeldOutChoices", "calibration_points", "without_labels_of"]

#: Fewest held-out points with labels; fewer say little about the ranking and about probabilities.
HELD_OUT_LEAST = 10

#: Share of the points that is held out, their least and greatest number, and the largest share that these may be. The
#: coefficients of 1000 points have an error of about 0.005 in probabilities near one half.
CALIBRATION_SHARE, CALIBRATION_LEAST, CALIBRATION_MOST, LARGEST_SHARE = 0.05, 100, 2000, 0.1

#: Regression is added unless nDCG@5 of the held-out points, in percent, is lower with it by this. A few hundred points
#: often rank equally well with and without; on test points of Bibtex precision is higher with it in such cases.
POOL_TOLERANCE = 0.5


def calibration_points(settings, labels):
    """Return the points that training does not hold out, and those that it does, in ascending order, given Y, N×K.

    None are held out if too few would have labels, or if the settings want no calibration.
    """
    N = labels.shape[0]
    share = 0.0
    if settings.calibration and N:
        share = min(max(CALIBRATION_SHARE, CALIBRATION_LEAST / N), CALIBRATION_MOST / N, LARGEST_SHARE)
    # Its own random stream: what training draws does not depend on whether points are held out.
    trained, held = hold_out(N, share, np.random.default_rng([settings.seed, 1]))
    return (trained, held) if _can_judge(labels, held) else (np.arange(N), held[:0])


def _can_judge(labels, held):
    """Return whether enough of the held-out points have labels."""
    return np.count_nonzero(np.diff(labels.indptr)[held]) >= HELD_OUT_LEAST


def without_labels_of(labels, points):
    """Return Y with no labels for some points, N×K."""
    kept = np.ones(labels.shape[0], bool)
    kept[points] = False
    found = labels.copy()
    found.data &= np.repeat(kept, np.diff(labels.indptr))
    found.eliminate_zeros()
    return found


class HeldOutChoices(Inference):
    """A stage of one step that fits the calibration on held-out points, and decides whether regression joins.

    Later stages may train on these points. Label weights on features that only held-out points have count as zero
    meanwhile, because a new point has no weights on features that are new to a label.

    Points whose labels are all new to the model are left out. They are not in a test set either if the labels of a data
    set are those of its training points. If those that remain cannot judge, or none are held out, regression joins, and
    there is no calibration. `before` returns the parameters of the model so far; `regresses` says whether there may be
    a regression at all.
    """

    def __init__(self, problem, trained, held, before, regresses=False):
        features, labels = problem.features, problem.labels
        self._seen = without_labels_of(labels, held)
        known = sparse.column_sums(self._seen.indices, labels.shape[1]) > 0
        kept = held[(labels[held] @ known.astype(np.float32) > 0) | (np.diff(labels.indptr)[held] == 0)]
        self._problem, self._before, self._regresses, self._parts = problem, before, regresses, (trained, held)
        self._judges = _can_judge(labels, kept)
        self._features, self._labels = features[kept], labels[kept]
        #: Whether regression joins and whether there is a calibration, and its coefficients.
        self._chosen, self._coefficients = np.zeros(2, bool), np.zeros(len(IDENTITY))
        #: The fields of `HeldOut`; zeros if nothing is measured.
        self._measures = np.zeros(len(HeldOut._fields))
        #: The parameters of the regression on all points.
        self._regression = None

    def place(self, epoch):
        """Return nothing."""
        return {}

    def cost(self, epoch, done):
        """Return nothing: the regression, which takes most of the time, shows its own progress."""
        return 0

    def step(self, epoch, done):
        """Choose; NumericalError if a probability is not finite."""
        parameters, pooled = self._before(), True
        self._regression, part = self._fit(parameters) if self._regresses else ({}, {})
        if self._judges:
            with hidden_label_weights(parameters, self._problem.features, self._seen):
                best = self._ranked(parameters)
                with_regression = self._ranked(parameters | part) if part else best
                pooled = self._ndcg(with_regression) >= self._ndcg(best) - POOL_TOLERANCE
                chosen = with_regression if pooled else best
                self._coefficients[:] = self._calibrate(chosen)
                self._measures[:] = self._measure(chosen)
        self._chosen[:] = pooled and self._regresses, self._judges

    def _fit(self, parameters):
        """Return the parameters of the regression, and of one without the held-out points.

        Features are scaled by the relevances that the latent functions have learned. If they are too large there is no
        regression ({}), since the model is trained without it.
        """
        problem, order = self._problem, np.concatenate(self._parts)
        features, labels = problem.coordinates.weighted(order), problem.labels[order]
        scales = bounded_exp(parameters[PRIOR], 0.5).astype(np.float32)
        try:
            fitted = fit_regression(features, labels, scales, len(self._parts[0]), problem.progress)
        except NumericalError:
            return {}, {}
        return tuple(regression.parameters() for regression in fitted)

    def _ranked(self, parameters):
        """Return the probabilities of the `RANKS` first labels of each point (`csr_array`)."""
        problem = self._problem
        predictor = MLGPFPredictor(problem.settings, problem.preprocessed, parameters, self._features.shape[1])
        blocks = [block.matrix for block in predictor.top(self._features, RANKS, "probability")]
        found = sp.csr_array(sp.vstack(blocks, "csr"))
        if not np.isfinite(found.data).all():
            raise NumericalError("a probability of a held-out point is not finite")
        return found

    def _ndcg(self, ranked):
        return evaluate_ranking(ranked, self._labels, ks=(5,))["nDCG@5"]

    def _by_rank(self, ranked):
        """Return probabilities, n×k, and whether the point has these labels, n×k."""
        # The entries of a point are in the order of the ranks.
        shape = len(ranked.indptr) - 1, -1
        return ranked.data.reshape(shape), are_true(ranked, self._labels).reshape(shape)

    def _calibrate(self, ranked):
        """Return the coefficients of the `Calibration` of these probabilities."""
        return fit_calibration(*self._by_rank(ranked)).coefficients

    def _measure(self, ranked):
        """Return the fields of `HeldOut`. The calibration of each half of the points is fitted to the other half."""
        (p, correct), labels = self._by_rank(ranked), self._labels
        calibrated = np.empty_like(p)
        for half in range(2):
            calibrated[half::2] = fit_calibration(p[1 - half :: 2], correct[1 - half :: 2])(p[half::2])
        precision = evaluate_ranking(ranked, labels)
        pairs = (sp.csr_array((q.ravel(), ranked.indices, ranked.indptr), ranked.shape) for q in (p, calibrated))
        errors = (top_calibration_errors(pair, labels, (5,))["ECE@5"] for pair in pairs)
        return len(p), *(precision[f"P@{k}"] for k in (1, 3, 5)), *errors

    @property
    def measured(self):
        """What was measured (`HeldOut`), or None."""
        points, *measures = self._measures.tolist()
        return HeldOut(int(points), *measures) if points else None

    def arrays(self):
        """Return the arrays that the step changes, by name."""
        found = {"chosen": self._chosen, "calibration": self._coefficients, "measures": self._measures}
        return {f"held_out.{name}": array for name, array in found.items()}

    def parameters(self, epochs):
        """Return the calibration, if there is one, and the regression, if it joins; a resumed run fits it here."""
        found = {"calibration": self._coefficients} if self._chosen[1] else {}
        if not self._chosen[0]:
            return found
        if self._regression is None:
            self._regression, _ = self._fit(self._before())
        return found | self._regression
