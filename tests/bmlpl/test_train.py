"""Training of BMLPL by every inference method: history, reproducibility, resumption bit for bit, divergence."""

import contextlib
import itertools
import math
import os
import signal

import numpy as np
import pytest

from tests.problems import small_dataset
from tests.training.interrupting import in_pieces
from xmlgp.bmlpl import train as module
from xmlgp.bmlpl.parameters import are_valid_parameters
from xmlgp.bmlpl.settings import INFERENCES, BMLPLSettings
from xmlgp.bmlpl.train import run_inference
from xmlgp.errors import NumericalError
from xmlgp.preprocess.pipeline import weight_features
from xmlgp.runtime.interrupts import Interrupted, handle_signals
from xmlgp.training.checkpoints import CheckpointWriter, read_checkpoint

N, D, K, T = 40, 25, 7, 4
DATASET = small_dataset(N, D, K)
SMALL = {"topics": T, "iterations": 5, "batch_size": 16, "burn_in": 1, "thinning": 2}
#: Minibatches of a pass of online-em.
BATCHES = 3

any_inference = pytest.mark.parametrize("inference", INFERENCES)


def prepared(**chosen):
    """Preprocess; return what `run_inference` takes."""
    settings = BMLPLSettings(**SMALL | chosen)
    coordinates = weight_features(DATASET.features, settings).coordinates(DATASET.features, settings.dtype)
    return coordinates, DATASET.labels, settings


def untimed(history):
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in history]


def agree(found, expected):
    (parameters, history), (others, other_history) = found, expected
    assert parameters.keys() == others.keys()
    for name, value in others.items():
        assert parameters[name].dtype == value.dtype
        assert parameters[name].tobytes() == value.tobytes(), name
    assert untimed(history) == untimed(other_history)


def steps_per_epoch(inference):
    return BATCHES if inference == "online-em" else 1


@any_inference
def test_the_history_and_the_parameters(inference):
    parameters, history = run_inference(*prepared(inference=inference))
    assert [set(epoch) for epoch in history] == [{"epoch", "log_posterior", "seconds"}] * 5
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3, 4, 5]
    assert all(type(epoch["log_posterior"]) is float and epoch["log_posterior"] < 0 for epoch in history)
    seconds = [epoch["seconds"] for epoch in history]
    assert seconds == sorted(seconds)
    assert are_valid_parameters(parameters, (D, K, T))
    assert {value.dtype for value in parameters.values()} == {np.dtype(np.float32)}


@any_inference
def test_as_many_passes_as_usual(inference):
    settings = prepared(inference=inference, iterations=None)
    _, history = run_inference(*settings)
    assert len(history) == settings[2].passes >= 20


@any_inference
@pytest.mark.parametrize("chosen", [{}, {"revealed": 0.5}, {"topics": 2}, {"dtype": "float64"}], ids=str)
def test_the_seed_decides_bit_for_bit(inference, chosen):
    first, again, other = (run_inference(*prepared(inference=inference, seed=seed, **chosen)) for seed in (0, 0, 1))
    agree(again, first)
    assert first[0]["topics"].tobytes() != other[0]["topics"].tobytes()
    assert first[0]["topics"].dtype == chosen.get("dtype", "float32")


@any_inference
def test_labels_that_are_not_revealed_are_as_if_there_were_none(inference):
    coordinates, labels, settings = prepared(inference=inference, revealed=0.5)
    seen = module.reveal_labels(labels, 0.5, np.random.default_rng([0, 1]))
    assert 0.3 * labels.nnz < seen.nnz < 0.7 * labels.nnz
    before = labels.copy()
    found = run_inference(coordinates, labels, settings)
    assert (before != labels).nnz == 0
    agree(found, run_inference(coordinates, seen, prepared(inference=inference)[2]))


@any_inference
def test_every_step_is_reported(inference):
    told = []

    class Bar:
        def update(self, count=1, **facts):
            told.append((count, facts))

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        told.append((label, total, unit))
        yield Bar()

    run_inference(*prepared(inference=inference), progress)
    steps = steps_per_epoch(inference)
    assert told[0] == ("train", 5 * steps, "step")
    assert [count for count, _ in told[1:]] == [1] * 5 * steps
    assert [facts["epoch"] for _, facts in told[1:]] == [f"{1 + i // steps}/5" for i in range(5 * steps)]
    assert all(float(facts["log_posterior"]) < 0 for _, facts in told[1:])


@any_inference
def test_the_parameters_after_each_pass(inference):
    seen = {}

    def after_epoch(epoch, parameters):
        if epoch >= 2:  # before, nothing of gibbs is kept
            seen[epoch] = {name: value.copy() for name, value in parameters().items()}

    problem = prepared(inference=inference)
    found = run_inference(*problem, after_epoch=after_epoch)
    agree(found, run_inference(*problem))
    assert list(seen) == [2, 3, 4, 5]
    assert all(are_valid_parameters(parameters, (D, K, T)) for parameters in seen.values())
    assert seen[2]["weights"].tobytes() != seen[5]["weights"].tobytes()
    agree((seen[5], []), (found[0], []))


