"""The base class of predictors: scores of all labels, or of the top labels in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.data.dataset import no_points
from xmlgp.data.features import Features
from xmlgp.prediction.calibration import Calibration
from xmlgp.prediction.contributions import Contributions, Supporter
from xmlgp.prediction.parts import LABELS, descending, for_parts, ignore_overflow, label_blocks
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.selection import MAX_STREAMED, Best, select_best
from xmlgp.runtime.errors import NumericalError, SettingsError
from xmlgp.runtime.threads import one_blas_thread

__all__ = ["MEMORY", "OUTPUTS", "Predictor", "Prepared"]

OUTPUTS = ("utility", "probability")

#: Default limit on the memory of `top`, in megabytes.
MEMORY = 256

#: Probabilities that are calibrated at a time, in double precision.
CALIBRATED = 1 << 16

#: What `Predictor.prepare` returns; each model has its own class.
Prepared: TypeAlias = Any

#: Settings and preprocessed arrays of a model; each model has its own classes.
ModelSettings: TypeAlias = Any
Preprocessed: TypeAlias = Any


class Predictor(ABC):
    """A trained model that scores points; `feature_count` and `label_count` are its D and K.

    A subclass has a constructor `(settings, preprocessed, parameters, feature_count)` and defines `parameters_fit`,
    `prepare`, `scores`, `std` and `bytes_per_point`. If the scores of all labels take long, it defines `best_labels`
    and `scores_of`. If utilities are sums over features, it defines `check_explainable` and `contributions`, and says
    whether they are `pooled` with a regression. These methods are called with BLAS on one thread and NumPy's warnings
    of overflow disabled; all of them but `bytes_per_point` and `check_explainable` by several threads at once, each
    with its own points. `calibration`, if there is one, maps the probabilities of the labels of a point, which
    `scores`, `scores_of` and `std` return without it.
    """

    default_output = "utility"
    calibration: Calibration | None = None
    #: Whether utilities are pooled with the regression on neighbours.
    pooled = False
    #: Whether texts of labels say something of them.
    has_texts = False
    #: Labels whose probabilities are not those that the calibration was fitted to, and stay, K; None if all are.
    uncalibrated: NDArray[np.bool_] | None = None
    #: Fewest points that are scored together, after which empty ones are added: BLAS multiplies a few rows otherwise
    #: than many, so the last digits of a score would depend on the other points. With `dense.product_by_rows`, two are
    #: enough.
    min_points = 8

    def __init__(self, feature_count: int, label_count: int, dtype: DTypeLike) -> None:
        self.feature_count = feature_count
        self.label_count = label_count
        self.dtype = np.dtype(dtype)

    @property
    def no_points(self) -> Features:
        """The features of no points."""
        return no_points(self.feature_count, 0).features

    @classmethod
    def from_arrays(
        cls, settings: ModelSettings, preprocessed: Preprocessed, parameters: dict[str, NDArray[Any]], D: int, K: int
    ) -> Predictor | None:
        """Return a predictor with untrusted parameters, name → array, or None if a model of D and K cannot have them.

        Names, types, shapes and values are checked.
        """
        try:
            with ignore_overflow():
                if not cls.parameters_fit(settings, parameters, D, K):
                    return None
                create: Callable[..., Predictor] = cls
                predictor = create(settings, preprocessed, parameters, D)
                if predictor.label_count != K:
                    return None
                with one_blas_thread():
                    # Scoring no points succeeds only if the shapes of all arrays agree.
                    points = predictor.prepare(predictor.no_points, "probability", True)
                    shapes = [predictor.scores(points, block, "probability").shape for block in label_blocks(K)]
        except (LookupError, TypeError, ValueError):
            return None
        return predictor if shapes == [(0, block.stop - block.start) for block in label_blocks(K)] else None

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
    def scores(self, points: Prepared, labels: slice, output: str) -> NDArray[np.floating]:
        """Return the scores of a block of labels (slice within range(K)), B×L, for points from `prepare`."""

    def best_labels(self, points: Prepared, count: int, output: str) -> NDArray[np.int32] | None:
        """Return labels of each point, B×L with L ≥ `count`, among them those of highest score; −1 is none.

        None if all labels are to be scored. Otherwise `scores_of` is defined for this output.
        """
        return None

    def scores_of(self, points: Prepared, labels: NDArray[np.int32], output: str) -> NDArray[np.floating]:
        """Return the scores of some labels of each point, B×k; labels as for `std`."""
        raise NotImplementedError

    @abstractmethod
    def std(self, points: Prepared, labels: NDArray[np.int32], output: str) -> NDArray[np.floating]:
        """Return the standard deviations of the scores of some labels of each point, C-contiguous int32, B×k."""

    @abstractmethod
    def bytes_per_point(self, output: str, with_std: bool) -> int:
        """Return the memory that scoring takes per point, without the scores and standard deviations of its labels."""

    def check_explainable(self) -> None:
        """Raise SettingsError if `explain` cannot explain the scores of this model."""
        raise SettingsError(
            "this model cannot be explained, because its utilities are not sums over features; "
            "train with model=mlgpf and kernel=linear"
        )

    def contributions(self, features: Features, scores: Scores, contributions: Contributions) -> None:
        """Write the contributions of the features of some points, B×D as read, to the utilities of their listed labels.

        `scores` lists n labels; the scores themselves are not used. All arrays of `contributions`, which are unset, are
        written.
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
        output = output or self.default_output
        count = features.N

        def write(
            rows: slice, points: Prepared, scores: NDArray[np.floating], std: NDArray[np.floating] | None
        ) -> None:
            for labels in label_blocks(self.label_count):
                scores[:, labels] = self.scores(points, labels, output)
                if std is not None:
                    columns = np.arange(labels.start, labels.stop, dtype=np.int32)
                    std[:, labels] = self.std(points, np.tile(columns, (len(scores), 1)), output)

        scores, std = self._write_scores(write, self.filled(features), self.label_count, output, with_std)
        scores = scores[:count]
        std = None if std is None else std[:count]
        finite = np.isfinite(scores) & (True if std is None else np.isfinite(std))
        if not finite.all():
            point, label = np.argwhere(~finite)[0]
            raise NumericalError(f"the score of label {label} for point {point} is not finite")
        return scores, std

    def top(
        self, features: Features, k: int | None, output: str | None = None, with_std: bool = False, memory: int = MEMORY
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
        memory : int
            Megabytes that a chunk may take, not including the model.

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
        needed = 8 * numbers + self.bytes_per_point(output, with_std)
        chunk = max(1, (memory << 20) // needed)
        for start in range(0, features.N, chunk):
            rows = features[start : start + chunk]
            yield self._top(self.filled(rows), k, output, with_std).rows(0, rows.N)

    def _top(self, features: Features, k: int, output: str, with_std: bool) -> Scores:
        # Calibration can change the order of labels only if some keep their probabilities.
        reorders = self.uncalibrated is not None and self.calibration is not None and output == "probability"
        count = max(k, min(2 * k, MAX_STREAMED, self.label_count)) if reorders else k
        labels = np.empty((features.N, count), np.int32)

        def write(
            rows: slice, points: Prepared, scores: NDArray[np.floating], std: NDArray[np.floating] | None
        ) -> None:
            select_best(self, points, output, Best(labels[rows], scores))
            if std is not None:
                std[:] = self.std(points, labels[rows], output)

        scores, std = self._write_scores(write, features, count, output, with_std, labels)
        if reorders:
            order = descending(scores)[:, :k]
            labels = np.take_along_axis(labels, order, axis=1)
            scores = np.take_along_axis(scores, order, axis=1)
            std = None if std is None else np.take_along_axis(std, order, axis=1)
        return Scores.from_top(labels, scores, self.label_count, std)

    def explain(self, features: Features, scores: Scores) -> Contributions:
        """Return which features speak for and against labels of points: `Contributions` to the mean utilities.

        The features, N×D, are as read; of `scores` only the labels are used. Calibration, a map of probabilities,
        changes nothing. The result has a number and an index for each feature of the point of each pair: for many
        points, call this method for some of them at a time. SettingsError is raised if utilities are not sums over
        features, or features and scores are not of the same points and of this model; NumericalError if a contribution
        is not finite.
        """
        self.check_explainable()
        self.check(features.D)
        if (features.N, self.label_count) != (scores.N, scores.K):
            raise SettingsError(
                f"the scores are of {scores.N} points and {scores.K} labels, but there are {features.N} points, "
                f"and the model has {self.label_count} labels"
            )
        contributions = Contributions.unset(features, scores, self.dtype, self.pooled, self.has_texts)

        def write(rows: slice) -> None:
            pairs = slice(scores.indptr[rows.start], scores.indptr[rows.stop])
            self.contributions(features[rows], scores.rows(rows.start, rows.stop), contributions.of_pairs(pairs))

        for_parts(write, features.N)
        contributions.check_finite(scores)
        return contributions

    def supporters(self, features: Features, scores: Scores, count: int) -> list[list[Supporter]] | None:
        """Return the training points near each point, at most `count`, that weigh most for each of its listed labels.

        None if the model has no index of training points.
        """
        return None

    def filled(self, features: Features) -> Features:
        """Return the features of points, and of empty ones after them up to `min_points`; no points stay none."""
        count = features.N
        return (
            Features.stack([features, features.empty_rows(self.min_points - count)])
            if 0 < count < self.min_points
            else features
        )

    def _write_scores(
        self,
        function: Callable[[slice, Prepared, NDArray[np.floating], NDArray[np.floating] | None], None],
        features: Features,
        k: int,
        output: str,
        with_std: bool,
        labels: NDArray[np.int32] | None = None,
    ) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
        """Return scores, N×k, and their standard deviations or None, which are calibrated here.

        They are of these `labels`, N×k, which the function also writes, or of all labels.

        `function(rows, points, scores, std)` writes those of a few hundred prepared points at a time, on all cores.
        """
        scores = np.empty((features.N, k), self.dtype)
        std = np.empty_like(scores) if with_std else None

        def write(rows: slice) -> None:
            part_scores = scores[rows]
            part_std = None if std is None else std[rows]
            function(rows, self.prepare(features[rows], output, with_std), part_scores, part_std)
            if self.calibration and output == "probability":
                kept = self.uncalibrated
                if kept is not None and labels is not None:
                    kept = kept[labels[rows]]
                _calibrate(self.calibration, part_scores, part_std, kept)

        for_parts(write, features.N)
        return scores, std


def _calibrate(
    calibration: Calibration,
    scores: NDArray[np.floating],
    std: NDArray[np.floating] | None,
    kept: NDArray[np.bool_] | None = None,
) -> None:
    """Calibrate probabilities of labels, B×k in any order, and their standard deviations or None, in place.

    Those that are `kept`, k or B×k, stay as they are, and have no ranks.
    """
    size = max(1, CALIBRATED // scores.shape[1])
    before = None if kept is None else (scores.copy(), None if std is None else std.copy())
    if kept is not None:
        # After the others.
        np.copyto(scores, 0, where=kept)
    for start in range(0, len(scores), size):
        rows = slice(start, start + size)
        order = descending(scores[rows])
        ranked = np.take_along_axis(scores[rows], order, axis=1)
        np.put_along_axis(scores[rows], order, calibration(ranked), axis=1)
        if std is not None:
            ranked_std = np.take_along_axis(std[rows], order, axis=1)
            np.put_along_axis(std[rows], order, calibration.calibrated_std(ranked, ranked_std), axis=1)
    if kept is not None and before is not None:
        np.copyto(scores, before[0], where=kept)
        if std is not None and before[1] is not None:
            np.copyto(std, before[1], where=kept)
