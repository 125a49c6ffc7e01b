"""Held-out points of small data sets, of which training holds out few or none."""

import contextlib
from unittest import mock

__all__ = ["calibrated"]


@contextlib.contextmanager
def calibrated(share=0.4):
    """Let training hold out this share of the points of any data set, however few."""
    module = "xmlgp.models.mlgpf.held_out"
    with mock.patch.multiple(module, CALIBRATION_SHARE=share, CALIBRATION_LEAST=1, LARGEST_SHARE=share):
        yield