#: Every choice that has a state of its own, or draws numbers.
CHOICES = [
    {},
    {"learn_precision": True, "iterations": 14},
    {"revealed": 0.6},
    {"dtype": "float64"},
    {"topics": 9, "weighting": "none", "batch_size": 7},
    {"burn_in": 4, "thinning": 1},
]
SETTINGS = [
    {"inference": inference} | chosen
    for inference, chosen in itertools.product(INFERENCES, CHOICES)
    if not (inference == "online-em" and "learn_precision" in chosen)
]


@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: " ".join(f"{k}={v}" for k, v in chosen.items()))
def test_interrupted_after_every_step(tmp_path, chosen):
    problem = prepared(**chosen)
    found, interruptions = in_pieces(run_inference, problem, tmp_path / "checkpoint", itertools.repeat(1))
    agree(found, run_inference(*problem))
    batches = -(-N // problem[2].batch_size) if chosen["inference"] == "online-em" else 1
    assert interruptions == batches * problem[2].passes


@any_inference
def test_interrupted_here_and_there(tmp_path, inference):
    problem = prepared(inference=inference, iterations=9)
    expected = run_inference(*problem)
    for seed in range(3):
        random = np.random.default_rng(seed)
        lengths = iter(lambda random=random: int(random.integers(1, 6)), 0)
        agree(in_pieces(run_inference, problem, tmp_path / f"{seed}", lengths)[0], expected)


@any_inference
def test_what_was_not_interrupted_is_not_disturbed_by_checkpoints(tmp_path, inference):
    problem, path = prepared(inference=inference), tmp_path / "checkpoint"
    agree(run_inference(*problem, checkpoints=CheckpointWriter(path, {}, 1e-9)), run_inference(*problem))
    assert read_checkpoint(path).facts["step"]


@any_inference
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_a_step(tmp_path, monkeypatch, inference, number):
    path, kind, steps = tmp_path / "checkpoint", INFERENCES[inference].load(), []
    step = kind.step

    def interrupted(self, *arguments):
        steps.append(arguments)
        if len(steps) == 2:
            os.kill(os.getpid(), number)
        return step(self, *arguments)

    problem = prepared(inference=inference)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "step", interrupted)
        with pytest.raises(Interrupted) as caught, handle_signals():
            run_inference(*problem, checkpoints=CheckpointWriter(path, {}, 1e9))
    assert caught.value.number == number
    assert len(steps) == 2
    assert read_checkpoint(path).facts["step"] == 2
    resumed = CheckpointWriter(path, {}, 1e9, read_checkpoint(path))
    agree(run_inference(*problem, checkpoints=resumed), run_inference(*problem))


@any_inference
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_log_posterior_that_is_lost(monkeypatch, inference, value):
    steps, kind = itertools.count(), INFERENCES[inference].load()
    step = kind.step
    monkeypatch.setattr(kind, "step", lambda *arguments: value if next(steps) == 2 else step(*arguments))
    with pytest.raises(NumericalError) as caught:
        run_inference(*prepared(inference=inference))
    assert str(caught.value) == (
        "training diverged after 2 steps: the log posterior is not finite; try another --weighting or --precision"
    )


@any_inference
def test_what_a_step_says_of_lost_numbers_is_told_with_the_step(monkeypatch, inference):
    def losing(*arguments):
        raise NumericalError("it has no factor")

    monkeypatch.setattr(INFERENCES[inference].load(), "step", losing)
    with pytest.raises(
        NumericalError,
        match="^training diverged before the first step: it has no factor; try another",
    ):
        run_inference(*prepared(inference=inference))


@any_inference
def test_parameters_that_are_lost_are_neither_returned_nor_kept(tmp_path, monkeypatch, inference):
    kind = INFERENCES[inference].load()
    step = kind.step

    def losing(self, *arguments):
        value = step(self, *arguments)
        self.weights[-1, 0] = math.nan
        return value

    monkeypatch.setattr(kind, "step", losing)
    problem, path = prepared(inference=inference, iterations=1, batch_size=N, burn_in=0), tmp_path / "checkpoint"
    with pytest.raises(NumericalError, match=r"^training diverged after 1 step: (sums\.)?\w+ is not finite; try"):
        run_inference(*problem, checkpoints=CheckpointWriter(path, {}, 1e-9))
    assert not path.exists()
    if inference != "gibbs":  # whose means are of what was kept before
        with pytest.raises(NumericalError, match="^training diverged after 1 step: intercepts is not finite; try"):
            run_inference(*problem)
