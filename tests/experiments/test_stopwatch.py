"""The stopwatch: when it measures, and that the time of measuring does not count."""

import pytest

from xmlgp.experiments.gpc import Stopwatch


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the test moves."""

    class Clock:
        now = 100.0

    monkeypatch.setattr("xmlgp.experiments.gpc.time.perf_counter", lambda: Clock.now)
    return Clock


def run(stopwatch, clock, steps, seconds=1.0):
    """Make steps of the given seconds; return what `lap` returned."""
    answers = []
    for step in steps:
        clock.now += seconds
        answers.append(stopwatch.lap(step, lambda step=step: step))
    return answers


def test_the_time_of_measuring_does_not_count(clock):
    def measure(parameters):
        clock.now += 50
        return {"of": parameters}

    stopwatch = Stopwatch(3.5, measure, growth=1)
    assert run(stopwatch, clock, [1, 2, 3, 4]) == [False, False, False, True]
    assert stopwatch.curve == [{"epoch": n, "seconds": float(n), "of": n} for n in (1, 2, 3, 4)]


def test_intervals_grow_and_the_last_lap_is_measured(clock):
    stopwatch = Stopwatch(9, lambda parameters: {}, growth=2)
    assert run(stopwatch, clock, range(1, 10))[-2:] == [False, True]
    assert [moment["epoch"] for moment in stopwatch.curve] == [1, 2, 4, 8, 9]


def test_finish_measures_the_last_lap_once(clock):
    stopwatch = Stopwatch(100, lambda parameters: {"of": parameters}, growth=10)
    run(stopwatch, clock, [1, 2, 3])
    clock.now += 7
    stopwatch.finish(3, lambda: "end")
    stopwatch.finish(3, lambda: "end")
    assert stopwatch.curve[1:] == [{"epoch": 3, "seconds": 3.0, "of": "end"}]
