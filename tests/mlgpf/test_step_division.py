"""How many workers a stochastic step is divided among."""

from types import SimpleNamespace

import pytest

from xmlgp.mlgpf import step_division
from xmlgp.mlgpf.step_division import best_parts


@pytest.fixture
def cores(monkeypatch):
    """Return a function that pretends that the client has so many cores."""
    return lambda count: monkeypatch.setattr(step_division, "core_count", lambda: count)


def parts(core_seconds, workers, threads=1, moved=0):
    cluster = SimpleNamespace(worker_count=workers, threads=threads)
    return best_parts(core_seconds, lambda parts: moved, cluster)


def test_a_small_step_stays_on_the_client(cores):
    cores(1)
    assert parts(0.004, workers=64) == 0


def test_a_step_is_divided_where_the_client_has_fewer_cores_than_the_workers(cores):
    cores(1)
    assert parts(0.02, workers=2) == 2
    cores(2)
    assert parts(0.02, workers=2) == 0


def test_more_workers_than_pay_are_not_used(cores):
    cores(16)
    assert parts(100, workers=64, threads=16) == 50
    assert parts(1, workers=64, threads=16) == 5


def test_messages_count_with_their_content(cores):
    cores(1)
    assert parts(0.02, workers=2, moved=2 * 10**7) == 0
