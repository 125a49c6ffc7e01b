"""Histories: what is one, of which model, and what is said of it."""

import math

import pytest

from xmlgp.models import MODELS
from xmlgp.training.history import OBJECTIVES, epochs_in_words, is_epoch, is_history, is_number, objective_in_words

EPOCHS = {
    "mlgpf": {"epoch": 1, "bound": -3.5, "seconds": 0.25},
    "bmlpl": {"epoch": 1, "log_posterior": -12345.678, "seconds": 0.25},
    "gpc": {"epoch": 1, "bound": -3.5, "seconds": 0.25},
}

any_model = pytest.mark.parametrize("model", EPOCHS)


def test_every_model_has_something_that_training_raises():
    assert OBJECTIVES.keys() == MODELS.keys() == EPOCHS.keys()


def test_what_training_raises_in_words():
    assert objective_in_words(EPOCHS["mlgpf"], "mlgpf") == "bound -3.5"
    assert objective_in_words(EPOCHS["bmlpl"], "bmlpl") == "log posterior -12345.7"


def test_epochs_in_words():
    assert [epochs_in_words(EPOCHS[model], model) for model in EPOCHS] == ["1 epoch", "1 iteration", "1 iteration"]
    assert epochs_in_words({"epoch": 20}, "mlgpf") == "20 epochs"
    assert epochs_in_words({"epoch": 20}, "gpc") == "20 iterations"


@any_model
def test_histories(model):
    epoch = EPOCHS[model]
    assert is_history([], model)
    assert is_history([epoch, epoch | {"epoch": 2, "learning_rate": 0.5}], model)
    assert is_history([epoch | {"ndcg@5": 3.0}], model, "ndcg@5")
    assert not is_history([epoch], model, "ndcg@5")


@pytest.mark.parametrize(("model", "other"), [("mlgpf", "bmlpl"), ("bmlpl", "mlgpf"), ("gpc", "bmlpl")])
def test_the_history_of_another_model_is_none(model, other):
    assert is_epoch(EPOCHS[model], model)
    assert not is_epoch(EPOCHS[model], other)
    assert not is_history([EPOCHS[model]], other)
    # Nor one that is of both in turn.
    assert not is_history([EPOCHS[model], EPOCHS[other] | {"epoch": 2}], model)


OBJECTIVE = "what training raises"


@any_model
@pytest.mark.parametrize(
    "change",
    [{"epoch": 0}, {"epoch": 2}, {"epoch": "1"}, {"seconds": 10**400}, {"seconds": True}, {"x": "y"}, {"x": [1]}]
    + [{OBJECTIVE: math.nan}, {OBJECTIVE: -math.inf}, {OBJECTIVE: None}, {"a\nb": 1.0}, {"learning_rate": math.nan}],
    ids=str,
)
def test_what_is_no_history(model, change):
    epoch, changes = EPOCHS[model], dict(change)
    if OBJECTIVE in changes:
        changes[OBJECTIVES[model]] = changes.pop(OBJECTIVE)
    assert not is_history([epoch | changes], model)
    assert not is_history([epoch, epoch | {"epoch": 2}, epoch | {"epoch": 3} | changes], model)


@any_model
@pytest.mark.parametrize("value", [None, {}, "", 1, [None], [[]], [{}], [{"epoch": 1}]], ids=str)
def test_what_is_not_even_like_a_history(model, value):
    assert not is_history(value, model)
    assert not is_history(EPOCHS[model], model)
    assert not is_history([EPOCHS[model], EPOCHS[model]], model)


def test_numbers():
    for value in (0, 1, -1, 0.5, -1e308, 10**300):
        assert is_number(value)
    for value in (None, True, "1", [], math.nan, math.inf, -math.inf, 10**400, -(10**400)):
        assert not is_number(value)
    assert is_number(0, 0)
    assert not is_number(-1e-300, 0)
