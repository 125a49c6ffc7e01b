"""What is chosen on points that are held out of training, in a stage: the pool with neighbours, and the calibration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from xmlgp.data.dataset import Dataset
from xmlgp.data.division import choose_test_points, numbered_groups
from xmlgp.metrics.intervals import Interval, differences, intervals
from xmlgp.metrics.probabilities import top_calibration_statistics
from xmlgp.metrics.ranking import are_true, points_of, ranking_statistics, ranks_of, top_entries
from xmlgp.metrics.statistics import by_group
from xmlgp.models.mlgpf.label_weights.posterior import hidden_label_weights
from xmlgp.models.mlgpf.methods import Parameters, Problem
from xmlgp.models.mlgpf.predictor import LABEL_COUNTS_NAME, MLGPFPredictor, word_scales
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.neighbours.choice import DEFAULT, HeldOutPoints, choose, choose_texts, score
from xmlgp.neighbours.label_texts import TextTerm, default_fit, text_parameters
from xmlgp.neighbours.predictions import EXACT_LABELS, Neighbours, NeighbourTerm, scaled_words
from xmlgp.neighbours.regression import BEST, RECALL, Choices, Recall
from xmlgp.prediction.calibration import IDENTITY, MISSING, RANKS, fit_calibration
from xmlgp.runtime.errors import NumericalError
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import hold_out
from xmlgp.training.result import INTERVAL_COUNT, MEASURE_NAMES, HeldOutMeasures, label_counts

__all__ = ["CALIBRATION_MOST", "HeldOutChoices", "calibration_points", "notes", "without_labels_of"]

#: Fewest held-out points with labels; fewer say little about the ranking and about probabilities.
HELD_OUT_LEAST = 10

#: Share of the points that is held out.
CALIBRATION_SHARE = 0.05

#: Least number of held-out points, unless they are more than `LARGEST_SHARE` of all.
CALIBRATION_LEAST = 400

#: Greatest number of held-out points. The coefficients of 1000 points have an error of about 0.005 in probabilities
#: near one half.
CALIBRATION_MOST = 2000

#: Largest share of the points that is held out.
LARGEST_SHARE = 0.1

#: Labels of highest utility without neighbours of each point, among which and those of neighbours the pool is chosen.
CANDIDATES = 20

#: `Recall` before it is measured.
NOT_MEASURED = Recall(1.0, 0.0)

#: Most pairs of points and labels that are scored to find the best labels of all: that takes a few seconds.
MOST_RANKED = 10**8

#: Most points on which `Recall` is measured, whose standard error is then half a percent.
RECALL_POINTS = 200


def calibration_points(
    settings: MLGPFSettings, labels: csr_array, groups: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the points that training does not hold out, and those that it does, in ascending order, given Y, N×K.

    None are held out if too few would have labels, or if the settings turn calibration off. Of a group of points, see
    `Dataset`, all or none are held out.
    """
    N = labels.shape[0]
    share = 0.0
    if settings.calibration and N:
        share = min(max(CALIBRATION_SHARE, CALIBRATION_LEAST / N), CALIBRATION_MOST / N, LARGEST_SHARE)
    # Its own random stream: what training draws does not depend on whether points are held out.
    random = random_stream(settings.seed, Stream.HELD_OUT)
    if groups is None or not share:
        trained, held_out = hold_out(N, share, random)
    else:
        is_held_out = choose_test_points(groups.tolist(), share, seed=random)
        trained, held_out = map(np.flatnonzero, (~is_held_out, is_held_out))
    return (trained, held_out) if _can_judge(labels[held_out]) else (np.arange(N), held_out[:0])


def notes(settings: MLGPFSettings, dataset: Dataset) -> list[str]:
    """Return what to say before training on points in groups, of which none may be small enough to be held out."""
    groups = dataset.groups
    if groups is None or not settings.calibration or len(calibration_points(settings, dataset.labels, groups)[1]):
        return []
    reason = "groups are too large, or points with labels too few"
    return [f"no points are held out, as {reason}; so probabilities are not calibrated, and nothing is measured"]


def _can_judge(labels: csr_array) -> bool:
    """Return whether enough held-out points, with these labels, have any."""
    return int(np.count_nonzero(np.diff(labels.indptr))) >= HELD_OUT_LEAST


def without_labels_of(labels: csr_array, points: NDArray[np.int64]) -> csr_array:
    """Return Y with no labels for some points, N×K."""
    kept = np.ones(labels.shape[0], bool)
    kept[points] = False
    result = labels.copy()
    result.data &= np.repeat(kept, np.diff(labels.indptr))
    result.eliminate_zeros()
    return result


