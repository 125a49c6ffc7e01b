"""What the end of training says about probabilities: nothing that so few points cannot tell."""

import pytest

from xmlgp.training.trained import HeldOut


@pytest.mark.parametrize(
    ("points", "before", "after", "text"),
    [
        # A test set of 1,200 points showed 14.0 before and 4.1 after.
        (40, 0.073, 0.120, ""),
        (99, 0.3, 0.1, ""),
        (100, 0.087, 0.027, "probabilities are 2.7 percentage points off on average (8.7 before calibration)"),
        (100, 0.059, 0.059, ""),
        (100, 0.059, 0.061, "probabilities are 6.1 percentage points off on average (5.9 before calibration)"),
        (244, 0.031, 0.031, ""),
        (2000, 0.031, 0.02, "probabilities are 2.0 percentage points off on average (3.1 before calibration)"),
    ],
)
def test_errors_of_calibration_are_said_if_chance_would_not_make_them(points, before, after, text):
    assert HeldOut(points, 60.0, 40.0, 30.0, before, after).reliability() == text
