"""The contract of every inference method of BMLPL and GPC: progress, resuming bit for bit, signals and divergence."""

import contextlib
import itertools
import math
import signal

import pytest

from tests.bmlpl import test_train as bmlpl
from tests.gpc import test_train as gpc
from tests.training.interrupting import (
    assert_same_result,
    check_signal_in_a_step,
    check_writing_checkpoints,
    train_with_interruptions,
)
from xmlgp.errors import NumericalError
from xmlgp.gpc import variational

METHODS = [(model, inference) for model in (bmlpl, gpc) for inference in model.INFERENCES]
every_method = pytest.mark.parametrize(("model", "inference"), METHODS, ids=[inference for _, inference in METHODS])

#: What an error names as the objective, and its advice, by model.
DIVERGED = {
    bmlpl: ("log posterior", "try another weighting or precision"),
    gpc: ("bound", "try another inference"),
}


@pytest.fixture(autouse=True)
def _no_early_stopping(monkeypatch):
    monkeypatch.setattr(variational, "TOLERANCE", -math.inf)
    monkeypatch.setattr(variational, "PATIENCE", 10**6)


def steps_of(problem):
    """Return the number of steps of training: minibatches, or passes."""
    settings = problem[-1]
    minibatches = settings.inference in ("online-em", "svi-adadelta")
    return settings.passes * (-(-problem[1].shape[0] // settings.batch_size) if minibatches else 1)


@every_method
def test_every_step_is_reported(model, inference):
    reported = []

    class Bar:
        def update(self, count=1, **facts):
            reported.append((count, facts))

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        reported.append((label, total, unit))
        yield Bar()

    problem = model.prepared(inference=inference)
    model.run_inference(*problem, progress)
    steps, each = steps_of(problem), steps_of(problem) // 5
    assert reported[0] == ("train", steps, "step")
    assert [count for count, _ in reported[1:]] == [1] * steps
    assert [facts["epoch"] for _, facts in reported[1:]] == [f"{1 + i // each}/5" for i in range(steps)]
    name = DIVERGED[model][0].replace(" ", "_")
    assert all(float(facts[name]) < 0 for _, facts in reported[1:])


#: A method of each kind: with minibatches, with random numbers, and with neither.
some_methods = pytest.mark.parametrize(
    ("model", "inference"),
    [(bmlpl, "online-em"), (bmlpl, "gibbs"), (gpc, "vi-jj-hybrid"), (gpc, "svi-adadelta")],
    ids=["online-em", "gibbs", "vi-jj-hybrid", "svi-adadelta"],
)


@every_method
def test_the_hook_gets_the_parameters_of_each_epoch_and_changes_nothing(model, inference):
    seen = {}

    def after_epoch(epoch, parameters):
        if epoch >= 2:  # Gibbs sampling has no samples before
            seen[epoch] = {name: value.copy() for name, value in parameters().items()}

    problem = model.prepared(inference=inference)
    found = model.run_inference(*problem, after_epoch=after_epoch)
    assert_same_result(found, model.run_inference(*problem))
    assert list(seen) == [2, 3, 4, 5]
    assert any(seen[2][name].tobytes() != seen[5][name].tobytes() for name in seen[5])
    assert_same_result((seen[5], []), (found[0], []))


#: Settings that add state or random draws.
CHOICES = [
    *((model, {"inference": inference}) for model, inference in METHODS),
    *((bmlpl, {"inference": name, "learn_precision": True, "iterations": 14}) for name in ("em-cg", "gibbs")),
    (bmlpl, {"inference": "online-em", "topics": 9, "weighting": "none", "batch_size": 7, "dtype": "float64"}),
    (gpc, {"inference": "svi-adadelta", "learning_rate": 2.0, "batch_size": 7}),
    (gpc, {"inference": "vi-taylor", "sparse": True, "nodes": 30}),
]


@pytest.mark.parametrize(
    ("model", "chosen"), CHOICES, ids=[" ".join(map(str, chosen.values())) for _, chosen in CHOICES]
)
def test_resuming_after_every_step_gives_the_same_result(tmp_path, model, chosen):
    problem = model.prepared(**chosen)
    found, interruptions = train_with_interruptions(
        model.run_inference, problem, tmp_path / "checkpoint", itertools.repeat(1)
    )
    assert_same_result(found, model.run_inference(*problem))
    assert interruptions == steps_of(problem)


@some_methods
def test_writing_checkpoints_does_not_change_the_result(tmp_path, model, inference):
    check_writing_checkpoints(model.run_inference, model.prepared(inference=inference), tmp_path / "checkpoint")


@some_methods
def test_a_signal_interrupts_at_the_end_of_a_step(tmp_path, monkeypatch, model, inference):
    problem, kind = model.prepared(inference=inference), model.INFERENCES[inference].load()
    path = tmp_path / "checkpoint"
    check_signal_in_a_step(model.run_inference, problem, path, kind, signal.SIGTERM, monkeypatch)


@every_method
def test_a_non_finite_objective_ends_training(monkeypatch, model, inference):
    steps, kind = itertools.count(), model.INFERENCES[inference].load()
    step, value = kind.step, (math.nan, math.inf, -math.inf)[METHODS.index((model, inference)) % 3]
    monkeypatch.setattr(kind, "step", lambda *arguments: value if next(steps) == 2 else step(*arguments))
    with pytest.raises(NumericalError) as caught:
        model.run_inference(*model.prepared(inference=inference))
    objective, advice = DIVERGED[model]
    if inference == "svi-adadelta":
        advice = "try a lower learning_rate"
    assert str(caught.value) == f"training diverged after 2 steps: the {objective} is not finite; {advice}"


@every_method
def test_the_error_of_a_step_is_reported_with_its_number(monkeypatch, model, inference):
    def diverging(*arguments):
        raise NumericalError("it has no factor")

    monkeypatch.setattr(model.INFERENCES[inference].load(), "step", diverging)
    with pytest.raises(NumericalError, match="^training diverged before the first step: it has no factor; "):
        model.run_inference(*model.prepared(inference=inference))
