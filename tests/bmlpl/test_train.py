"""Training of BMLPL by every inference method: history, reproducibility, resuming, divergence."""

import contextlib
import itertools
import math
import signal

import numpy as np
import pytest

from tests.problems import small_dataset
from tests.training.interrupting import (
    assert_same_result,
    check_resuming_after_random_steps,
    check_signal_in_a_step,
    check_writing_checkpoints,
    train_with_interruptions,
)
from xmlgp.bmlpl import train as module
from xmlgp.bmlpl.parameters import are_valid_parameters
from xmlgp.bmlpl.settings import INFERENCES, BMLPLSettings
from xmlgp.bmlpl.train import run_inference
from xmlgp.errors import NumericalError
from xmlgp.preprocess.pipeline import weight_features
from xmlgp.training.checkpoints import CheckpointWriter

N, D, K, T = 40, 25, 7, 4
DATASET = small_dataset(N, D, K)
SMALL = {"topics": T, "iterations": 5, "batch_size": 16, "burn_in": 1, "thinning": 2}
#: Minibatches of a pass of online-em.
BATCHES = 3

any_inference = pytest.mark.parametrize("inference", INFERENCES)


def prepared(**chosen):
    """Return coordinates, labels and settings: the arguments of `run_inference`."""
    settings = BMLPLSettings(**SMALL | chosen)
    coordinates = weight_features(DATASET.features, settings).coordinates(DATASET.features, settings.dtype)
    return coordinates, DATASET.labels, settings


def steps_per_epoch(inference):
    return BATCHES if inference == "online-em" else 1


@any_inference
def test_history_and_parameters_are_complete(inference):
    parameters, history = run_inference(*prepared(inference=inference))
    assert [set(epoch) for epoch in history] == [{"epoch", "log_posterior", "seconds"}] * 5
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3, 4, 5]
    assert all(type(epoch["log_posterior"]) is float and epoch["log_posterior"] < 0 for epoch in history)
    seconds = [epoch["seconds"] for epoch in history]
    assert seconds == sorted(seconds)
    assert are_valid_parameters(parameters, (D, K, T))
    assert {value.dtype for value in parameters.values()} == {np.dtype(np.float32)}


@any_inference
def test_the_default_number_of_iterations(inference):
    settings = prepared(inference=inference, iterations=None)
    _, history = run_inference(*settings)
    assert len(history) == settings[2].passes >= 20


@any_inference
@pytest.mark.parametrize("chosen", [{"revealed": 0.5}, {"topics": 2, "dtype": "float64"}], ids=str)
def test_results_are_reproducible_given_the_seed(inference, chosen):
    first, again, other = (run_inference(*prepared(inference=inference, seed=seed, **chosen)) for seed in (0, 0, 1))
    assert_same_result(again, first)
    assert first[0]["topics"].tobytes() != other[0]["topics"].tobytes()
    assert first[0]["topics"].dtype == chosen.get("dtype", "float32")


@any_inference
def test_hidden_labels_are_treated_as_negatives(inference):
    coordinates, labels, settings = prepared(inference=inference, revealed=0.5)
    seen = module.reveal_labels(labels, 0.5, np.random.default_rng([0, 1]))
    assert 0.3 * labels.nnz < seen.nnz < 0.7 * labels.nnz
    before = labels.copy()
    found = run_inference(coordinates, labels, settings)
    assert (before != labels).nnz == 0
    assert_same_result(found, run_inference(coordinates, seen, prepared(inference=inference)[2]))


@any_inference
def test_every_step_is_reported(inference):
    reported = []

    class Bar:
        def update(self, count=1, **facts):
            reported.append((count, facts))

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        reported.append((label, total, unit))
        yield Bar()

    run_inference(*prepared(inference=inference), progress)
    steps = steps_per_epoch(inference)
    assert reported[0] == ("train", 5 * steps, "step")
    assert [count for count, _ in reported[1:]] == [1] * 5 * steps
    assert [facts["epoch"] for _, facts in reported[1:]] == [f"{1 + i // steps}/5" for i in range(5 * steps)]
    assert all(float(facts["log_posterior"]) < 0 for _, facts in reported[1:])


