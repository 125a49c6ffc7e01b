"""Held-out points in small data sets."""

import pytest

from xmlgp.models.mlgpf import held_out


@pytest.fixture
def many_held_out(monkeypatch):
    """A quarter of the points is held out, however few they are."""
    monkeypatch.setattr(held_out, "CALIBRATION_SHARE", 0.25)
    monkeypatch.setattr(held_out, "CALIBRATION_LEAST", 1)
    monkeypatch.setattr(held_out, "LARGEST_SHARE", 0.25)


@pytest.fixture(params=[False, True], ids=["all points", "held out"])
def held(request):
    """Whether a quarter of the points is held out."""
    if request.param:
        request.getfixturevalue("many_held_out")
    return request.param
