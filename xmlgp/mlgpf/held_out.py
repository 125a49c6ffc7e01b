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
from xmlgp.mlgpf.replay import Ranked
from xmlgp.prediction.calibration import IDENTITY, RANKS, fit_calibration
from xmlgp.regression.fitting import fit_regression
from xmlgp.regression.regression import DENSE_POOL_WEIGHTS
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import hold_out
from xmlgp.training.trained import HeldOut

__all__ = ["CALIBRATION_MOST", "HeldOutChoices", "Recalibration", "calibration_points", "without_labels_of"]

#: Fewest held-out points with labels; fewer say little about the ranking and about probabilities.
HELD_OUT_LEAST = 10

#: Share of the points that is held out, their least and greatest number, and the largest share that these may be. The
#: coefficients of 1000 points have an error of about 0.005 in probabilities near one half.
CALIBRATION_SHARE = 0.05
CALIBRATION_LEAST = 100
CALIBRATION_MOST = 2000
LARGEST_SHARE = 0.1

#: The name of the parameter that has the weight of utilities in the pool.
POOL_WEIGHT_NAME = "regression.pool_weight"

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


def rank(parameters, settings, preprocessed, features):
    """Return the probabilities of the `RANKS` first labels of points, X as read, by a model (`csr_array`)."""
    predictor = MLGPFPredictor(settings, preprocessed, parameters, features.shape[1])
    blocks = [block.matrix for block in predictor.top(features, RANKS, "probability")]
    found = sp.csr_array(sp.vstack(blocks, "csr"))
    if not np.isfinite(found.data).all():
        raise NumericalError("a probability of a held-out point is not finite")
    return found


def by_rank(ranked, labels):
    """Return probabilities, n×R, and whether the point has these labels, n×R."""
    # The entries of a point are in the order of the ranks.
    shape = len(ranked.indptr) - 1, -1
    return ranked.data.reshape(shape), are_true(ranked, labels).reshape(shape)


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
        features = problem.features
        labels = problem.labels
        self._seen = without_labels_of(labels, held)
        known = sparse.column_sums(self._seen.indices, labels.shape[1]) > 0
        kept = held[(labels[held] @ known.astype(np.float32) > 0) | (np.diff(labels.indptr)[held] == 0)]
        self._problem = problem
        self._before = before
        self._regresses = regresses
        self._parts = (trained, held)
        self._judges = _can_judge(labels, kept)
        self._features = features[kept]
        self._labels = labels[kept]
        #: Whether regression joins and whether there is a calibration, and its coefficients.
        self._chosen = np.zeros(2, bool)
        self._coefficients = np.zeros(len(IDENTITY))
        #: The weight of utilities in the pool, where points have dense features.
        self._pool_weight = np.array(DENSE_POOL_WEIGHTS[0])
        #: The fields of `HeldOut`; zeros if nothing is measured.
        self._measures = np.zeros(len(HeldOut._fields))
        #: What the calibration is fitted to, of all these points.
        shape = len(kept), min(RANKS, labels.shape[1])
        self._ranked = Ranked(np.zeros(shape, np.float32), np.zeros(shape, np.uint8))
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
        parameters = self._before()
        pooled = True
        self._regression, part = self._fit(parameters) if self._regresses else ({}, {})
        if self._judges:
            with hidden_label_weights(parameters, self._problem.features, self._seen):
                best = self._rank(parameters)
                with_regression = self._rank_pooled(parameters, part) if part else best
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
        problem = self._problem
        order = np.concatenate(self._parts)
        features = problem.coordinates.weighted(order)
        labels = problem.labels[order]
        scales = bounded_exp(parameters[PRIOR], 0.5).astype(np.float32)
        try:
            fitted = fit_regression(features, labels, scales, len(self._parts[0]), problem.progress)
        except NumericalError:
            return {}, {}
        return tuple(regression.parameters() for regression in fitted)

    def _rank_pooled(self, parameters, part):
        """Return the ranking with the regression, and choose the weight in the pool where there are dense features."""
        weights = DENSE_POOL_WEIGHTS if POOL_WEIGHT_NAME in part else [None]
        choices = [part if weight is None else part | {POOL_WEIGHT_NAME: np.array(weight)} for weight in weights]
        ranked = [self._rank(parameters | choice) for choice in choices]
        best = int(np.argmax([self._ndcg(own) for own in ranked]))
        if weights[best]:
            self._pool_weight[...] = weights[best]
        return ranked[best]

    def _rank(self, parameters):
        return rank(parameters, self._problem.settings, self._problem.preprocessed, self._features)

    def _ndcg(self, ranked):
        return evaluate_ranking(ranked, self._labels, ks=(5,))["nDCG@5"]

    def _calibrate(self, ranked):
        """Return the coefficients of the `Calibration` of these probabilities."""
        for kept, found in zip(self._ranked, by_rank(ranked, self._labels), strict=True):
            kept[...] = found
        return fit_calibration(*self._ranked).coefficients

    def _measure(self, ranked):
        """Return the fields of `HeldOut`. The calibration of each half of the points is fitted to the other half."""
        (p, correct) = self._ranked
        labels = self._labels
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
        found["pool_weight"] = self._pool_weight
        found |= self._ranked._asdict()
        return {f"held_out.{name}": array for name, array in found.items()}

    def parameters(self, epochs):
        """Return the calibration, if there is one, and the regression, if it joins; a resumed run fits it here."""
        found = {"calibration": self._coefficients} if self._chosen[1] else {}
        if found and self._problem.settings.replays:
            found |= self._ranked.parameters()
        if not self._chosen[0]:
            return found
        if self._regression is None:
            self._regression, _ = self._fit(self._before())
        weight = {POOL_WEIGHT_NAME: self._pool_weight} if POOL_WEIGHT_NAME in self._regression else {}
        return found | self._regression | weight