class HeldOutChoices(Inference):
    """A stage of one step that makes choices on held-out points, by a model that was trained without them.

    It chooses the kernel of the regression on neighbours and its weight in the pool, and fits the calibration. Later
    stages may train on these points. Label weights on features that only held-out points have count as zero meanwhile,
    because a new point has no weights on features that are new to a label. Labels that no training point has are
    missed, as they are in new points, so the points that have only such labels count: without them probabilities would
    be too high.

    If the held-out points are too few to judge, or there are none, the choices are `DEFAULT`, and there is no
    calibration. `split` are the points that training uses, and those that are held out. `current_parameters` returns
    the parameters of the model so far; `has_neighbours` says whether utilities are pooled with neighbours.
    """

    def __init__(
        self,
        problem: Problem,
        split: tuple[NDArray[np.int64], NDArray[np.int64]],
        current_parameters: Callable[[], Parameters],
        has_neighbours: bool = False,
    ) -> None:
        self._problem = problem
        self._trained, held_out = split
        self._features = problem.features[held_out]
        self._labels = problem.labels[held_out]
        # Without groups, each point is one.
        groups = [0] * len(held_out) if problem.groups is None else problem.groups[held_out].tolist()
        self._groups = numbered_groups(groups)
        self._seen_labels = without_labels_of(problem.labels, held_out)
        self.epochs = int(has_neighbours or len(held_out) > 0)
        self._current_parameters = current_parameters
        self._has_neighbours = has_neighbours
        #: Whether there is a calibration, and its coefficients.
        self._calibrates = np.zeros(1, bool)
        self._coefficients = np.zeros(len(IDENTITY))
        #: The numbers of `Choices`.
        self._choices = DEFAULT.values()
        #: The numbers of `Recall`.
        self._recall = np.array(NOT_MEASURED)
        #: c, z₀ and u of the texts of labels.
        self._text_fit = default_fit(len(self._trained))
        #: The numbers of `HeldOutMeasures`; zeros if nothing is measured.
        self._measures = np.zeros(len(MEASURE_NAMES))
        self._intervals = np.zeros((INTERVAL_COUNT, 2))

    def phase(self, epoch: int, done: int) -> tuple[str, None]:
        """Return what the progress shows."""
        return "calibration", None

    def step(self, epoch: int, done: int) -> None:
        """Choose; NumericalError if a probability is not finite."""
        # An interrupted step may have chosen already.
        self._choices[:] = DEFAULT.values()
        self._recall[:] = NOT_MEASURED
        self._text_fit[:] = default_fit(len(self._trained))
        parameters = self._current_parameters()
        seen = self._counts[LABEL_COUNTS_NAME] > 0
        if np.count_nonzero(self._labels @ seen.astype(np.int32)) < HELD_OUT_LEAST:
            return
        with hidden_label_weights(parameters, self._problem.features.sparse, self._seen_labels):
            if self._has_neighbours:
                neighbours = self._neighbours(self._trained, parameters)
                neighbours = neighbours._replace(choices=choose(*self._judged(parameters, neighbours)))
                self._choices[:] = neighbours.choices.values()
                parameters = parameters | self._counts | neighbours.parameters()
                self._recall[:] = 1, self._measured_recall(parameters)
                parameters[RECALL] = self._recall
                if self._problem.label_texts:
                    self._text_fit[:] = self._choose_texts(parameters, neighbours)
                    parameters |= self._texts(neighbours)
            ranked = self._rank(parameters)
            self._calibrate(ranked)
        self._calibrates[:] = True

    def score(self, parameters: Parameters) -> float:
        """Return how well latent functions, pooled with neighbours, rank the held-out points."""
        return score(*self._judged(parameters, self._neighbours(self._trained, parameters)))

    @functools.cached_property
    def _counts(self) -> Parameters:
        """The numbers of points in training that have each label, by their name in a model."""
        return label_counts(self._seen_labels)

    def _predictor(self, parameters: Parameters) -> MLGPFPredictor:
        problem = self._problem
        return MLGPFPredictor(problem.settings, problem.preprocessed, parameters, self._features.D)

    def _rank(self, parameters: Parameters, points: slice = slice(None)) -> csr_array:
        """Return the probabilities of the `RANKS` first labels of points, n×K, by a model, in order."""
        predictor = self._predictor(parameters)
        blocks = [block.matrix for block in predictor.top(self._features[points], RANKS, "probability")]
        probabilities = csr_array(vstack(blocks, "csr"))
        if not np.isfinite(probabilities.data).all():
            raise NumericalError("a probability of a held-out point is not finite")
        return probabilities

    def _measured_recall(self, parameters: Parameters) -> float:
        """Return the share of the best labels that are of the nearest points or frequent; 0 where labels are few."""
        K = self._labels.shape[1]
        if K <= EXACT_LABELS:
            return 0.0
        points = slice(max(1, min(MOST_RANKED // K, RECALL_POINTS)))
        exact, found = (
            top_entries(self._rank(one, points), BEST) for one in (parameters, parameters | {RECALL: np.ones(2)})
        )
        return float(are_true(exact, found.astype(bool)).mean())

    def _judged(self, parameters: Parameters, neighbours: Neighbours) -> tuple[NeighbourTerm, HeldOutPoints]:
        """Return what choices are made with, given a model without them, and the training points."""
        counts = self._counts[LABEL_COUNTS_NAME]
        predictor = self._predictor(parameters)
        ranked = [np.empty((self._features.N, 0), np.int32)]
        if predictor.pooled or self._labels.shape[1] * self._features.N <= MOST_RANKED:
            ranked = [block.labels.reshape(block.N, -1) for block in predictor.top(self._features, CANDIDATES)]
        points = HeldOutPoints(
            self._problem.preprocessed.weigh(self._features),
            self._labels,
            np.concatenate(ranked),
            functools.partial(predictor.moments, self._features),
            counts,
            len(self._trained),
        )
        return NeighbourTerm(neighbours, word_scales(parameters, self._features.D), counts), points

    def _choose_texts(self, parameters: Parameters, neighbours: Neighbours) -> NDArray[np.float64]:
        """Return what is chosen for the texts of labels, given a model without them, and the training points."""
        term, points = self._judged(parameters, neighbours)
        # As if all had points, since held-out points choose the weight of those that have.
        texts = TextTerm(self._texts(neighbours), np.maximum(points.counts, 1))
        return choose_texts(texts, term, points)

    def _texts(self, neighbours: Neighbours) -> Parameters:
        """Return the texts of labels by parameter name; none if there are none."""
        texts = self._problem.label_texts
        if texts is None:
            return {}
        return text_parameters(texts, neighbours.words.rows, self._text_fit)

    def _neighbours(self, points: NDArray[np.int64], parameters: Parameters) -> Neighbours:
        """Return the index of some training points."""
        problem = self._problem
        features = problem.coordinates.weighted(points)
        words = scaled_words(features.sparse, word_scales(parameters, features.D))
        neighbours = Neighbours.build(words, problem.labels[points], Choices.of(self._choices), features.dense)
        return neighbours._replace(recall=Recall(*self._recall.tolist()))

    def _calibrate(self, ranked: csr_array) -> None:
        """Fit the calibration to ranked probabilities, n×K in order, and keep the numbers of `HeldOutMeasures`.

        For these, the calibration of each half of the groups is fitted to the other half, and groups are resampled.
        """
        p = np.full((ranked.shape[0], min(RANKS, ranked.shape[1])), MISSING, np.float32)
        correct = np.zeros(p.shape, bool)
        entries = points_of(ranked), ranks_of(ranked)
        p[entries] = ranked.data
        correct[entries] = are_true(ranked, self._labels)
        self._coefficients[:] = fit_calibration(p, correct).coefficients
        calibrated = np.empty_like(p)
        # Points of one group are halved.
        is_even = (self._groups if self._groups.any() else np.arange(len(p))) % 2 == 0
        for half in (is_even, ~is_even):
            calibrated[half] = fit_calibration(p[~half], correct[~half])(p[half])
        measures = ranking_statistics(ranked, self._labels)
        statistics = by_group({f"P@{k}": measures[f"P@{k}"] for k in (1, 3, 5)}, self._groups)
        before, after = (
            by_group(
                top_calibration_statistics(
                    csr_array((q[entries], ranked.indices, ranked.indptr), ranked.shape), self._labels, (5,)
                ),
                self._groups,
            )
            for q in (p, calibrated)
        )
        statistics |= {"before": before["ECE@5"], "after": after["ECE@5"]}
        self._measures[:] = len(p), *(statistic.value for statistic in statistics.values())
        gain = differences(before, after)["ECE@5"].interval
        self._intervals[:] = *intervals(statistics).values(), gain

    @property
    def measured(self) -> HeldOutMeasures | None:
        """What was measured, or None."""
        points, *measures = self._measures.tolist()
        if not points:
            return None
        pairs = tuple(Interval(*pair) for pair in self._intervals.tolist())
        return HeldOutMeasures(int(points), *measures)._replace(intervals=pairs)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that the step changes, by name."""
        arrays = {
            "calibrates": self._calibrates,
            "calibration": self._coefficients,
            "measures": self._measures,
            "intervals": self._intervals,
            "choices": self._choices,
            "recall": self._recall,
            "text_fit": self._text_fit,
        }
        return {f"held_out.{name}": array for name, array in arrays.items()}

    def parameters(self, epochs: int) -> Parameters:
        """Return what joins the model, by parameter name; a resumed run fits it here."""
        parameters: Parameters = {}
        if self._calibrates:
            parameters["calibration"] = self._coefficients
        if self._has_neighbours:
            every = np.arange(self._problem.labels.shape[0])
            neighbours = self._neighbours(every, self._current_parameters())
            parameters |= neighbours.parameters() | self._texts(neighbours)
        return parameters
