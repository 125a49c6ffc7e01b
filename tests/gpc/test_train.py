"""Training of GPC by every inference method: history, reproducibility, resuming bit for bit, divergence."""

import contextlib
import itertools
import math
import signal

import numpy as np
import pytest
import scipy.sparse as sp

from tests.gpc.dense_gpc import THETA, random_problem
from tests.training.interrupting import (
    assert_same_result,
    check_resuming_after_random_steps,
    check_signal_in_a_step,
    check_writing_checkpoints,
    train_with_interruptions,
)
from xmlgp.errors import NumericalError
from xmlgp.gpc import variational
from xmlgp.gpc.model import GPC
from xmlgp.gpc.settings import INFERENCES, GPCSettings
from xmlgp.gpc.train import run_inference
from xmlgp.training.loop import Verdict

N, D, M = 40, 3, 8
#: Minibatches per pass of svi-adadelta.
BATCHES = 3
ITERATIONS = 5

any_inference = pytest.mark.parametrize("inference", INFERENCES)


def prepared(inference, seed=0, sparse=False, **chosen):
    """Return the arguments of `run_inference`."""
    problem = random_problem(3, N, M, D, absent=0.5 * sparse)
    options = {"batch_size": 15} if inference == "svi-adadelta" else {}
    settings = GPCSettings(inference=inference, **{"iterations": ITERATIONS, "seed": seed} | options | chosen)
    return problem.coordinates(sparse), sp.csr_array(problem.positive[:, None]), problem.inducing, settings


@pytest.fixture(autouse=True)
def _no_early_stopping(monkeypatch):
    """Disable early stopping, except in tests that use `early_stopping`."""
    monkeypatch.setattr(variational, "TOLERANCE", -math.inf)
    monkeypatch.setattr(variational, "PATIENCE", 10**6)


@pytest.fixture
def early_stopping(monkeypatch):
    """Stop training when its gain is small."""
    monkeypatch.setattr(variational, "TOLERANCE", 1e-3)
    monkeypatch.setattr(variational, "PATIENCE", 2)


def steps_per_epoch(inference):
    return BATCHES if inference == "svi-adadelta" else 1


def are_valid(parameters):
    """Return whether parameters have the names, shapes and types of a model, and are finite."""
    shapes = {"inducing": (M, D), "posterior.mean": (M, 1), "posterior.factor": (1, M, M)}
    return (
        list(parameters) == GPC().parameter_names()
        and all(value.shape == shapes.get(name, ()) for name, value in parameters.items())
        and all(value.dtype == np.float64 and np.isfinite(value).all() for value in parameters.values())
    )


@any_inference
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_history_and_parameters(inference, sparse):
    problem = prepared(inference, sparse=sparse)
    parameters, history = run_inference(*problem)
    assert [set(epoch) for epoch in history] == [{"epoch", "bound", "seconds"}] * ITERATIONS
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3, 4, 5]
    assert all(type(epoch["bound"]) is float and epoch["bound"] < 0 for epoch in history)
    seconds = [epoch["seconds"] for epoch in history]
    assert seconds == sorted(seconds)
    assert are_valid(parameters)
    np.testing.assert_array_equal(parameters["inducing"], problem[2])
    assert not np.triu(parameters["posterior.factor"][0], 1).any()


@any_inference
def test_training_does_not_change_its_arguments(inference):
    coordinates, labels, inducing, settings = prepared(inference)
    before = [coordinates.all().copy(), labels.copy(), inducing.copy()]
    run_inference(coordinates, labels, inducing, settings)
    np.testing.assert_array_equal(coordinates.all(), before[0])
    assert (labels != before[1]).nnz == 0
    np.testing.assert_array_equal(inducing, before[2])


@any_inference
def test_inducing_inputs_may_have_single_precision(inference):
    coordinates, labels, inducing, settings = prepared(inference)
    inducing = inducing.astype(np.float32)
    assert_same_result(
        run_inference(coordinates, labels, inducing, settings),
        run_inference(coordinates, labels, inducing.astype(np.float64), settings),
    )
    assert are_valid(run_inference(coordinates, labels, inducing, settings)[0])


@any_inference
@pytest.mark.usefixtures("early_stopping")
def test_default_number_of_iterations_is_a_maximum(inference):
    problem = prepared(inference, iterations=None)
    _, history = run_inference(*problem)
    most = problem[-1].passes
    assert len(history) == most if inference == "svi-adadelta" else 1 < len(history) < most


@any_inference
def test_same_seed_gives_the_same_result(inference):
    first, again, other = (run_inference(*prepared(inference, seed=seed)) for seed in (0, 0, 1))
    assert_same_result(again, first)
    if inference == "svi-adadelta":
        assert first[0]["posterior.mean"].tobytes() != other[0]["posterior.mean"].tobytes()
    else:  # the other methods draw no random numbers
        assert_same_result(other, first)


@any_inference
def test_progress_reports_every_step(inference):
    reports = []

    class Bar:
        def update(self, count=1, **facts):
            reports.append((count, facts))

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        reports.append((label, total, unit))
        yield Bar()

    run_inference(*prepared(inference), progress)
    steps = steps_per_epoch(inference)
    assert reports[0] == ("train", ITERATIONS * steps, "step")
    assert [count for count, _ in reports[1:]] == [1] * ITERATIONS * steps
    assert [facts["epoch"] for _, facts in reports[1:]] == [f"{1 + i // steps}/5" for i in range(ITERATIONS * steps)]
    assert all(float(facts["bound"]) < 0 for _, facts in reports[1:])


