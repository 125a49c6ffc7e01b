"""What training returns, the same for every model."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, at_least
from xmlgp.metrics.intervals import Interval

__all__ = ["COUNTS", "INTERVALS", "MEASURED", "HeldOut", "Trained", "is_history", "label_counts"]

#: How many training points have each label. GPC has none.
COUNTS = ArrayGroup("statistics.", labels=Array("K", np.int64, at_least(0)))

#: Fewest held-out points that can tell how far probabilities are off: calibration is judged on halves of them.
FEWEST = 100

#: Divided by √points, the error that probabilities of the best five labels have by chance in one case of 40 if they are
#: right: 9.5 percentage points with 40 points, 3.8 with 244 (simulated from those of a model of Bibtex).
CHANCE = 0.6


class HeldOut(NamedTuple):
    """What training measured on points that it held out.

    The precision of the best labels in percent; the expected calibration error of the probabilities of the best five
    as they are and before calibration, from 0 to 1. `intervals` has the 95 % intervals of the precisions, of the error
    before and after calibration, and of what calibration takes off it.
    """

    points: int
    precision_1: float
    precision_3: float
    precision_5: float
    uncalibrated_error: float
    calibrated_error: float
    intervals: tuple[Interval, ...] = ()

    @classmethod
    def from_untrusted(cls, entry: Any) -> HeldOut | None:
        """Return the same from an object as JSON has it, or None if it is not one."""
        try:
            points, *measures, pairs = (entry[name] for name in cls._fields)
            values: list[Any] = [float(measure) for measure in measures]
            intervals = tuple(Interval(float(low), float(high)) for low, high in pairs)
            measured = cls(points, *values)._replace(intervals=intervals)
        except (KeyError, TypeError, ValueError):
            return None
        fits = type(points) is int and len(intervals) == INTERVALS and len(entry) == len(cls._fields)
        return measured if fits else None

    def precision(self, K: int) -> str:
        """Return the precision in words, given the number of labels."""
        values = zip((1, 3, 5), self[1:4], self.intervals, strict=False)
        measured = [f"P@{k} {value:.1f}% [{low:.1f}, {high:.1f}]" for k, value, (low, high) in values if k <= K]
        return f"{', '.join(measured)} on {self.points} points held out of training (95 % intervals)"

    def reliability(self) -> str:
        """Return the calibration errors in words, or that the points cannot tell them."""
        if self.points < FEWEST:
            return f"{self.points} held-out points are too few to say how far probabilities are off"
        before, after, gain = self.intervals[3:]
        errors = self.uncalibrated_error, self.calibrated_error
        if max(errors) < CHANCE / math.sqrt(self.points):
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


#: The fields of `HeldOut` before the intervals.
MEASURED = HeldOut._fields[:-1]

#: The number of `intervals` of a `HeldOut`.
INTERVALS = 6


def is_history(entries: object, objective: str) -> bool:
    """Return whether each of the untrusted entries has the numbers of an epoch."""
    keys = ("epoch", objective, "seconds")
    return isinstance(entries, list) and all(
        isinstance(entry, dict) and all(isinstance(entry.get(key), int | float) for key in keys) for entry in entries
    )


class Trained(NamedTuple):
    """A trained model.

    Parameters have the names in docs/model-folder.md. The history has, for each epoch, `epoch`, the model's objective
    and `seconds` since the start. `held_out` is what was measured on points that were held out, or None.
    """

    parameters: dict[str, NDArray[Any]]
    history: list[dict[str, Any]]
    held_out: HeldOut | None = None


def label_counts(labels: csr_array) -> dict[str, NDArray[np.int64]]:
    """Return the `COUNTS` of points by name, given Y, N×K."""
    return COUNTS.named({"labels": sparse.column_sums(labels.indices, labels.shape[1]).astype(np.int64)})
