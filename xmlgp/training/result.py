"""The result of training, which has the same form for every model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, at_least
from xmlgp.metrics.intervals import Interval
from xmlgp.metrics.ranking import highest_precision

__all__ = [
    "LABEL_COUNTS",
    "INTERVAL_COUNT",
    "MEASURE_NAMES",
    "HeldOutMeasures",
    "TrainingResult",
    "is_valid_history",
    "label_counts",
    "precision_limits",
]

#: The number of training points that have each label. GPC, which has one label, does not store it.
LABEL_COUNTS = ArrayGroup("statistics.", labels=Array("K", np.int64, at_least(0)))

#: The least number of held-out points for which calibration errors are reported: each half of them judges a calibration
#: that is fitted to the other half.
MIN_POINTS = 100

#: √points times the calibration error of the best five labels that exact probabilities exceed by chance in one of 40
#: samples. A simulation with the probabilities of a model of Bibtex gave errors of 0.095 with 40 points and 0.038 with
#: 244.
CHANCE_ERROR = 0.6


def precision_limits(counts: NDArray[np.integer], ks: Iterable[int]) -> str:
    """Return in words the highest P@k, given the numbers of labels of points, N; empty without points or limits.

    It is also empty if points have more than one label on average.
    """
    if not len(counts) or counts.mean() > 1:
        return ""
    highest = {k: highest_precision(counts, k) for k in ks}
    limits = ", ".join(f"P@{k} is at most {limit:.1f} %" for k, limit in highest.items() if limit < 100)
    return limits and f"points have few labels ({counts.mean():.2f} on average), so {limits}"


class HeldOutMeasures(NamedTuple):
    """Measures on the points that training held out.

    `precision_k` is the precision of the k best labels in percent. `uncalibrated_error` and `calibrated_error` are the
    expected calibration errors of the probabilities of the five best labels before and after calibration, from 0 to 1.
    `intervals` has six 95 % intervals, in the same units: of the three precisions, of the two errors, and of the error
    before calibration minus the error after it.
    """

    points: int
    precision_1: float
    precision_3: float
    precision_5: float
    uncalibrated_error: float
    calibrated_error: float
    intervals: tuple[Interval, ...] = ()

    @classmethod
    def from_untrusted(cls, entry: Any) -> HeldOutMeasures | None:
        """Return the measures that a JSON object holds, a dict of the fields, or None if it is malformed."""
        try:
            points, *measures, bounds = (entry[name] for name in cls._fields)
            values: list[Any] = [float(measure) for measure in measures]
            intervals = tuple(Interval(float(low), float(high)) for low, high in bounds)
            measured = cls(points, *values)._replace(intervals=intervals)
        except (KeyError, TypeError, ValueError):
            return None
        fits = type(points) is int and len(intervals) == INTERVAL_COUNT and len(entry) == len(cls._fields)
        return measured if fits else None

    def precision(self, K: int, counts: NDArray[np.integer]) -> str:
        """Return a phrase with the precisions, their intervals and their limits, for those k that are at most K.

        `counts` are the numbers of labels of the training points, N, or empty if they are not known.
        """
        ks = [k for k in (1, 3, 5) if k <= K]
        values = zip(ks, self[1:4], self.intervals, strict=False)
        measured = [f"P@{k} {value:.1f}% [{low:.1f}, {high:.1f}]" for k, value, (low, high) in values]
        limits = precision_limits(counts, ks)
        phrase = f"{', '.join(measured)} on {self.points} points held out of training (95 % intervals)"
        return "; ".join(filter(None, [phrase, limits]))

    def reliability(self) -> str:
        """Return a sentence about the calibration errors, or one that says there are too few points to judge them."""
        if self.points < MIN_POINTS:
            return f"{self.points} held-out points are too few to say how far probabilities are off"
        before, after, gain = self.intervals[3:]
        errors = self.uncalibrated_error, self.calibrated_error
        if max(errors) < CHANCE_ERROR / math.sqrt(self.points):
            return (
                f"probabilities are right, as far as {self.points} held-out points can tell: at most "
                f"{100 * after.high:.1f} percentage points off on average"
            )
        shown = [
            f"{100 * error:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            for error, (low, high) in zip(errors, (before, after), strict=True)
        ]
        text = f"probabilities are {shown[1]} percentage points off on average ({shown[0]} before calibration)"
        if gain.low < 0 < gain.high:
            text += f"; {self.points} held-out points are too few to say whether calibration helps"
        return text


#: The fields of `HeldOutMeasures` that are numbers.
MEASURE_NAMES = HeldOutMeasures._fields[:-1]

#: The number of `intervals` of a `HeldOutMeasures`.
INTERVAL_COUNT = 6


def is_valid_history(entries: object, objective: str) -> bool:
    """Return whether untrusted entries are a history: each has `epoch`, the objective and `seconds`, all numbers."""
    keys = ("epoch", objective, "seconds")
    return isinstance(entries, list) and all(
        isinstance(entry, dict) and all(isinstance(entry.get(key), int | float) for key in keys) for entry in entries
    )


class TrainingResult(NamedTuple):
    """The parameters, history and measures of a trained model.

    Parameters have the names in docs/model-folder.md. The history has a dict for each epoch: `epoch`, the model's
    objective, and `seconds` since the start. `held_out` is None if no points were held out.
    """

    parameters: dict[str, NDArray[Any]]
    history: list[dict[str, Any]]
    held_out: HeldOutMeasures | None = None


def label_counts(labels: csr_array) -> dict[str, NDArray[np.int64]]:
    """Return the array of `LABEL_COUNTS` under its name in a model folder, given Y, N×K."""
    return LABEL_COUNTS.named({"labels": sparse.column_sums(labels.indices, labels.shape[1]).astype(np.int64)})