@any_inference
def test_after_epoch_receives_the_parameters_of_each_pass(inference):
    seen = {}

    def after_epoch(epoch, parameters):
        seen[epoch] = {name: value.copy() for name, value in parameters().items()}

    problem = prepared(inference)
    found = run_inference(*problem, after_epoch=after_epoch)
    assert_same_result(found, run_inference(*problem))
    assert list(seen) == [1, 2, 3, 4, 5]
    assert all(map(are_valid, seen.values()))
    assert seen[1][THETA[0]] != seen[5][THETA[0]]
    assert_same_result((seen[5], []), (found[0], []))


@any_inference
def test_verdict_stops_training(inference):
    found = run_inference(*prepared(inference), after_epoch=lambda epoch, parameters: Verdict({}, stop=epoch == 2))
    assert_same_result(found, run_inference(*prepared(inference, iterations=2)))


#: Settings that affect the state in checkpoints.
SETTINGS = [{"inference": inference} for inference in INFERENCES]
SETTINGS += [{"inference": "svi-adadelta", "learning_rate": 2.0, "batch_size": 7}]
SETTINGS += [{"inference": "vi-taylor", "sparse": True, "nodes": 30}]


@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: " ".join(f"{k}={v}" for k, v in chosen.items()))
def test_resuming_after_every_step_gives_the_same_result(tmp_path, chosen):
    problem = prepared(**chosen)
    found, interruptions = train_with_interruptions(
        run_inference, problem, tmp_path / "checkpoint", itertools.repeat(1)
    )
    assert_same_result(found, run_inference(*problem))
    batches = -(-N // problem[-1].batch_size) if chosen["inference"] == "svi-adadelta" else 1
    assert interruptions == batches * problem[-1].passes


@pytest.mark.parametrize("inference", ["vi-jj", "vi-taylor"])
@pytest.mark.usefixtures("early_stopping")
def test_resuming_with_early_stopping_gives_the_same_result(tmp_path, inference):
    problem = prepared(inference, iterations=60)
    expected = run_inference(*problem)
    assert len(expected[1]) < 60 or inference == "svi-adadelta"
    assert_same_result(
        train_with_interruptions(run_inference, problem, tmp_path / "checkpoint", itertools.repeat(1))[0], expected
    )


def test_resuming_after_random_steps_gives_the_same_result(tmp_path):
    check_resuming_after_random_steps(run_inference, prepared("svi-adadelta", iterations=9), tmp_path)


@any_inference
def test_writing_checkpoints_does_not_change_the_result(tmp_path, inference):
    check_writing_checkpoints(run_inference, prepared(inference), tmp_path / "checkpoint")


@any_inference
def test_signal_interrupts_at_the_end_of_a_step(tmp_path, monkeypatch, inference):
    problem, kind = prepared(inference), INFERENCES[inference].load()
    check_signal_in_a_step(run_inference, problem, tmp_path / "checkpoint", kind, signal.SIGTERM, monkeypatch)


ADVICE = {"svi-adadelta": "try a lower --learning-rate"}


@pytest.mark.parametrize(
    ("inference", "value"), list(zip(INFERENCES, itertools.cycle([math.nan, math.inf, -math.inf]), strict=False))
)
def test_non_finite_bound_raises(monkeypatch, inference, value):
    steps, kind = itertools.count(), INFERENCES[inference].load()
    step = kind.step
    monkeypatch.setattr(kind, "step", lambda *arguments: value if next(steps) == 2 else step(*arguments))
    with pytest.raises(NumericalError) as caught:
        run_inference(*prepared(inference))
    advice = ADVICE.get(inference, "try another --inference")
    assert str(caught.value) == f"training diverged after 2 steps: the bound is not finite; {advice}"


@any_inference
def test_numerical_error_is_reported_with_its_step(monkeypatch, inference):
    def failing(*arguments):
        raise NumericalError("it has no factor")

    monkeypatch.setattr(INFERENCES[inference].load(), "step", failing)
    with pytest.raises(NumericalError, match="^training diverged before the first step: it has no factor; check"):
        run_inference(*prepared(inference))


@any_inference
def test_initial_lengthscale_out_of_range_raises(inference):
    coordinates, labels, inducing, settings = prepared(inference)
    with pytest.raises(NumericalError, match="^training diverged before the first step: the lengthscale is 1"):
        run_inference(coordinates, labels, 1e100 * inducing, settings)


@any_inference
def test_non_finite_parameters_raise(monkeypatch, inference):
    kind = INFERENCES[inference].load()
    parameters = kind.parameters
    monkeypatch.setattr(
        kind, "parameters", lambda self, passes: parameters(self, passes) | {"posterior.mean": np.full((M, 1), np.nan)}
    )
    with pytest.raises(NumericalError, match=r"^training diverged after \d+ steps: posterior.mean is not finite"):
        run_inference(*prepared(inference))


def test_divergence_with_a_high_learning_rate_raises_an_error_with_advice():
    with pytest.raises(NumericalError, match="; try a lower --learning-rate$"):
        run_inference(*prepared("svi-adadelta", learning_rate=1e300))
