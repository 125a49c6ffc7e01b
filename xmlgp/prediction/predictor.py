"""The base class of predictors: scores of all labels, or of the top labels in bounded memory."""

import functools
import itertools
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.blocks import empty_rows, stacked
from xmlgp.errors import NumericalError, SettingsError
from xmlgp.prediction.contributions import Contributions
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.top_k import update_top_k
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = ["MEMORY", "OUTPUTS", "Neighbours", "Predictor", "ignore_overflow"]

OUTPUTS = ("utility", "probability")

#: Default limit on the memory of `top`, in megabytes.
MEMORY = 256

#: Points and labels scored at a time, so that their scores stay in a core's cache until the best are selected.
ROWS = 256
LABELS = 1024

#: Points are split for the cores into a multiple of this number of parts, so that few cores are all busy to the end,
#: but not into parts of fewer points than the second number.
PARTS = 16
LEAST_ROWS = 32

#: Candidates for the top k labels, in multiples of k + 4. Points for which the first number may be too small are scored
#: again with the second: 1% of them with 20,000 labels, a third with 670,000. If it may be too small as well, every
#: label is a candidate.
CANDIDATES = (4, 32)

#: Probabilities that are calibrated at a time, in double precision.
CALIBRATED = 1 << 16

#: The largest k for which top labels are selected block by block; for a larger k all labels are sorted.
MAX_STREAMED = 64


class Neighbours(NamedTuple):
    """The training points that are nearest to each of B points by their dense features, the nearest first.

    `points` are their places among the M points that the model keeps, B×n; if these are all that it has learned
    (`complete`), the places are those in the training data. `similarity` is the cosine of standardised dense features,
    B×n; `labels` are those of all M points, M×K.
    """

    points: np.ndarray
    similarity: np.ndarray
    labels: csr_array
    complete: bool


