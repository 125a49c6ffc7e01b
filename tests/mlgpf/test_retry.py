"""The second attempt of training, with a lower learning rate, after the first diverged."""

import itertools

import pytest

from tests.mlgpf.test_train import PAIRED, prepared
from tests.training.interrupting import assert_same_result, train_with_interruptions
from xmlgp.errors import NumericalError
from xmlgp.gp.bound import Bound
from xmlgp.mlgpf.train import RETRY_RATE, train
from xmlgp.training.checkpoints import read_checkpoint


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
