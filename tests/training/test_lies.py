"""Checkpoints that a stranger made: whatever they say of a training, nothing but one as it could be is gone on with."""

import contextlib
import math

import numpy as np
import pytest

from tests.mlgpf.test_train import PAIRED, prepared
from tests.training.lying import change, refused
from xmlgp.errors import ModelFolderError, NumericalError
from xmlgp.mlgpf.train import fit
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.training.checkpoints import Checkpoint, Checkpoints, State, read_checkpoint

#: Of the training that held-out points are ranked by, and of that on all points: each in the midst of an epoch.
PROBLEMS = {
    "watched": prepared(PAIRED, epochs=3, negatives=3, sampling="uniform", seed=0),
    "planned": prepared(PAIRED, epochs=3, negatives=3, sampling="uniform", seed=0),
    "not pooled": prepared(PAIRED, epochs=3, regression_points=0),
    "kept": prepared(PAIRED, epochs=3, refit=False),
    "all": prepared(PAIRED, epochs=3, validation=0),
}


class Stopping(Checkpoints):
    """Interrupts when training is where it is wanted."""

    def offer(self, state, epoch_ended=False):
        facts = state().facts
        planned = facts["plan"] is not None
        if facts["done"] and planned == self.planned and (planned or len(facts["history"]) == 1):
            self.write(state())
            raise Interrupted(15)


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The states that the trainings were left in."""
    found = {}
    for name, problem in PROBLEMS.items():
        checkpoints = Stopping(tmp_path_factory.mktemp("training") / "checkpoint", {}, 1)
        checkpoints.planned = name not in ("watched", "kept")
        with pytest.raises(Interrupted):
            fit(*problem, checkpoints=checkpoints)
        content = read_checkpoint(checkpoints.path)
        with np.load(checkpoints.path) as arrays:
            found[name] = State(content.facts, {key: arrays[key] for key in arrays if key != "checkpoint.json"})
    return found


@pytest.fixture
def go_on(tmp_path, states):
    """Return a function that goes on from the state of a training, changed by another one."""

    def call(name, facts=lambda facts: None, arrays=lambda arrays: None):
        state = State(copied(states[name].facts), {key: np.copy(value) for key, value in states[name].arrays.items()})
        facts(state.facts)
        arrays(state.arrays)
        path = tmp_path / "checkpoint"
        Checkpoints(path, {}, 1).write(state)
        return fit(*PROBLEMS[name], checkpoints=Checkpoints(path, {}, 1e9, read_checkpoint(path)))

    return call


def copied(value):
    if isinstance(value, dict):
        return {key: copied(child) for key, child in value.items()}
    return [copied(child) for child in value] if isinstance(value, list) else value


def finite(found):
    return all(np.isfinite(value).all() for value in found.parameters.values())


@pytest.mark.parametrize("name", PROBLEMS)
def test_nothing_is_wrong_with_what_is_changed_below(go_on, name):
    assert finite(go_on(name))


#: Of no type that any fact has.
ODD = [..., "x", "1", [None], {"x": 1}, -1, -1.5, math.nan, math.inf, 10**400]

ALL_FACTS = ["step", "steps", "done", "estimates", "seconds", "ended", "history", "learning_rate", "random", "stopping"]


@pytest.mark.parametrize("fact", [*ALL_FACTS, "plan"])
def test_facts_of_another_type(go_on, fact):
    name = "planned" if fact == "plan" else "watched"
    for value in ODD:
        if (fact, value) != ("plan", ...):
            refused(go_on, name, change(fact, to=value))


PCG = {"bit_generator": "PCG64", "state": {"state": 1, "inc": 1}, "has_uint32": 0, "uinteger": 0}

LIES = {
    "a step that it is not at": change("step", to=3),
    "steps that there are not": change("steps", to=10**9),
    "more done of the epoch than there is": change("done", to=99),
    "all done of the epoch": change("done", to=5),
    "nothing done of the epoch": change("done", to=0),
    "true in place of one": change("done", to=True),
    "part of a step": change("done", to=1.0),
    "no estimate of the bound": change("estimates", to=[]),
    "an estimate that is no number": change("estimates", to=[math.nan]),
    "estimates whose sum is none": change("estimates", to=[1.7e308, 1.7e308]),
    "a learning rate of zero": change("learning_rate", to=0.0),
    "a history that is too short": change("history", to=[]),
    "an epoch of the history that is another": change("history", 0, "epoch", to=2),
    "a bound that is no number": change("history", 0, "bound", to=math.nan),
    "an end that is one": change("ended", to=1),
    "another generator": change("random", "bit_generator", to="MT19937"),
    "a generator that only says zero": change("random", to=PCG | {"state": {"state": 0, "inc": 0}}),
    "a generator of another seed": change("random", "state", "inc", to=1),
    "a generator that is negative": change("random", "state", "state", to=-1),
    "a generator that is too large": change("random", "state", "state", to=2**128),
    "a generator in parts": change("random", "state", "state", to=1.5),
    "a generator in a text": change("random", "state", "state", to="1"),
    "half of a number that is too large": change("random", "uinteger", to=2**40),
    "scores of another number": change("stopping", "scores", to=[]),
    "scores of other epochs": change("stopping", "scores", to=[1.0]),
    "a best epoch to come": change("stopping", "best_epoch", to=2),
    "a best epoch beyond all": change("stopping", "best_epoch", to=10**9),
    "a best epoch before the first": change("stopping", "best_epoch", to=0),
    "a best epoch that is no number": change("stopping", "best_epoch", to=True),
    "no best epoch of a best score": change("stopping", "best_epoch", to=None),
    "a best score that is none": change("stopping", "best_score", to=math.nan),
    "no best score of a best epoch": change("stopping", "best_score", to=None),
    "losses that fill the screen": change("lost", to="x" * 10_000),
    "losses of several lines": change("lost", to="a\nb"),
    "losses without words": change("lost", to=1),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_about_what_held_out_points_are_ranked_by(go_on, lie):
    refused(go_on, "watched", LIES[lie])


def test_an_end_before_the_first_epoch(go_on):
    def ended(facts):
        facts |= {"ended": True, "history": [], "done": 0, "estimates": [], "step": 0}
        facts["stopping"] = {"best_epoch": None, "best_score": None, "scores": []}

    refused(go_on, "watched", ended)


PLANS = {
    "without an end": ("planned", change("plan", "epochs", to=10**9)),
    "of no epochs": ("planned", change("plan", "epochs", to=0)),
    "of less than none": ("planned", change("plan", "epochs", to=-1)),
    "of true epochs": ("planned", change("plan", "epochs", to=True)),
    "of as many as there are": ("planned", change("plan", "epochs", to=None)),
    "without an end, where nothing was held out": ("all", change("plan", "epochs", to=10**9)),
    "of as many as usual, where nothing was held out": ("all", change("plan", "epochs", to=None)),
    "with a rate that is no number": ("planned", change("plan", "rate", to=math.nan)),
    "with a rate of zero": ("planned", change("plan", "rate", to=0.0)),
    "with a rate for nothing": ("all", change("plan", "rate", to=0.5)),
    "pooled with what is not wanted": ("not pooled", change("plan", "pooled", to=True)),
    "pooled or not": ("planned", change("plan", "pooled", to=None)),
    "after nothing": ("planned", change("plan", "validation", to=[])),
    "after what was not ranked": ("planned", change("plan", "validation", 0, "ndcg@5", to=...)),
    "after what was ranked in words": ("planned", change("plan", "validation", 0, "ndcg@5", to="best")),
    "after other epochs": ("planned", change("plan", "validation", 0, "epoch", to=7)),
    "after seconds that are none": ("planned", change("plan", "validation", -1, "seconds", to=math.nan)),
    "that lacks something": ("planned", change("plan", "rate", to=...)),
    "that has something more": ("planned", change("plan", "more", to=1)),
    "that is empty": ("planned", change("plan", to={})),
    "that is false": ("planned", change("plan", to=False)),
}


@pytest.mark.parametrize("lie", PLANS)
def test_lies_about_the_plan(go_on, lie):
    refused(go_on, *PLANS[lie])


def test_a_plan_to_train_anew_where_that_is_not_wanted(go_on, states):
    refused(go_on, "kept", change("plan", to=states["planned"].facts["plan"]))


@pytest.mark.parametrize("order", ["twice", "beyond", "negative", "huge"])
def test_an_order_of_points_that_is_none(go_on, order):
    def arrays(arrays):
        arrays["order"][0] = {"twice": arrays["order"][1], "beyond": 60, "negative": -1, "huge": 2**62}[order]

    for name in PROBLEMS:
        refused(go_on, name, arrays=arrays)


@pytest.mark.parametrize("array", ["order", "parameters.loadings", "optimiser.bias/mean", "best.bias"])
@pytest.mark.parametrize("damage", ["missing", "shorter", "longer", "of another type"])
def test_arrays_of_another_kind(go_on, array, damage):
    def arrays(arrays):
        value = arrays.pop(array)
        if damage != "missing":
            arrays[array] = {
                "shorter": value[:-1],
                "longer": np.concatenate([value, value]),
                "of another type": value.astype(np.float64),
            }[damage]

    refused(go_on, "watched", arrays=arrays)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("prefix", ["parameters.", "optimiser.", "best."])
@pytest.mark.parametrize("name", ["watched", "kept"])
def test_arrays_that_are_not_finite(go_on, states, name, prefix, value):
    for array in [array for array in states[name].arrays if array.startswith(prefix)]:
        refused(go_on, name, arrays=lambda arrays, array=array: arrays[array].flat.__setitem__(-1, value))


@pytest.mark.parametrize("value", [3e38, -3e38, -1.0, 0.0, 1e-45])
@pytest.mark.parametrize("prefix", ["parameters.", "optimiser.", "best."])
@pytest.mark.parametrize("name", ["watched", "kept", "all"])
def test_arrays_that_could_be_train_to_finite_parameters_or_not_at_all(go_on, states, name, prefix, value):
    def arrays(arrays):
        for array, numbers in arrays.items():
            if array.startswith(prefix):
                numbers.fill(value)

    with contextlib.suppress(NumericalError):
        assert finite(go_on(name, arrays=arrays))


def test_a_learning_rate_without_end_is_told_of_as_too_high(go_on):
    with pytest.raises(NumericalError, match="try a lower --learning-rate"):
        go_on("all", change("learning_rate", to=1e300))


def test_losses_that_a_checkpoint_tells_of_are_told(go_on):
    def facts(facts):
        facts |= {"lost": "so it was before", "learning_rate": 1e300}

    with pytest.raises(NumericalError, match=r"\(so it was before\)"):
        go_on("all", facts)


def test_the_state_of_another_training_is_refused(go_on, states):
    def facts(facts):
        facts.clear()
        facts |= copied(states["watched"].facts)

    refused(go_on, "all", facts)
    with pytest.raises(ModelFolderError):
        fit(*PROBLEMS["all"], checkpoints=Checkpoints(None, {}, 1, Checkpoint(None, {}, {})))
