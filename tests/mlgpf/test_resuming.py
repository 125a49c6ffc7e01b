"""Resuming from a checkpoint gives the result of uninterrupted training for all settings.

Also tests the restart with a lower learning rate after divergence.
"""

import itertools

import numpy as np
import pytest

from tests.mlgpf.test_train import PAIRED, prepared, untimed
from tests.training.interrupting import train_with_interruptions
from xmlgp.errors import NumericalError
from xmlgp.gp.bound import Bound
from xmlgp.mlgpf.train import train
from xmlgp.training.checkpoints import CheckpointWriter, read_checkpoint
from xmlgp.training.retry import RETRY_RATE

#: Settings that affect the state in checkpoints or draw random numbers; the first value of each is the default here.
CHOICES = {
    "optimiser": ("adam", "adadelta"),
    "posterior": ("shared-diagonal", "diagonal", "cholesky"),
    "kernel": ("linear", "se+linear"),
    "negatives": (None, 3),
    "sampling": ("frequency", "uniform"),
    "batch_size_first": (None, 5),
    "schedule": ("linear", "constant"),
    "dtype": ("float32", "float64"),
    "label_weights": (True, False),
    "inducing_fixed": (False, True),
    "inducing": ("free", "subspace"),
    "validation": (0.4, 0),
    "refit": (True, False),
    "regression_points": (1000, 0),
    "calibration": (True, False),
}

DEFAULTS = {name: values[0] for name, values in CHOICES.items()} | {"epochs": 2, "learning_rate": None, "patience": 2}

#: Each other value of every choice occurs once.
SETTINGS = [
    {},
    {"negatives": 3, "sampling": "uniform", "validation": 0, "schedule": "constant"},
    {"inducing": "features", "optimiser": "adagrad", "label_sample": 3, "posterior": "diagonal"},
    {"negatives": 3, "inducing": "subspace", "optimiser": "adadelta", "dtype": "float64", "calibration": False},
    {"batch_size_first": 5, "refit": False, "posterior": "cholesky", "ard": False, "regression_points": 0},
    {"label_weights": False, "inducing_fixed": True, "validation": 0, "kernel": "se+linear"},
]


def assert_same_result(found, expected):
    assert found.parameters.keys() == expected.parameters.keys()
    for name, value in expected.parameters.items():
        assert found.parameters[name].dtype == value.dtype
        assert found.parameters[name].flags.c_contiguous == value.flags.c_contiguous
        assert found.parameters[name].tobytes() == value.tobytes(), name
    assert untimed(found.history) == untimed(expected.history)
    assert untimed(found.validation or []) == untimed(expected.validation or [])


@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: " ".join(f"{k}={v}" for k, v in chosen.items()) or "-")
def test_resuming_after_every_step_gives_the_same_result(tmp_path, chosen):
    problem = prepared(PAIRED, **DEFAULTS | chosen)
    found, interruptions = train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    expected = train(*problem)
    assert_same_result(found, expected)
    steps = [len(epochs or []) for epochs in (expected.history, expected.validation)]
    assert interruptions > sum(steps)


def test_resuming_after_random_steps_gives_the_same_result(tmp_path):
    problem = prepared(PAIRED, **DEFAULTS | {"negatives": 3, "epochs": 4})
    expected = train(*problem)
    random = np.random.default_rng(0)
    lengths = iter(lambda: int(random.integers(1, 12)), 0)
    assert_same_result(train_with_interruptions(train, problem, tmp_path / "checkpoint", lengths)[0], expected)


def test_writing_checkpoints_does_not_change_the_result(tmp_path):
    problem = prepared(PAIRED, **DEFAULTS)
    assert_same_result(
        train(*problem, checkpoints=CheckpointWriter(tmp_path / "checkpoint", {}, 1e-9)), train(*problem)
    )
    assert read_checkpoint(tmp_path / "checkpoint").facts["step"]


@pytest.fixture
def fail_at(monkeypatch):
    """Return a function that makes the given calls of the bound fail, counted from 0 over all runs."""

    def at(*calls, name="loadings"):
        count = itertools.count()
        original = Bound.value_and_gradients

        def failing(self, *arguments, **options):
            if next(count) in calls:
                raise NumericalError(f"the gradient of {name} is not finite")
            return original(self, *arguments, **options)

        monkeypatch.setattr(Bound, "value_and_gradients", failing)

    return at


WITH_RATE = {"validation": 0, "learning_rate": 0.1, "epochs": 3, "batch_size": 20}


def test_training_restarts_with_a_lower_learning_rate_after_divergence(fail_at):
    fail_at(5)
    found = train(*prepared(PAIRED, **WITH_RATE))
    assert [epoch["learning_rate"] for epoch in found.history] == [0.1 * RETRY_RATE] * 3
    expected = train(*prepared(PAIRED, **WITH_RATE | {"learning_rate": 0.1 * RETRY_RATE}))
    for name, value in expected.parameters.items():
        assert found.parameters[name].tobytes() == value.tobytes(), name


def test_second_divergence_raises_an_error_with_the_gradient_and_the_step(fail_at):
    fail_at(5, 9)
    with pytest.raises(NumericalError) as caught:
        train(*prepared(PAIRED, **WITH_RATE))
    assert str(caught.value) == (
        "training diverged after 3 steps: the gradient of loadings is not finite (a first attempt with learning rate "
        "0.1 diverged after 5 steps); try a lower --learning-rate or another --weighting"
    )


def test_divergence_before_the_first_step_is_not_retried(fail_at):
    fail_at(0)
    with pytest.raises(NumericalError, match="^training diverged before the first step: .* try another --weighting"):
        train(*prepared(PAIRED, **WITH_RATE))


def test_refit_keeps_the_lowered_learning_rate(fail_at):
    fail_at(3)
    found = train(*prepared(PAIRED, **WITH_RATE | {"validation": 0.4}))
    rates = [epoch["learning_rate"] for history in (found.validation, found.history) for epoch in history]
    assert set(rates) == {0.1 * RETRY_RATE}


@pytest.mark.parametrize("validation", [0, 0.4])
def test_resuming_after_a_restart_gives_the_same_result(tmp_path, fail_at, validation):
    problem = prepared(PAIRED, **WITH_RATE | {"validation": validation})
    fail_at(3)
    expected = train(*problem)
    # Resuming repeats no step, so the same call fails.
    fail_at(3)
    found, interruptions = train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    assert interruptions > 6
    assert_same_result(found, expected)


def test_interruptions_do_not_allow_a_second_restart(tmp_path, fail_at):
    problem = prepared(PAIRED, **WITH_RATE)
    fail_at(3, 6)
    with pytest.raises(NumericalError, match="a first attempt with learning rate 0.1 diverged after 3 steps"):
        train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    # The last checkpoint before the divergence is kept.
    assert read_checkpoint(tmp_path / "checkpoint").facts["step"] == 2
