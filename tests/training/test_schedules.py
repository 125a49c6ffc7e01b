"""Schedules of the learning rate and the batch size, and default epochs."""

import pytest

from xmlgp.training.schedules import batch_size_of_epoch, constant, default_epochs, linear


def test_the_constant_schedule_is_one():
    assert [constant(progress) for progress in (0, 0.5, 1)] == [1, 1, 1]


def test_the_linear_schedule_is_constant_for_half_of_the_steps_and_falls_to_zero():
    assert [linear(progress) for progress in (0, 0.2, 0.5)] == [1, 1, 1]
    assert [linear(progress) for progress in (0.625, 0.75, 1)] == pytest.approx([0.75, 0.5, 0])


@pytest.mark.parametrize(
    ("count", "batch_size", "epochs"),
    [
        (5000, 500, 60),
        (6000, 500, 50),
        (20_000, 500, 15),
        (60_000, 500, 5),
        (10**6, 500, 5),
        (100, 500, 60),
        (1, 1, 60),
        (0, 500, 60),
    ],
)
def test_default_epochs_give_the_wanted_steps_within_limits(count, batch_size, epochs):
    assert default_epochs(count, batch_size, 600, 5) == epochs


def test_batch_sizes_grow_by_the_same_factor_each_epoch():
    assert [batch_size_of_epoch(epoch, 4, 10, 80) for epoch in range(4)] == [10, 20, 40, 80]


def test_a_single_epoch_has_the_last_batch_size():
    assert batch_size_of_epoch(0, 1, 10, 500) == 500
