"""The loop over passes with an inference that does nothing but count: what it tells, keeps and refuses."""

import contextlib
import math

import numpy as np
import pytest

from tests.training.interrupting import in_pieces
from tests.training.lying import change, refused
from xmlgp.errors import NumericalError
from xmlgp.gpc.settings import GPCSettings
from xmlgp.runtime.progress import silent
from xmlgp.training.checkpoints import Checkpoints, State, read_checkpoint
from xmlgp.training.passes import Passes

PASSES, STEPS = 4, 3


class Counting:
    """Adds up what it is told, and random numbers; has converged after some passes."""

    steps_a_pass = STEPS

    def __init__(self, random, passes_needed=math.inf, values=None):
        self._random, self._needed, self._values = random, passes_needed, values
        self._total = np.zeros(2)
        self.converged = False

    def step(self, iteration, done):
        number = STEPS * iteration + done
        self._total += [number, self._random.random()]
        self.converged = iteration + 1 >= self._needed and done == STEPS - 1
        value = -100.0 + number if self._values is None else self._values(number)
        if isinstance(value, Exception):
            raise value
        return value

    def moving(self):
        return {"total": self._total}

    def parameters(self, passes):
        return {"total": self._total.copy(), "passes": np.array(passes)}


def go(progress=silent, after_pass=None, checkpoints=None, passes=PASSES, seed=0, **options):
    """Train; return the parameters and the history."""
    random = np.random.default_rng(seed)
    run = Passes(Counting(random, **options), GPCSettings(iterations=passes), random, after_pass, "try something else")
    if checkpoints is not None and checkpoints.begun is not None:
        run.restore(checkpoints.begun)
    run.go_on(progress, checkpoints.offer if checkpoints else None)
    return run.inference.parameters(len(run.history)), run.history


def agree(found, expected):
    for name, value in expected[0].items():
        assert found[0][name].tobytes() == value.tobytes()
    one, other = ([{**epoch, "seconds": None} for epoch in history] for _, history in (found, expected))
    assert one == other


def test_each_pass_has_the_mean_of_what_its_steps_returned():
    parameters, history = go()
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3, 4]
    assert [epoch["bound"] for epoch in history] == [-99, -96, -93, -90]
    assert all(epoch.keys() == {"epoch", "bound", "seconds"} for epoch in history)
    seconds = [epoch["seconds"] for epoch in history]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0
    assert parameters["total"][0] == sum(range(PASSES * STEPS))


@pytest.mark.parametrize("needed", [1, 3, 4])
def test_it_ends_after_the_pass_that_converged(needed):
    parameters, history = go(passes_needed=needed)
    assert len(history) == parameters["passes"] == needed
    assert parameters["total"][0] == sum(range(needed * STEPS))


def test_it_ends_where_what_is_called_after_a_pass_says_so():
    calls = []

    def after_pass(epoch, parameters):
        calls.append((epoch, parameters()["total"][0]))
        return np.bool_(epoch == 2)

    _, history = go(after_pass=after_pass)
    assert len(history) == 2
    assert calls == [(1, 0 + 1 + 2), (2, 0 + 1 + 2 + 3 + 4 + 5)]


