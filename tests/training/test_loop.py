"""The training loop with a trivial inference: history, progress, stopping, resuming, divergence."""

import math

import numpy as np
import pytest

from tests.grids import each_value
from tests.training.interrupting import EveryStep, Interrupting, Recorder, assert_same_result, train_with_interruptions
from xmlgp.runtime.errors import ModelFolderError, NumericalError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import silent
from xmlgp.training.checkpoints import CheckpointWriter, read_checkpoint
from xmlgp.training.inference import Inference
from xmlgp.training.loop import Loop, TrainingDiverged

EPOCHS, STEPS = 4, 3


class Counting(Inference):
    """Adds up its step numbers and random numbers; converges after `epochs_needed` epochs."""

    advice = "try something else"
    advice_at_start = "try another start"

    def __init__(self, epochs, seed, epochs_needed, value, size):
        if not size:
            raise NumericalError("there is nothing to count")
        self.epochs, self.random = epochs, np.random.default_rng(seed)
        self._epochs_needed, self._value = epochs_needed, value
        self._total = np.zeros(size)
        self.begun = []

    def steps_in(self, epoch):
        return STEPS

    def begin(self, epoch):
        self.begun.append(epoch)

    def step(self, epoch, done):
        assert self.begun[-1] == epoch
        number = STEPS * epoch + done
        self._total[:2] += [number, self.random.random()]
        self.converged = epoch + 1 >= self._epochs_needed and done == STEPS - 1
        value = self._value(number)
        if isinstance(value, Exception):
            raise value
        return value

    def arrays(self):
        return {"total": self._total}

    def parameters(self, epochs):
        return {"total": self._total.copy(), "epochs": np.array(epochs)}

    def notes(self):
        return {"noted": 0.5}


def train(progress=silent, after_epoch=None, checkpoints=None, facts=None, kind=Counting, **options):
    """Train; return the parameters and the history."""
    return loop(kind, **options).run(progress, after_epoch, checkpoints, facts)


def loop(kind=Counting, epochs=EPOCHS, seed=0, epochs_needed=math.inf, value=lambda number: number - 100.0, size=2):
    return Loop(kind, epochs, seed, epochs_needed, value, size)


def test_the_history_has_the_mean_objective_and_the_notes_of_each_epoch():
    parameters, history = train()
    assert [entry["epoch"] for entry in history] == [1, 2, 3, 4]
    assert [entry["bound"] for entry in history] == [-99, -96, -93, -90]
    assert all(entry.keys() == {"epoch", "bound", "seconds", "noted"} for entry in history)
    seconds = [entry["seconds"] for entry in history]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0
    assert parameters["total"][0] == sum(range(EPOCHS * STEPS))


@pytest.mark.parametrize("needed", [1, 3, 4])
def test_training_ends_after_convergence(needed):
    progress = Recorder()
    parameters, history = train(progress, epochs_needed=needed)
    assert len(history) == parameters["epochs"] == needed
    assert parameters["total"][0] == sum(range(needed * STEPS))
    steps = EPOCHS * STEPS
    assert progress.shares.pop("writing") == progress.shares["steps"][:1] == [None]
    assert progress.shares["steps"][1:] == pytest.approx([n / steps for n in range(1, needed * STEPS)])


def test_training_time_excludes_the_hook(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("xmlgp.training.loop.time.perf_counter", lambda: now[0])

    def value(number):
        now[0] += 1
        return -1.0

    def after_epoch(epoch, parameters):
        now[0] += 1000

    _, history = train(after_epoch=after_epoch, value=value)
    assert [entry["seconds"] for entry in history] == [3, 6, 9, 12]


def test_epochs_have_equal_parts_of_the_progress(tmp_path):
    path, progress = tmp_path / "checkpoint", Recorder()
    interrupt(path, 4)
    train(progress, checkpoints=resumed(path))
    assert progress.shares["steps"] == pytest.approx([n / (EPOCHS * STEPS) for n in range(4, EPOCHS * STEPS)])


@pytest.mark.parametrize(
    ("steps", "begun"), [(1, [0, 1, 2, 3]), (2, [0, 1, 2, 3]), (3, [1, 2, 3]), (8, [2, 3]), (12, [3])]
)
def test_a_resumed_run_begins_the_epoch_of_its_checkpoint(tmp_path, steps, begun):
    path = tmp_path / "checkpoint"
    interrupt(path, steps)
    resuming = loop()
    resuming.run(checkpoints=resumed(path))
    assert resuming.inference.begun == begun


def interrupt(path, steps, **options):
    """Interrupt a training after some steps."""
    with pytest.raises(Interrupted):
        train(checkpoints=Interrupting(path, steps), **options)


def resumed(path):
    return CheckpointWriter(path, {}, 1e9, read_checkpoint(path))


@each_value(needed=[2, math.inf], lengths=[[1] * 30, [2] * 30, [3] * 30, [5, 1, 4, 9, 9]])
def test_resuming_gives_the_same_model_bit_for_bit(tmp_path, needed, lengths):
    expected = train(epochs_needed=needed)

    def resume(checkpoints):
        return train(checkpoints=checkpoints, epochs_needed=needed)

    found, interruptions = train_with_interruptions(resume, (), tmp_path / "checkpoint", lengths)
    assert_same_result(found, expected)
    assert interruptions > 1
    other = train(seed=1)
    assert other[0]["total"][1] != expected[0]["total"][1]


def test_resuming_a_completed_run_makes_no_step(tmp_path):
    path = tmp_path / "checkpoint"
    expected = train(epochs_needed=2, checkpoints=EveryStep(path))
    assert_same_result(train(checkpoints=resumed(path)), expected)


def test_a_checkpoint_contains_the_facts_of_the_caller(tmp_path):
    interrupt(tmp_path / "checkpoint", 4, facts={"name": "a run", "number": 2.5})
    facts = read_checkpoint(tmp_path / "checkpoint").facts
    assert (facts["name"], facts["number"]) == ("a run", 2.5)
    assert (facts["step"], facts["steps"]) == (4, EPOCHS * STEPS)


@pytest.mark.parametrize(
    ("fact", "options"), [("steps", {}), ("random", {}), (None, {"epochs": EPOCHS + 1}), (None, {"size": 3})]
)
def test_a_checkpoint_of_another_training_or_without_a_fact_is_refused(tmp_path, fact, options):
    interrupt(tmp_path / "checkpoint", 4)
    checkpoints = resumed(tmp_path / "checkpoint")
    checkpoints.resume_from.facts.pop(fact, None)
    with pytest.raises(ModelFolderError, match="the checkpoint is damaged"):
        train(checkpoints=checkpoints, **options)


@pytest.mark.parametrize(
    ("step", "when"),
    [(7, "after 7 steps: no factor; try something else"), (0, "before the first step: no factor; try another start")],
)
def test_the_error_of_a_step_is_reported_with_its_number(step, when):
    with pytest.raises(TrainingDiverged, match=f"^training diverged {when}$"):
        train(value=lambda number: NumericalError("no factor") if number == step else -1.0)
    with pytest.raises(TrainingDiverged, match="before the first step: there is nothing to count; try another start$"):
        train(size=0)


def test_non_finite_arrays_are_not_saved(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint"
    monkeypatch.setattr(Counting, "arrays", lambda self: {"total": self._total * np.nan})
    with pytest.raises(TrainingDiverged, match="^training diverged after 1 step: total is not finite; try"):
        train(checkpoints=CheckpointWriter(path, {}, 1e-9))
    assert not path.exists()
