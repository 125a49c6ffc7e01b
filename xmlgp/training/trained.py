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
    as they are and before calibration, from 0 to 1. `intervals` has the 95 % intervals of the precisions, of both
    errors, and of what calibration takes off the error; models of earlier versions have none.
    """

    points: int
    precision_1: float
    precision_3: float
    precision_5: float
    uncalibrated_error: float
    calibrated_error: float
    intervals: tuple[Interval, ...] = ()

    @classmethod
    def from_untrusted(cls, entry: object) -> HeldOut | None:
        """Return the same from an object as JSON has it, or None if it is not one."""
        # Models of earlier versions have no intervals.
        if not isinstance(entry, dict) or set(MEASURED) - entry.keys() or entry.keys() - set(cls._fields):
            return None
        pairs = entry.get("intervals", [])
        if not isinstance(pairs, list | tuple) or len(pairs) not in (0, INTERVALS):
            return None
        try:
            intervals = tuple(Interval(*pair) for pair in pairs)
        except TypeError:
            return None
        measured = cls(**entry | {"intervals": intervals})
        numbers = *measured[: len(MEASURED)], *(end for interval in intervals for end in interval)
        valid = type(measured.points) is int and all(type(number) in (int, float) for number in numbers)
        return measured if valid else None

    def precision(self, K: int) -> str:
        """Return the precision in words, given the number of labels."""
        values = self.precision_1, self.precision_3, self.precision_5
        measured = [
            f"P@{k} {value:.1f}%{within}"
            for k, value, within in zip((1, 3, 5), values, self._within(1)[:3], strict=True)
            if k <= K
        ]
        notes = " (95 % intervals)" if self.intervals else ""
        return f"{', '.join(measured)} on {self.points} points held out of training{notes}"

    def _within(self, factor: float) -> list[str]:
        """Return the intervals as a text that follows each value, times a factor; empty texts without intervals."""
        if not self.intervals:
            return [""] * INTERVALS
        return [f" [{factor * low:.1f}, {factor * high:.1f}]" for low, high in self.intervals]

    def reliability(self) -> str:
        """Return the calibration errors in words, or that the points cannot tell them."""
        if self.points < FEWEST:
            return f"{self.points} held-out points are too few to say how far probabilities are off"
        errors = self.calibrated_error, self.uncalibrated_error
        if max(errors) < CHANCE / math.sqrt(self.points):
            text = f"probabilities are right, as far as {self.points} held-out points can tell"
            if self.intervals:
                text += f": at most {100 * self.intervals[-2].high:.1f} percentage points off on average"
            return text
        *_, of_before, of_after, of_gain = self._within(100)
        after, before = (f"{100 * error:.1f}" for error in errors)
        text = f"probabilities are {after}{of_after} percentage points off on average ({before}{of_before} before "
        text += "calibration)"
        if self.intervals and self.intervals[-1].low < 0 < self.intervals[-1].high:
            text += f"; {self.points} held-out points are too few to say whether calibration helps"
        return text


#: The fields of `HeldOut` that every measurement has.
MEASURED = HeldOut._fields[:6]

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