class Predictor(ABC):
    """A trained model that scores points; `feature_count` and `label_count` are its D and K.

    A subclass has a constructor `(settings, preprocessed, parameters, feature_count)` and defines `parameters_fit`,
    `prepare`, `scores`, `std` and `bytes_per_point`. If the scores of some outputs take long, it lists these outputs in
    `approximated` and defines `approximate_scores`, `highest_scores` and `scores_of`, by which top labels are found
    faster. If utilities are sums over features, it defines `check_explainable` and `contributions`, and says whether
    they are `pooled` with a regression. These methods are called with BLAS on one thread and NumPy's warnings of
    overflow disabled; all of them but `bytes_per_point` and `check_explainable` by several threads at once, each with
    its own points. `calibration`, if there is one, maps the probabilities of the labels of a point, which `scores`,
    `scores_of` and `std` return without it.
    """

    default_output = "utility"
    approximated = ()
    calibration = None
    pooled = False
    #: Fewer points are filled up to so many by empty ones: BLAS multiplies a few rows otherwise than many, so the last
    #: digits of a score would depend on the points beside its own. With `dense.product_by_rows`, two are enough.
    least = 8

    def __init__(self, feature_count, label_count, dtype):
        self.feature_count = feature_count
        self.label_count = label_count
        self.dtype = np.dtype(dtype)

    @classmethod
    def from_arrays(cls, settings, preprocessed, parameters, D, K):
        """Return a predictor with untrusted parameters, name → array, or None if a model of D and K cannot have them.

        Names, types, shapes and values are checked.
        """
        try:
            with ignore_overflow():
                if not cls.parameters_fit(settings, parameters, D, K):
                    return None
                predictor = cls(settings, preprocessed, parameters, D)
                if predictor.label_count != K:
                    return None
                with one_blas_thread():
                    # Scoring no points succeeds only if the shapes of all arrays agree.
                    points = predictor.prepare(preprocessed.no_points(D), "probability", True)
                    shapes = [predictor.scores(points, block, "probability").shape for block in _blocks(K)]
        except (LookupError, TypeError, ValueError):
            return None
        return predictor if shapes == [(0, block.stop - block.start) for block in _blocks(K)] else None

    @classmethod
    @abstractmethod
    def parameters_fit(cls, settings, parameters, D, K):
        """Return whether untrusted arrays, by name, can be the parameters of a model with these settings, D and K.

        The check need not cover what scoring no points covers (`from_arrays`). A LookupError, TypeError or ValueError
        counts as False.
        """

    @abstractmethod
    def prepare(self, features, output, with_std):
        """Return the data of a few hundred points, B×D as read, that `scores` and, if `with_std`, `std` need."""

    @abstractmethod
    def scores(self, points, labels, output):
        """Return the scores of a block of labels (slice within range(K)), B×L, for points from `prepare`."""

    def approximate_scores(self, points, labels, output):
        """Return numbers that order the labels of each point nearly as `scores` do, B×L, for an approximated output."""
        raise NotImplementedError

    def highest_scores(self, approximate):
        """Return numbers that the scores of labels with these approximate scores do not exceed, elementwise."""
        raise NotImplementedError

    def scores_of(self, points, labels, output):
        """Return the scores of some labels of each point, B×k; labels as for `std`."""
        raise NotImplementedError

    @abstractmethod
    def std(self, points, labels, output):
        """Return the standard deviations of the scores of some labels of each point, C-contiguous int32, B×k."""

    @abstractmethod
    def bytes_per_point(self, output, with_std):
        """Return the memory that scoring takes per point, without the scores and standard deviations of its labels."""

    def check_explainable(self):
        """Raise SettingsError if `explain` cannot explain the scores of this model."""
        raise SettingsError(
            "this model cannot be explained, because its utilities are not sums over features; "
            "train with model=mlgpf and kernel=linear"
        )

    def contributions(self, features, scores, found):
        """Write the contributions of the features of some points, B×D as read, to the utilities of their listed labels.

        `scores` lists n labels; the scores themselves are not used. All arrays of `found`, `Contributions.unset`, are
        written.
        """
        raise NotImplementedError

    def check_neighbours(self):
        """Raise SettingsError if the model keeps no training points that `neighbours` can find."""
        raise SettingsError(
            "this model has no neighbours to show, because it keeps no training points with dense features; train with "
            "dense features, and with replay above 0"
        )

    def neighbours(self, features, count):
        """Return the `Neighbours` of some points, B×D as read, with `count` training points for each."""
        raise NotImplementedError

    def check(self, feature_count):
        """Raise SettingsError if points do not have the model's number of features."""
        if feature_count != self.feature_count:
            raise SettingsError(
                f"the points have {feature_count} features, but the model was trained on {self.feature_count}"
            )

    def score(self, features, output=None, with_std=False):
        """Return the scores of all labels, N×K, and their standard deviations or None.

        The model's class describes its utilities and probabilities. Apart from the result, memory is bounded.

        Parameters
        ----------
        features : csr_array, N×D
            As read, without weighting.
        output : str, optional
            "utility" or "probability". Default: `default_output`.
        with_std : bool

        Raises
        ------
        NumericalError
            If a score is not finite: features that are not weighted can be too large.
        """
        output = output or self.default_output
        count = features.shape[0]

        def write(rows, points, scores, std):
            for labels in _blocks(self.label_count):
                scores[:, labels] = self.scores(points, labels, output)
                if with_std:
                    columns = np.arange(labels.start, labels.stop, dtype=np.int32)
                    std[:, labels] = self.std(points, np.tile(columns, (len(scores), 1)), output)

        scores, std = self._write_scores(write, self._filled(features), self.label_count, output, with_std)
        scores = scores[:count]
        std = None if std is None else std[:count]
        finite = np.isfinite(scores) & (True if std is None else np.isfinite(std))
        if not finite.all():
            point, label = np.argwhere(~finite)[0]
            raise NumericalError(f"the score of label {label} for point {point} is not finite")
        return scores, std

    def top(self, features, k, output=None, with_std=False, memory=MEMORY):
        """Yield the top labels of points (`Scores`), a chunk of points at a time.

        Parameters
        ----------
        features : csr_array, N×D
            As read, without weighting.
        k : int or None
            Labels per point; None for all.
        output : str, optional
            "utility" or "probability". Default: `default_output`.
        with_std : bool
        memory : int
            Megabytes that a chunk may take, not including the model.

        Raises
        ------
        SettingsError
            If the points do not have the model's number of features.
        """
        self.check(features.shape[1])
        output = output or self.default_output
        k = min(k or self.label_count, self.label_count)
        # Numbers of a point until its scores and standard deviations are written.
        numbers = 4 * k + 2 * min(LABELS, self.label_count) + (4 * self.label_count if k > MAX_STREAMED else 0)
        needed = 8 * numbers + self.bytes_per_point(output, with_std)
        chunk = max(1, (memory << 20) // needed)
        for start in range(0, features.shape[0], chunk):
            rows = features[start : start + chunk]
            yield self._top(self._filled(rows), k, output, with_std).rows(0, rows.shape[0])

    def _top(self, features, k, output, with_std):
        labels = np.empty((features.shape[0], k), np.int32)

        def write(rows, points, scores, std):
            self._select(points, features[rows], output, labels[rows], scores)
            if with_std:
                std[:] = self.std(points, labels[rows], output)

        scores, std = self._write_scores(write, features, k, output, with_std)
        return Scores.from_top(labels, scores, self.label_count, std)

    def explain(self, features, scores):
        """Return which features speak for and against labels of points: `Contributions` to the mean utilities.

        The features, N×D, are as read; of `scores` only the labels are used. Calibration, a map of probabilities,
        changes nothing. The result has a number and an index for each feature of the point of each pair: for many
        points, call this method for some of them at a time. SettingsError is raised if utilities are not sums over
        features, or features and scores are not of the same points and of this model; NumericalError if a contribution
        is not finite.
        """
        self.check_explainable()
        self.check(features.shape[1])
        if (features.shape[0], self.label_count) != (scores.N, scores.K):
            raise SettingsError(
                f"the scores are of {scores.N} points and {scores.K} labels, but there are {features.shape[0]} points, "
                f"and the model has {self.label_count} labels"
            )
        found = Contributions.unset(features, scores, self.dtype, self.pooled)

        def part(rows):
            pairs = slice(scores.indptr[rows.start], scores.indptr[rows.stop])
            self.contributions(features[rows], scores.rows(rows.start, rows.stop), found.part(pairs))

        _for_parts(part, features.shape[0])
        _check_finite(found, scores)
        return found

    def _filled(self, features):
        """Return the features of points, and of empty ones after them up to `least`; no points stay none."""
        count = features.shape[0]
        return stacked([features, empty_rows(features, self.least - count)]) if 0 < count < self.least else features

    def _write_scores(self, function, features, k, output, with_std):
        """Return scores, N×k, and their standard deviations or None, which are calibrated here.

        `function(rows, points, scores, std)` writes those of a few hundred prepared points at a time, on all cores.
        """
        scores = np.empty((features.shape[0], k), self.dtype)
        std = np.empty_like(scores) if with_std else None

        def part(rows):
            written = scores[rows], std[rows] if with_std else None
            function(rows, self.prepare(features[rows], output, with_std), *written)
            if self.calibration and output == "probability":
                self._calibrate(*written)

        _for_parts(part, features.shape[0])
        return scores, std

    def _calibrate(self, scores, std):
        """Calibrate probabilities of labels, B×k in any order, and their standard deviations or None, in place."""
        size = max(1, CALIBRATED // scores.shape[1])
        for start in range(0, len(scores), size):
            rows = slice(start, start + size)
            order = _descending(scores[rows])
            ranked = np.take_along_axis(scores[rows], order, axis=1)
            np.put_along_axis(scores[rows], order, self.calibration(ranked), axis=1)
            if std is not None:
                ranked_std = np.take_along_axis(std[rows], order, axis=1)
                np.put_along_axis(std[rows], order, self.calibration.calibrated_std(ranked, ranked_std), axis=1)

    def _select(self, points, features, output, labels, scores, counts=None):
        """Write the k labels of highest score of each point and their scores: best first, equal scores by label.

        Points are given as prepared and as read. `counts` has the numbers of candidates to try, in multiples of k + 4;
        default: `CANDIDATES`.
        """
        counts = CANDIDATES if counts is None else counts
        k = labels.shape[1]
        if k > MAX_STREAMED:
            values = np.empty((len(labels), self.label_count), self.dtype)
            for block in _blocks(self.label_count):
                values[:, block] = self.scores(points, block, output)
            order = _descending(values)[:, :k]
            labels[:] = order
            scores[:] = np.take_along_axis(values, order, axis=1)
            return
        count = counts[0] * (k + 4) if counts and output in self.approximated else self.label_count
        if count >= self.label_count:
            self._stream(self.scores, points, output, labels, scores)
            return
        candidates = np.empty((len(labels), count), np.int32)
        approximate = np.empty(candidates.shape, self.dtype)
        self._stream(self.approximate_scores, points, output, candidates, approximate)
        candidates.sort(axis=1)
        values = self.scores_of(points, candidates, output)
        order = _descending(values)[:, :k]
        labels[:], scores[:] = (np.take_along_axis(found, order, axis=1) for found in (candidates, values))
        # No other label has a higher score than the last candidate can have. Comparisons with nan are false.
        unsure = np.flatnonzero(~(scores[:, -1] >= self.highest_scores(approximate[:, -1])))
        if len(unsure):
            features = self._filled(features[unsure])
            found = [np.empty((features.shape[0], k), array.dtype) for array in (labels, scores)]
            self._select(self.prepare(features, output, False), features, output, *found, counts[1:])
            labels[unsure], scores[unsure] = (array[: len(unsure)] for array in found)

    def _stream(self, function, points, output, labels, best):
        """Write the labels for which `scores` or `approximate_scores` is highest, and its values, best first."""
        for block in _blocks(self.label_count):
            update_top_k(function(points, block, output), block.start, labels, best)


def _for_parts(function, count):
    """Call a function on all cores with slices of range(count), a few hundred points each.

    The parts do not depend on the number of cores: BLAS adds up in an order that depends on the shapes of matrices, so
    the last digits of scores would depend on it too.
    """
    parts = max(1, min(-(-count // (ROWS * PARTS)) * PARTS, count // LEAST_ROWS), -(-count // ROWS))
    bounds = [count * part // parts for part in range(parts + 1)]
    with one_blas_thread(), ignore_overflow():
        run_parallel(functools.partial(function, slice(*part)) for part in itertools.pairwise(bounds))


def _descending(scores):
    """Return the order of the labels of each point, best first, equal scores by label."""
    return np.argsort(-scores, axis=1, kind="stable")


def _check_finite(contributions, scores):
    finite = np.isfinite(contributions.rest)
    if contributions.dense is not None:
        finite &= np.isfinite(contributions.dense).all(axis=1)
    pairs = np.flatnonzero(~finite)[:1]
    elements = np.flatnonzero(~np.isfinite(contributions.values))[:1]
    if len(pairs) or len(elements):
        pair = min([*pairs, *np.searchsorted(contributions.indptr, elements, side="right") - 1])
        point = np.searchsorted(scores.indptr, pair, side="right") - 1
        raise NumericalError(
            f"the contributions to the score of label {scores.labels[pair]} for point {point} are not finite"
        )


def _blocks(label_count):
    """Yield slices of at most `LABELS` labels that together cover all labels."""
    for start in range(0, label_count, LABELS):
        yield slice(start, min(start + LABELS, label_count))


def ignore_overflow():
    """Disable NumPy's warnings of results that are not finite, for code whose result is checked later."""
    return np.errstate(divide="ignore", over="ignore", invalid="ignore")
