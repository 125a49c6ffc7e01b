"""Schedules of the learning rate and the batch size, and default epochs."""

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import DETERMINISTIC
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.training.schedules import SCHEDULES, batch_size_of_epoch, constant, default_epochs, linear


def test_the_constant_schedule_is_one():
    assert [constant(progress) for progress in (0, 0.5, 1)] == [1, 1, 1]


def test_the_linear_schedule_is_constant_for_half_of_the_steps_and_falls_to_zero():
    assert [linear(progress) for progress in (0, 0.2, 0.5)] == [1, 1, 1]
    assert [linear(progress) for progress in (0.625, 0.75, 1)] == pytest.approx([0.75, 0.5, 0])


@pytest.mark.parametrize("schedule", SCHEDULES.values())
def test_the_rate_never_increases_and_is_positive_at_every_step(schedule):
    rates = [schedule(step / 50) for step in range(50)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 1
    assert rates[-1] > 0


counts = st.integers(1, 10**4)


@DETERMINISTIC
@given(st.integers(2, 300), counts, counts)
def test_batch_sizes_grow_from_the_first_to_the_last(epochs, first, extra):
    last = first + extra
    sizes = [batch_size_of_epoch(epoch, epochs, first, last) for epoch in range(epochs)]
    assert all(type(size) is int for size in sizes)
    assert (sizes[0], sizes[-1]) == (first, last)
    assert sizes == sorted(sizes)


@DETERMINISTIC
@given(st.integers(1, 300), counts)
def test_batch_sizes_are_constant_if_first_and_last_are_equal(epochs, size):
    assert {batch_size_of_epoch(epoch, epochs, size, size) for epoch in range(epochs)} == {size}


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


@DETERMINISTIC
@given(st.integers(1, 10**7), st.integers(1, 10**5), st.sampled_from(["free", "features"]))
def test_default_epochs_agree_with_the_help(count, batch_size, inducing):
    (spec,) = (spec for spec in fields(MLGPFSettings) if spec.name == "epochs")
    numbers = [int(number) for number in re.findall("[0-9]+", spec.metadata["if_unset"])]
    steps, least, most = numbers[3:] if inducing == "features" else numbers[:3]
    epochs = MLGPFSettings(inducing=inducing, batch_size=batch_size).epoch_count(count)
    assert type(epochs) is int
    assert least <= epochs <= most
    # The difference is at most half an epoch, except for rounding errors.
    if least < epochs < most:
        assert abs(epochs - steps * batch_size / count) < 0.5 + 1e-9


def test_batch_sizes_grow_by_the_same_factor_each_epoch():
    assert [batch_size_of_epoch(epoch, 4, 10, 80) for epoch in range(4)] == [10, 20, 40, 80]


def test_a_single_epoch_has_the_last_batch_size():
    assert batch_size_of_epoch(0, 1, 10, 500) == 500
