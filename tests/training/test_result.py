"""Sentences about held-out measures, which claim nothing that so few points cannot show."""

import json

import numpy as np
import pytest

from xmlgp.metrics.intervals import Interval
from xmlgp.training.result import HeldOutMeasures, precision_limits

INTERVALS = tuple(
    Interval(*pair) for pair in ((55.04, 64.96), (36, 44), (27, 33), (0.06, 0.11), (0.01, 0.05), (-0.01, 0.09))
)


@pytest.mark.parametrize(
    ("points", "before", "after", "text"),
    [
        # A test set of 1,200 points showed 14.0 before and 4.1 after.
        (40, 0.073, 0.120, "40 held-out points are too few to say how far probabilities are off"),
        (99, 0.3, 0.1, "99 held-out points are too few to say how far probabilities are off"),
        (
            100,
            0.087,
            0.027,
            "probabilities are 2.7 [1.0, 5.0] percentage points off on average (8.7 [6.0, 11.0] before",
        ),
        (100, 0.059, 0.059, "probabilities are right, as far as 100 held-out points can tell: at most 5.0"),
        (
            100,
            0.059,
            0.061,
            "probabilities are 6.1 [1.0, 5.0] percentage points off on average (5.9 [6.0, 11.0] before",
        ),
        (244, 0.031, 0.031, "probabilities are right, as far as 244 held-out points can tell: at most 5.0"),
        (
            2000,
            0.031,
            0.02,
            "probabilities are 2.0 [1.0, 5.0] percentage points off on average (3.1 [6.0, 11.0] before",
        ),
    ],
)
def test_errors_of_calibration_are_said_if_chance_would_not_make_them(points, before, after, text):
    assert HeldOutMeasures(points, 60.0, 40.0, 30.0, before, after, INTERVALS).reliability().startswith(text)


def test_intervals_follow_the_values():
    measured = HeldOutMeasures(300, 60.0, 40.0, 30.0, 0.087, 0.027, INTERVALS)
    text = "P@1 60.0% [55.0, 65.0], P@3 40.0% [36.0, 44.0] on 300 points held out of training (95 % intervals)"
    assert measured.precision(4, np.array([2, 1, 1])) == text
    assert measured.precision(4, np.array([])) == text
    limits = "points have few labels (1.00 on average), so P@3 is at most 33.3 %"
    assert measured.precision(4, np.ones(3)) == f"{text}; {limits}"
    assert measured.reliability() == (
        "probabilities are 2.7 [1.0, 5.0] percentage points off on average (8.7 [6.0, 11.0] before calibration); 300 "
        "held-out points are too few to say whether calibration helps"
    )
    assert HeldOutMeasures.from_untrusted(json.loads(json.dumps(measured._asdict()))) == measured
    few = measured._replace(points=100, uncalibrated_error=0.03)
    assert few.reliability() == (
        "probabilities are right, as far as 100 held-out points can tell: at most 5.0 percentage points off on average"
    )


@pytest.mark.parametrize(
    ("counts", "limits"),
    [
        ([1, 1], "1.00 on average), so P@2 is at most 50.0 %"),
        # No point has more than two labels among the first two.
        ([0, 4, 0, 0], "1.00 on average), so P@1 is at most 25.0 %, P@2 is at most 25.0 %"),
        ([0, 2, 1, 0], "0.75 on average), so P@1 is at most 50.0 %, P@2 is at most 37.5 %"),
        ([2, 1], ""),
        ([], ""),
    ],
)
def test_the_highest_precision_is_a_mean_over_points(counts, limits):
    said = precision_limits(np.array(counts, int), (1, 2))
    assert said == (limits and f"points have few labels ({limits}")


@pytest.mark.parametrize(
    "change",
    [
        {"intervals": [[1, 2]]},
        {"intervals": [[1, 2, 3]] * 6},
        {"intervals": {"low": 1}},
        {"intervals": [1] * 6},
        {"dense_gains": [1.0], "dense_intervals": [[0, 1]]},
    ],
)
def test_damaged_intervals_are_refused(change):
    assert (
        HeldOutMeasures.from_untrusted(
            HeldOutMeasures(300, 60.0, 40.0, 30.0, 0.087, 0.027, INTERVALS)._asdict() | change
        )
        is None
    )
