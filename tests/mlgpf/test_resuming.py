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
    "inducing_fixed": (False, True),
    "inducing": ("features", "free", "subspace"),
    "regression_points": (1000, 0),
    "calibration": (True, False),
}

DEFAULTS = {name: values[0] for name, values in CHOICES.items()} | {"epochs": 2, "learning_rate": None}

#: Each other value of every choice occurs once.
SETTINGS = [
    {},
    {"inducing": "free"},
    {"inducing": "free", "negatives": 3, "sampling": "uniform", "schedule": "constant"},
    {"optimiser": "adagrad", "label_sample": 3, "regression_points": 0},
    {"inducing": "free", "posterior": "diagonal", "calibration": False},
    {"label_weights": False, "dtype": "float64", "calibration": False},
    {"negatives": 3, "inducing": "subspace", "optimiser": "adadelta", "dtype": "float64"},
    {"inducing": "free", "batch_size_first": 5, "posterior": "cholesky", "ard": False},
    {"inducing": "free", "inducing_fixed": True, "kernel": "se+linear"},
]


def assert_same_result(found, expected):
    assert found.parameters.keys() == expected.parameters.keys()
    for name, value in expected.parameters.items():
        assert found.parameters[name].dtype == value.dtype
        assert found.parameters[name].flags.c_contiguous == value.flags.c_contiguous
        assert found.parameters[name].tobytes() == value.tobytes(), name
    assert untimed(found.history) == untimed(expected.history)


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: " ".join(f"{k}={v}" for k, v in chosen.items()) or "-")
def test_resuming_after_every_step_gives_the_same_result(tmp_path, chosen):
    problem = prepared(PAIRED, **DEFAULTS | chosen)
    found, interruptions = train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    expected = train(*problem)
    assert_same_result(found, expected)
    assert interruptions > len(expected.history)
    settings = problem[-1]
    assert ("calibration" in expected.parameters) == settings.calibration
    if not settings.in_weight_space or not settings.regression_points:
        assert "regression.weights" not in expected.parameters


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("inducing", ["free", "features"])
def test_resuming_after_random_steps_gives_the_same_result(tmp_path, inducing):
    problem = prepared(PAIRED, **DEFAULTS | {"inducing": inducing, "negatives": 3, "epochs": 4})
    expected = train(*problem)
    random = np.random.default_rng(0)
    lengths = iter(lambda: int(random.integers(1, 12)), 0)
    assert_same_result(train_with_interruptions(train, problem, tmp_path / "checkpoint", lengths)[0], expected)


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("inducing", ["free", "features"])
def test_writing_checkpoints_does_not_change_the_result(tmp_path, inducing):
    problem = prepared(PAIRED, **DEFAULTS | {"inducing": inducing})
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


WITH_RATE = {"inducing": "free", "learning_rate": 0.1, "epochs": 3, "batch_size": 20}


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
        "0.1 diverged after 5 steps); try a lower learning_rate or another weighting"
    )


def test_divergence_before_the_first_step_is_not_retried(fail_at):
    fail_at(0)
    with pytest.raises(NumericalError, match="^training diverged before the first step: .* try another weighting"):
        train(*prepared(PAIRED, **WITH_RATE))


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("chosen", [{}, {"calibration": False}], ids=str)
def test_resuming_after_a_restart_gives_the_same_result(tmp_path, fail_at, chosen):
    problem = prepared(PAIRED, **WITH_RATE | chosen)
    fail_at(3)
    expected = train(*problem)
    assert ("calibration" in expected.parameters) == problem[-1].calibration
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
