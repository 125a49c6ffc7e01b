"""Small blocks, so that small problems have several."""

import pytest

from xmlgp.gp.posteriors import cholesky


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(cholesky, "BLOCK", 2)
