"""The stopwatch: what it measures when, and that measuring takes no time."""

import pytest

from xmlgp.experiments.watch import Watch


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""

    class Clock:
        now = 100.0

    monkeypatch.setattr("xmlgp.experiments.watch.time.perf_counter", lambda: Clock.now)
    return Clock


def run(watch, clock, steps, seconds=1.0):
    """Make steps of so many seconds; return what the laps said."""
    said = []
    for step in steps:
        clock.now += seconds
        said.append(watch.lap(step, lambda step=step: step))
    return said


def test_measuring_takes_no_time(clock):
    def measure(parameters):
        clock.now += 50
        return {"of": parameters}

    watch = Watch(3.5, measure, growth=1)
    assert run(watch, clock, [1, 2, 3, 4]) == [False, False, False, True]
    assert watch.curve == [{"epoch": n, "seconds": float(n), "of": n} for n in (1, 2, 3, 4)]


def test_moments_grow_apart_and_the_last_is_measured(clock):
    watch = Watch(9, lambda parameters: {}, growth=2)
    assert run(watch, clock, range(1, 10))[-2:] == [False, True]
    assert [moment["epoch"] for moment in watch.curve] == [1, 2, 4, 8, 9]


def test_a_training_that_ends_by_itself_is_measured_once_more(clock):
    watch = Watch(100, lambda parameters: {"of": parameters}, growth=10)
    run(watch, clock, [1, 2, 3])
    clock.now += 7
    watch.finish(3, lambda: "end")
    watch.finish(3, lambda: "end")
    assert watch.curve[1:] == [{"epoch": 3, "seconds": 3.0, "of": "end"}]


def test_the_time_can_be_up_between_laps(clock):
    watch = Watch(2, lambda parameters: {})
    assert not watch.over()
    clock.now += 2
    assert watch.over()