class Recalibration(Inference):
    """A stage of one step that goes on with the calibration where a model learns on.

    It is fitted to points of the batch that the stages before left out, `features` as read and `labels`, together with
    the held-out points that the model keeps for it (`earlier`), of which the batch replaces a `share`. `before` returns
    a context of the parameters of the model so far, without calibration. As in training, points whose labels are all
    unknown to the model are left out: `known` says which labels are known, K.
    """

    def __init__(self, problem, known, earlier, share, seed, before):
        features = problem.features
        labels = problem.labels
        kept = (labels @ known.astype(np.float32) > 0) | (np.diff(labels.indptr) == 0)
        self._problem = problem
        self._before = before
        self._features = features[kept]
        self._labels = labels[kept]
        self._earlier = earlier
        self._share = share
        self._seed = seed
        shape = np.count_nonzero(kept), min(RANKS, labels.shape[1])
        self._ranked = Ranked(np.zeros(shape, np.float32), np.zeros(shape, np.uint8))

    def place(self, epoch):
        """Return nothing."""
        return {}

    def cost(self, epoch, done):
        """Return nothing: ranking some points takes little time."""
        return 0

    def step(self, epoch, done):
        """Rank the labels of the points; NumericalError if a probability is not finite."""
        problem = self._problem
        if not self._labels.shape[0]:
            return
        with self._before() as parameters:
            ranked = rank(parameters, problem.settings, problem.preprocessed, self._features)
        for kept, found in zip(self._ranked, by_rank(ranked, self._labels), strict=True):
            kept[...] = found

    def arrays(self):
        """Return the arrays that the step changes, by name."""
        return self._ranked._asdict()

    def parameters(self, epochs):
        """Return nothing: the calibration is `fitted` once all is learned."""
        return {}

    def fitted(self):
        """Return the calibration by parameter name, and the points that it is fitted to."""
        ranked = self._earlier.joined(self._ranked, self._share, CALIBRATION_MOST, np.random.default_rng(self._seed))
        return ranked.parameters() | {"calibration": fit_calibration(*ranked).coefficients}
