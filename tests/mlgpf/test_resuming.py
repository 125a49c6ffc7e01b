"""Training that goes on from a checkpoint is the training that was not interrupted, whatever its settings.

And training that begins once more: when, how, and what is said.
"""

import itertools

import numpy as np
import pytest

from tests.mlgpf.test_train import PAIRED, prepared, untimed
from tests.training.interrupting import in_pieces
from xmlgp.errors import NumericalError
from xmlgp.gp.bound import Bound
from xmlgp.mlgpf.train import train
from xmlgp.training.checkpoints import CheckpointWriter, read_checkpoint
from xmlgp.training.retry import RETRY_RATE

#: Every choice that has a state of its own, or draws numbers.
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
}

USUAL = {name: values[0] for name, values in CHOICES.items()} | {"epochs": 4, "learning_rate": None, "patience": 2}

#: One after the other, and some together.
SETTINGS = [{}] + [{name: value} for name, values in CHOICES.items() for value in values[1:]]
SETTINGS += [
    {"negatives": 3, "sampling": "uniform", "validation": 0},
    {"negatives": 3, "inducing": "subspace", "optimiser": "adadelta", "dtype": "float64"},
    {"batch_size_first": 5, "refit": False, "posterior": "cholesky", "ard": False},
    {"label_weights": False, "inducing_fixed": True, "validation": 0, "kernel": "se+linear"},
]


def agree(found, expected):
    assert found.parameters.keys() == expected.parameters.keys()
    for name, value in expected.parameters.items():
        assert found.parameters[name].dtype == value.dtype
        assert found.parameters[name].flags.c_contiguous == value.flags.c_contiguous
        assert found.parameters[name].tobytes() == value.tobytes(), name
    assert untimed(found.history) == untimed(expected.history)
    assert untimed(found.validation or []) == untimed(expected.validation or [])


@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: " ".join(f"{k}={v}" for k, v in chosen.items()) or "-")
def test_interrupted_after_every_step(tmp_path, chosen):
    problem = prepared(PAIRED, **USUAL | chosen)
    found, interruptions = in_pieces(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    expected = train(*problem)
    agree(found, expected)
    steps = [len(epochs or []) for epochs in (expected.history, expected.validation)]
    assert interruptions > sum(steps)


def test_interrupted_here_and_there(tmp_path):
    problem = prepared(PAIRED, **USUAL | {"negatives": 3, "epochs": 9})
    expected = train(*problem)
    for seed in range(5):
        random = np.random.default_rng(seed)
        lengths = iter(lambda random=random: int(random.integers(1, 12)), 0)
        agree(in_pieces(train, problem, tmp_path / f"{seed}", lengths)[0], expected)


def test_what_was_not_interrupted_is_not_disturbed_by_checkpoints(tmp_path):
    problem = prepared(PAIRED, **USUAL)
    agree(train(*problem, checkpoints=CheckpointWriter(tmp_path / "checkpoint", {}, 1e-9)), train(*problem))
    assert read_checkpoint(tmp_path / "checkpoint").facts["step"]


@pytest.fixture
def lose(monkeypatch):
    """Makes a gradient infinite at the so manieth calls, counted from 0 over all trainings."""

    def at(*calls, name="loadings"):
        count = itertools.count()
        original = Bound.value_and_gradients

        def losing(self, *arguments, **options):
            if next(count) in calls:
                raise NumericalError(f"the gradient of {name} is not finite")
            return original(self, *arguments, **options)

        monkeypatch.setattr(Bound, "value_and_gradients", losing)

    return at


RATED = {"validation": 0, "learning_rate": 0.1, "epochs": 3, "batch_size": 20}


def test_training_begins_once_more_with_a_lower_learning_rate(lose):
    lose(5)
    found = train(*prepared(PAIRED, **RATED))
    assert [epoch["learning_rate"] for epoch in found.history] == [0.1 * RETRY_RATE] * 3
    expected = train(*prepared(PAIRED, **RATED | {"learning_rate": 0.1 * RETRY_RATE}))
    for name, value in expected.parameters.items():
        assert found.parameters[name].tobytes() == value.tobytes(), name


def test_numbers_lost_twice_end_it_naming_the_gradient_and_the_step(lose):
    lose(5, 9)
    with pytest.raises(NumericalError) as caught:
        train(*prepared(PAIRED, **RATED))
    assert str(caught.value) == (
        "training diverged after 3 steps: the gradient of loadings is not finite (a first attempt with learning rate "
        "0.1 diverged after 5 steps); try a lower --learning-rate or another --weighting"
    )


def test_before_the_first_step_nothing_is_tried_again(lose):
    lose(0)
    with pytest.raises(NumericalError, match="^training diverged before the first step: .* try another --weighting"):
        train(*prepared(PAIRED, **RATED))


def test_numbers_lost_with_points_held_out_are_lost_in_the_training_on_all_as_well(lose):
    lose(4)
    found = train(*prepared(PAIRED, **RATED | {"validation": 0.4}))
    rates = [epoch["learning_rate"] for history in (found.validation, found.history) for epoch in history]
    assert set(rates) == {0.1 * RETRY_RATE}


@pytest.mark.parametrize("validation", [0, 0.4])
def test_interrupted_while_it_has_begun_once_more(tmp_path, lose, validation):
    problem = prepared(PAIRED, **RATED | {"validation": validation})
    lose(3)
    expected = train(*problem)
    # Each piece goes on where the last one ended: the call that is lost is the same.
    lose(3)
    found, interruptions = in_pieces(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    assert interruptions > 6
    agree(found, expected)


def test_once_more_means_once_whatever_interrupts_it(tmp_path, lose):
    problem = prepared(PAIRED, **RATED)
    lose(3, 6)
    with pytest.raises(NumericalError, match="a first attempt with learning rate 0.1 diverged after 3 steps"):
        in_pieces(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    # The last good checkpoint is there.
    assert read_checkpoint(tmp_path / "checkpoint").facts["step"] == 2