@any_inference
def test_the_hook_gets_the_parameters_of_each_iteration(inference):
    seen = {}

    def after_epoch(epoch, parameters):
        if epoch >= 2:  # Gibbs sampling has no samples before
            seen[epoch] = {name: value.copy() for name, value in parameters().items()}

    problem = prepared(inference=inference)
    found = run_inference(*problem, after_epoch=after_epoch)
    assert_same_result(found, run_inference(*problem))
    assert list(seen) == [2, 3, 4, 5]
    assert all(are_valid_parameters(parameters, (D, K, T)) for parameters in seen.values())
    assert seen[2]["weights"].tobytes() != seen[5]["weights"].tobytes()
    assert_same_result((seen[5], []), (found[0], []))


#: Settings that add state or random draws.
SETTINGS = [{"inference": inference, "revealed": 0.6} for inference in INFERENCES]
SETTINGS += [
    *(
        {"inference": inference, "learn_precision": True, "iterations": 14}
        for inference in INFERENCES
        if inference != "online-em"
    ),
    {"inference": "online-em", "topics": 9, "weighting": "none", "batch_size": 7, "dtype": "float64"},
    {"inference": "gibbs", "burn_in": 4, "thinning": 1},
]


@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: " ".join(f"{k}={v}" for k, v in chosen.items()))
def test_resuming_after_every_step_gives_the_same_result(tmp_path, chosen):
    problem = prepared(**chosen)
    found, interruptions = train_with_interruptions(
        run_inference, problem, tmp_path / "checkpoint", itertools.repeat(1)
    )
    assert_same_result(found, run_inference(*problem))
    batches = -(-N // problem[2].batch_size) if chosen["inference"] == "online-em" else 1
    assert interruptions == batches * problem[2].passes


def test_resuming_after_random_steps_gives_the_same_result(tmp_path):
    check_resuming_after_random_steps(run_inference, prepared(inference="online-em", iterations=9), tmp_path)


@any_inference
def test_writing_checkpoints_does_not_change_the_result(tmp_path, inference):
    check_writing_checkpoints(run_inference, prepared(inference=inference), tmp_path / "checkpoint")


@any_inference
def test_signal_interrupts_at_the_end_of_a_step(tmp_path, monkeypatch, inference):
    problem, kind = prepared(inference=inference), INFERENCES[inference].load()
    check_signal_in_a_step(run_inference, problem, tmp_path / "checkpoint", kind, signal.SIGTERM, monkeypatch)


@pytest.mark.parametrize(
    ("inference", "value"), list(zip(INFERENCES, itertools.cycle([math.nan, math.inf, -math.inf]), strict=False))
)
def test_a_non_finite_log_posterior_ends_training(monkeypatch, inference, value):
    steps, kind = itertools.count(), INFERENCES[inference].load()
    step = kind.step
    monkeypatch.setattr(kind, "step", lambda *arguments: value if next(steps) == 2 else step(*arguments))
    with pytest.raises(NumericalError) as caught:
        run_inference(*prepared(inference=inference))
    assert str(caught.value) == (
        "training diverged after 2 steps: the log posterior is not finite; try another --weighting or --precision"
    )


@any_inference
def test_the_error_of_a_step_is_reported_with_its_number(monkeypatch, inference):
    def diverging(*arguments):
        raise NumericalError("it has no factor")

    monkeypatch.setattr(INFERENCES[inference].load(), "step", diverging)
    with pytest.raises(
        NumericalError,
        match="^training diverged before the first step: it has no factor; try another",
    ):
        run_inference(*prepared(inference=inference))


@any_inference
def test_non_finite_parameters_are_neither_returned_nor_saved(tmp_path, monkeypatch, inference):
    kind = INFERENCES[inference].load()
    step = kind.step

    def diverging(self, *arguments):
        value = step(self, *arguments)
        self.weights[-1, 0] = math.nan
        return value

    monkeypatch.setattr(kind, "step", diverging)
    problem, path = prepared(inference=inference, iterations=1, batch_size=N, burn_in=0), tmp_path / "checkpoint"
    with pytest.raises(NumericalError, match=r"^training diverged after 1 step: (sums\.)?\w+ is not finite; try"):
        run_inference(*problem, checkpoints=CheckpointWriter(path, {}, 1e-9))
    assert not path.exists()
    if inference != "gibbs":  # Gibbs sampling returns means of earlier samples
        with pytest.raises(NumericalError, match="^training diverged after 1 step: intercepts is not finite; try"):
            run_inference(*problem)
