"""The base class of predictors: scores of all labels, or of the top labels in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features, empty_dataset
from xmlgp.gp.expectations import Quadrature
from xmlgp.prediction.calibration import Calibration
from xmlgp.prediction.contributions import Contributions
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.terms import Pairs
from xmlgp.prediction.top_k import LABELS, best_of_blocks, descending, for_parts, ignore_overflow, label_blocks
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.threads import one_blas_thread

__all__ = ["MAX_STREAMED", "MEMORY", "OUTPUTS", "Predictor", "Prepared", "score_std"]

OUTPUTS = ("utility", "probability")

#: Bytes that the scores of a chunk of points may take, and standard deviations.
MEMORY = 1 << 28

#: The largest k for which top labels are selected block by block; for a larger k all labels are sorted.
MAX_STREAMED = 64

#: What `Predictor.prepare` returns; each model has its own class.
Prepared: TypeAlias = Any

#: A block of labels, a slice, or some labels of each point, B×L.
Labels: TypeAlias = Any

#: Settings and preprocessed arrays of a model; each model has its own classes.
ModelSettings: TypeAlias = Any
Preprocessed: TypeAlias = Any


class Predictor(ABC):
    """A trained model that scores points; `feature_count` and `label_count` are its D and K.

    A subclass has a constructor `(settings, preprocessed, parameters, feature_count)` and defines `parameters_fit`,
    `prepare`, `scores` and `std`. If the scores of all labels take long, it defines `best_labels`. If utilities are
    sums over features, it defines `check_explainable` and `contributions`. These methods are called with BLAS on one
    thread and NumPy's warnings of overflow disabled; all of them but `check_explainable` by several threads at once,
    each with its own points, at most a few hundred. `calibration`, if there is one, maps the probabilities of the
    labels of a point, which `scores` and `std` return without it.
    """

    default_output = "utility"
    calibration: Calibration | None = None
    #: Whether utilities are pooled with the regression on neighbours.
    pooled = False
    #: Fewest points that are scored together, after which empty ones are added: BLAS multiplies a few rows otherwise
    #: than many, so the last digits of a score would depend on the other points. With `dense.product_by_rows`, two are
    #: enough.
    min_points = 8

    def __init__(self, feature_count: int, label_count: int, dtype: DTypeLike, width: int = 0) -> None:
        self.feature_count = feature_count
        self.label_count = label_count
        self.dtype = np.dtype(dtype)
        #: The number of dense features.
        self.width = width
        #: Whether the probabilities of each label stay as they are: the calibration was not fitted to such labels, K.
        self.uncalibrated = np.zeros(label_count, bool)

    @classmethod
    def from_arrays(
        cls, settings: ModelSettings, preprocessed: Preprocessed, parameters: dict[str, NDArray[Any]], D: int, K: int
    ) -> Predictor | None:
        """Return a predictor with untrusted parameters, name → array, or None if a model of D and K cannot have them.

        Names, types, shapes and values are checked.
        """
        try:
            with ignore_overflow(), one_blas_thread():
                if not cls.parameters_fit(settings, parameters, D, K):
                    return None
                create: Callable[..., Predictor] = cls
                predictor = create(settings, preprocessed, parameters, D)
                # Scoring no points succeeds only if the shapes of all arrays agree.
                points = predictor.prepare(empty_dataset(D, 0, predictor.width).features, "probability", True)
                *_, last = label_blocks(K)
                shape = predictor.scores(points, last, "probability").shape
        except (LookupError, TypeError, ValueError):
            return None
        return predictor if predictor.label_count == K and shape == (0, last.stop - last.start) else None

    @classmethod
    @abstractmethod
    def parameters_fit(cls, settings: ModelSettings, parameters: dict[str, NDArray[Any]], D: int, K: int) -> bool:
        """Return whether untrusted arrays, by name, can be the parameters of a model with these settings, D and K.

        The check need not cover what scoring no points covers (`from_arrays`). A LookupError, TypeError or ValueError
        counts as False.
        """

    @abstractmethod
    def prepare(self, features: Features, output: str, with_std: bool) -> Prepared:
        """Return the data of a few hundred points, B×D as read, that `scores` and, if `with_std`, `std` need."""

    @abstractmethod
    def scores(self, points: Prepared, labels: Labels, output: str) -> NDArray[np.floating]:
        """Return the scores of a block of labels (slice within range(K)), B×L, for points from `prepare`.

        If `best_labels` is defined, the labels can also be a table of some labels of each point, B×L.
        """

    @abstractmethod
    def std(self, points: Prepared, labels: NDArray[np.int32], output: str) -> NDArray[np.floating]:
        """Return the standard deviations of the scores of some labels of each point, C-contiguous int32, B×k."""

    def best_labels(self, points: Prepared, count: int, output: str) -> NDArray[np.int32] | None:
        """Return labels of each point, B×L with L ≥ `count`, among them those of highest score; −1 is none.

        None if all labels are to be scored.
        """
        return None

    def check_explainable(self) -> None:
        """Raise SettingsError if `explain` cannot explain the scores of this model."""
        raise SettingsError(
            "this model cannot be explained, because its utilities are not sums over features; "
            "train with model=mlgpf and kernel=linear"
        )

    def contributions(self, features: Features, pairs: Pairs, count: int) -> Contributions:
        """Return the contributions of the features of some points, B×D as read, to the utilities of pairs.

        Each pair has at most `count` supporters.
        """
        raise NotImplementedError

    def check(self, feature_count: int) -> None:
        """Raise SettingsError if points do not have the model's number of features."""
        if feature_count != self.feature_count:
            raise SettingsError(
                f"the points have {feature_count} features, but the model was trained on {self.feature_count}"
            )

    def score(
        self, features: Features, output: str | None = None, with_std: bool = False
    ) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
        """Return the scores of all labels, N×K, and their standard deviations or None.

        The model's class describes its utilities and probabilities. Apart from the result, memory is bounded.

        Parameters
        ----------
        features : Features, N×D
            As read, without weighting.
        output : str, optional
            "utility" or "probability". Default: `default_output`.
        with_std : bool

        Raises
        ------
        NumericalError
            If a score is not finite: features that are not weighted can be too large.
        """
        scores = np.empty((features.N, self.label_count), self.dtype)
        std = np.empty_like(scores) if with_std else None
        done = 0
        for ranked in self.top(features, None, output, with_std):
            ranked.check_finite(done)
            rows = slice(done, done + ranked.N)
            done += ranked.N
            order = ranked.labels.reshape(ranked.N, -1)
            np.put_along_axis(scores[rows], order, ranked.scores.reshape(order.shape), axis=1)
            if std is not None and ranked.std is not None:
                np.put_along_axis(std[rows], order, ranked.std.reshape(order.shape), axis=1)
        return scores, std

    def top(
        self, features: Features, k: int | None, output: str | None = None, with_std: bool = False
    ) -> Iterator[Scores]:
        """Yield the top labels of points (`Scores`), a chunk of points at a time.

        Parameters
        ----------
        features : Features, N×D
            As read, without weighting.
        k : int or None
            Labels per point; None for all.
        output : str, optional
            "utility" or "probability". Default: `default_output`.
        with_std : bool

        Raises
        ------
        SettingsError
            If the points do not have the model's number of features.
        """
        self.check(features.D)
        output = output or self.default_output
        k = min(k or self.label_count, self.label_count)
        # Numbers of a point until its scores and standard deviations are written.
        numbers = 4 * k + 2 * min(LABELS, self.label_count) + (4 * self.label_count if k > MAX_STREAMED else 0)
        chunk = max(1, MEMORY // (8 * numbers))
        for start in range(0, features.N, chunk):
            rows = features[start : start + chunk]
            yield self._top(_padded(rows, self.min_points), k, output, with_std).rows(0, rows.N)

    def _top(self, features: Features, k: int, output: str, with_std: bool) -> Scores:
        """Return the top k labels of the points of a chunk, calibrated if the output is the probability."""
        is_calibrated = self.calibration is not None and output == "probability"
        # Calibration can move labels that keep their probabilities into or out of the k best, so more are scored.
        can_reorder = is_calibrated and self.uncalibrated.any()
        count = max(k, min(2 * k, MAX_STREAMED, self.label_count)) if can_reorder else k
        labels = np.empty((features.N, count), np.int32)
        scores = np.empty(labels.shape, self.dtype)
        std = np.empty_like(scores) if with_std else None

        def write(rows: slice) -> None:
            points = self.prepare(features[rows], output, with_std)
            labels[rows], scores[rows] = self._best(points, rows.stop - rows.start, count, output)
            part_std = None if std is None else std[rows]
            if part_std is not None:
                part_std[:] = self.std(points, labels[rows], output)
            if is_calibrated:
                self._calibrate(labels[rows], scores[rows], part_std)

        for_parts(write, features.N)
        order = descending(scores)[:, :k]
        ordered = [np.take_along_axis(array, order, axis=1) for array in (labels, scores, std) if array is not None]
        return Scores.from_top(ordered[0], ordered[1], self.label_count, *ordered[2:])

    def _best(self, points: Prepared, B: int, k: int, output: str) -> tuple[NDArray[np.integer], NDArray[np.floating]]:
        """Return the best labels of B prepared points and their scores, both B×k."""
        K = self.label_count
        if k > MAX_STREAMED:
            scores = np.hstack([self.scores(points, block, output) for block in label_blocks(K)])
            order = descending(scores)[:, :k]
            return order, np.take_along_axis(scores, order, axis=1)
        among = self.best_labels(points, k, output)
        if among is None:
            return best_of_blocks(lambda block: self.scores(points, block, output), B, K, k, self.dtype)
        among = np.sort(among, axis=1)
        scores = self.scores(points, np.maximum(among, 0), output)
        # −1 stands for no label; see `best_labels`.
        scores[among < 0] = -np.inf
        order = descending(scores)[:, :k]
        # Too few labels are found only where scores are not finite, which the caller refuses.
        return np.maximum(np.take_along_axis(among, order, axis=1), 0), np.take_along_axis(scores, order, axis=1)

    def _calibrate(
        self, labels: NDArray[np.int32], scores: NDArray[np.floating], std: NDArray[np.floating] | None
    ) -> None:
        """Calibrate probabilities of labels, B×k in any order, and their standard deviations or None, in place."""
        if self.calibration is None:
            return
        kept = self.uncalibrated[labels]
        # Those that stay come after the others, and have no ranks.
        others = np.where(kept, 0, scores)
        order = descending(others)
        ranked = np.take_along_axis(others, order, axis=1)
        places = np.argsort(order, axis=1)
        calibrated = np.take_along_axis(self.calibration(ranked), places, axis=1)
        np.copyto(scores, calibrated, where=~kept)
        if std is not None:
            ranked_std = self.calibration.calibrated_std(ranked, np.take_along_axis(std, order, axis=1))
            np.copyto(std, np.take_along_axis(ranked_std, places, axis=1), where=~kept)

    def explain(self, features: Features, scores: Scores, count: int = 0) -> Contributions:
        """Return which features speak for and against labels of points: `Contributions` to the mean utilities.

        The features, N×D, are as read; of `scores` only the labels are used. Calibration, a map of probabilities,
        changes nothing. Each pair has at most `count` training points as supporters, if the model has an index of them.
        The result has a number and an index for each feature of the point of each pair: for many points, call this
        method for some of them at a time. SettingsError is raised if utilities are not sums over features;
        NumericalError if a contribution is not finite.
        """
        self.check_explainable()

        def explained(rows: slice) -> Contributions:
            part = scores.rows(rows.start, rows.stop)
            return self.contributions(features[rows], Pairs(part.indptr, part.labels), count)

        contributions = Contributions.stack(for_parts(explained, features.N))
        contributions.check_finite(scores)
        return contributions


def score_std(
    mean: NDArray[np.floating], variance: NDArray[np.floating], output: str, nodes: int
) -> NDArray[np.floating]:
    """Return the standard deviations of scores, elementwise, given mean and variance of normally distributed utilities.

    With the output "utility" they are those of f. With "probability" they are those of σ(f), √(E σ² − (E σ)²), by
    Gauss–Hermite quadrature with this number of `nodes` ([S] A.3).
    """
    if output == "probability":
        # In single precision the difference E σ² − (E σ)² would be a rounding error if the variance is small.
        probability, half_spread = Quadrature(nodes).gradients(mean.astype(np.float64), variance.astype(np.float64))
        # half_spread is ½ E σ(1 − σ), so E σ² = E σ − 2 half_spread.
        variance = probability - 2 * half_spread - probability**2
    # Rounding can leave a variance slightly below zero.
    std: NDArray[np.floating] = np.sqrt(np.maximum(variance, 0))
    return std.astype(mean.dtype, copy=False)


def _padded(features: Features, least: int) -> Features:
    """Return features, followed by points whose features are zero if there are not at least so many points."""
    count = least - features.N
    if count <= 0:
        return features
    dense = None if features.dense is None else np.zeros((count, features.width), features.dense.dtype)
    return Features.stack([features, Features(csr_array((count, features.D), dtype=features.sparse.dtype), dense)])
