"""The time left of a training, on a fake clock."""

import pytest

from xmlgp.training.time_left import TimeLeft

COSTS = {"steps": (0.0, 20.0), "neighbours": (15.0, 0.0), "weights": (1.0, 10.0)}


class Left(TimeLeft):
    """The seconds left."""

    def __call__(self, phase, share):
        found = super().__call__(phase, share)
        return found and found[1] - found[0]


class Clock:
    now = 0.0


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("xmlgp.training.time_left.time.monotonic", lambda: clock.now)
    return clock


def run(clock, costs, speed=1.0, resumed_at=0.0, shares=50, expected=COSTS):
    """Yield what is left really, and what is estimated, in a training whose phases take `costs` times `speed`."""
    estimate = Left(expected)
    total = speed * sum(map(sum, costs.values()))
    start, steps = costs["steps"]
    began = speed * (start + resumed_at * steps) if resumed_at else 0.0
    for phase, (before, of_steps) in costs.items():
        first = resumed_at if phase == "steps" else 0.0
        if not first:
            for _part in range(10):
                yield total - began - clock.now, estimate(phase, None)
                clock.now += speed * before / 10
        for number in range(round(first * shares), shares if of_steps else 0):
            yield total - began - clock.now, estimate(phase, number / shares or None)
            clock.now += speed * of_steps / shares


@pytest.mark.parametrize(("speed", "resumed_at"), [(0.2, 0.0), (1.0, 0.0), (7.0, 0.0), (1.0, 0.8)])
def test_a_machine_of_another_speed_has_its_time_left_after_a_tenth(clock, speed, resumed_at):
    points = list(run(clock, COSTS, speed, resumed_at))
    for left, estimated in points:
        if left < 0.9 * points[0][0]:
            assert estimated == pytest.approx(left, rel=1 / 3, abs=0.5 * speed)


def test_compilation_before_the_first_step_says_nothing_wrong_of_what_follows(clock):
    expected = COSTS | {"steps": (0.0, 20.0)}
    for left, estimated in run(clock, COSTS | {"steps": (300.0, 20.0)}, expected=expected):
        assert estimated is None or estimated == pytest.approx(left, rel=0.1)


def test_phases_that_take_longer_than_expected_leave_those_after_them_what_they_take(clock):
    other = COSTS | {"steps": (0.0, 22.0), "neighbours": (14.0, 0.0)}
    for left, estimated in run(clock, other):
        assert estimated is None or estimated == pytest.approx(left, rel=1 / 3, abs=1)


def test_time_that_goes_by_without_a_report_counts(clock):
    estimate = Left(COSTS)
    estimate("steps", None)
    clock.now = 20.0
    assert estimate("neighbours", None) == pytest.approx(26.0)
    clock.now = 30.0
    assert estimate("neighbours", None) == pytest.approx(16.0)


def test_nothing_is_known_of_a_phase_without_a_cost_or_before_anything_is_done(clock):
    estimate = Left({"steps": (0.0, 1.0)})
    assert estimate("reading", 0.5) is None
    assert estimate("steps", None) is None


def test_one_phase_of_unknown_cost_is_told_by_its_share(clock):
    points = list(run(clock, {"steps": (0.0, 300.0)}, expected={"steps": (0.0, 1.0)}))
    for left, estimated in points[20:]:
        assert estimated == pytest.approx(left, rel=1 / 3)


@pytest.mark.parametrize(("phase", "share"), [("steps", 0.2), ("neighbours", None)])
def test_the_time_left_does_not_grow_while_nothing_is_done(clock, phase, share):
    estimate = Left(COSTS)
    estimate("steps", None)
    clock.now = 20.0
    before = estimate(phase, share)
    for now in range(21, 90):
        clock.now = now
        after = estimate(phase, share)
        assert after <= before
        before = after


def test_the_share_of_the_work_never_falls(clock):
    estimate = TimeLeft(COSTS)
    last = 0.0
    # Each phase takes longer than expected, the first not from its start.
    for phase, share, now in [
        *(("steps", step / 20 or None, 0.5 * step**2) for step in range(20)),
        *(("neighbours", None, 200 + second) for second in range(40)),
        *(("weights", None, 240 + second) for second in range(9)),
        *(("weights", step / 20, 250 + 2 * step) for step in range(20)),
    ]:
        clock.now = now
        done, total = estimate(phase, share) or (0.0, 1.0)
        assert last <= done / total <= 1
        last = done / total
    assert last > 0.9