def test_the_time_after_a_pass_is_not_of_training(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("xmlgp.training.passes.time.perf_counter", lambda: now[0])

    def value(number):
        now[0] += 1
        return -1.0

    def after_pass(epoch, parameters):
        now[0] += 1000

    _, history = go(after_pass=after_pass, values=value)
    assert [epoch["seconds"] for epoch in history] == [3, 6, 9, 12]


def told(**options):
    """What a progress bar is told."""
    calls = []

    class Bar:
        def update(self, count=1, **facts):
            calls.append((count, facts))

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        calls.append((label, total, unit))
        yield Bar()

    go(progress, **options)
    return calls


def test_every_step_is_reported():
    calls = told()
    assert calls[0] == ("train", PASSES * STEPS, "step")
    expected = [{"epoch": f"{1 + i // STEPS}/{PASSES}", "bound": f"{-100 + i}"} for i in range(PASSES * STEPS)]
    assert calls[1:] == [(1, facts) for facts in expected]


def test_steps_that_are_saved_count_as_done():
    calls = told(passes_needed=2)
    assert [count for count, _ in calls[1:]] == [1] * 2 * STEPS + [2 * STEPS]


@pytest.mark.parametrize("needed", [2, math.inf])
@pytest.mark.parametrize("lengths", [[1] * 30, [2] * 30, [3] * 30, [5, 1, 4, 9, 9]], ids=str)
def test_it_goes_on_as_if_it_had_not_been_interrupted(tmp_path, needed, lengths):
    expected = go(passes_needed=needed)

    def train(checkpoints):
        return go(checkpoints=checkpoints, passes_needed=needed)

    found, interruptions = in_pieces(train, (), tmp_path / "checkpoint", lengths)
    agree(found, expected)
    assert interruptions > 1
    other = go(seed=1)
    assert other[0]["total"][1] != expected[0]["total"][1]


def test_what_has_ended_does_not_go_on(tmp_path):
    class Always(Checkpoints):
        def offer(self, state, epoch_ended=False):
            self.write(state())

    path = tmp_path / "checkpoint"
    expected = go(passes_needed=2, checkpoints=Always(path, {}, 1))
    resumed = Checkpoints(path, {}, 1e9, read_checkpoint(path))
    agree(go(checkpoints=resumed), expected)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_objective_that_is_lost(value):
    with pytest.raises(NumericalError, match="^after 4 training steps: the bound is not finite; try something else$"):
        go(values=lambda number: value if number == 4 else -1.0)


def test_what_a_step_says_of_lost_numbers_is_told_with_the_step():
    with pytest.raises(NumericalError, match="^after 7 training steps: it has no factor; try something else$"):
        go(values=lambda number: NumericalError("it has no factor") if number == 7 else -1.0)


def test_arrays_that_are_lost_are_not_kept(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint"
    monkeypatch.setattr(Counting, "moving", lambda self: {"total": self._total * np.nan})
    with pytest.raises(NumericalError, match="^after 1 training steps: total is not finite; try something else$"):
        go(checkpoints=Checkpoints(path, {}, 1e-9))
    assert not path.exists()


@pytest.fixture
def go_on(tmp_path):
    """Return a function that goes on from a state in the midst of the third pass, with changed facts."""
    path = tmp_path / "checkpoint"
    kept = []

    class Keeping(Checkpoints):
        def offer(self, state, epoch_ended=False):
            facts, arrays = state()
            kept.append(State(copied(facts), {name: value.copy() for name, value in arrays.items()}))

    go(checkpoints=Keeping(path, {}, 1))

    def call(facts, at=7):
        state = kept[at]
        facts(state.facts)
        Checkpoints(path, {}, 1).write(state)
        return go(checkpoints=Checkpoints(path, {}, 1e9, read_checkpoint(path)))

    return call


def copied(value):
    if isinstance(value, dict):
        return {key: copied(child) for key, child in value.items()}
    return [copied(child) for child in value] if isinstance(value, list) else value


def test_nothing_is_wrong_with_what_is_changed_below(go_on):
    agree(go_on(lambda facts: None), go())


def test_checkpoints_of_trainings_that_could_not_end_early(go_on):
    agree(go_on(change("ended", to=...)), go())


ENDED = {
    "in the midst of a pass": (change("ended", to=True), 7),
    "before the first": (change("ended", to=True), 1),
    "perhaps": (change("ended", to=1), 7),
    "in words": (change("ended", to="no"), 7),
    "with nothing": (change("ended", to=None), 7),
}


@pytest.mark.parametrize("lie", ENDED)
def test_an_end_that_is_none(go_on, lie):
    facts, at = ENDED[lie]
    refused(go_on, facts, at)


LIES = {
    "steps that it is not at": change("step", to=7),
    "steps that there are not": change("steps", to=10**9),
    "more of the pass than there is": change("done", to=STEPS),
    "less than nothing": change("done", to=-1),
    "true": change("done", to=True),
    "no estimates": change("estimates", to=[]),
    "estimates of no number": change("estimates", to=[-1.0, math.inf]),
    "estimates whose sum is none": change("estimates", to=[-1.7e308, -1.7e308]),
    "no seconds": change("seconds", to=...),
    "seconds before the first": change("seconds", to=-1.0),
    "a history of nothing": change("history", to=[]),
    "a history out of order": change("history", 1, "epoch", to=3),
    "a history of another model": change("history", 1, to={"epoch": 2, "log_posterior": -1.0, "seconds": 1.0}),
    "a generator of another seed": change("random", "state", "inc", to=1),
    "no generator": change("random", to=None),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies(go_on, lie):
    refused(go_on, LIES[lie])
