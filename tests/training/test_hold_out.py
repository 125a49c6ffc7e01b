"""Points that are held out of training: how many, that all are equally likely, and that a seed decides which."""

import math

import numpy as np
import pytest

from xmlgp.training.hold_out import hold_out


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("count", "share", "held"),
    [
        (100, 0.1, 10),
        (7, 0.4, 3),
        (30, 0.001, 1),
        (2, 0.1, 1),
        (2, 0.9, 1),
        (5, 1.0, 4),
        (5, 0.99, 4),
        (100, 0.0, 0),
        (1, 0.5, 0),
        (1, 1.0, 0),
        (0, 0.5, 0),
    ],
)
def test_hold_out_splits_all_points_in_the_given_ratio(count, share, held):
    training, validation = hold_out(count, share, rng())
    assert len(validation) == held
    for rows in (training, validation):
        assert rows.dtype.kind == "i"
        assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(np.sort(np.concatenate([training, validation])), np.arange(count))


def test_every_point_is_equally_likely_to_be_held_out():
    random, draws = rng(), 2000
    times = sum(np.bincount(hold_out(10, 0.3, random)[1], minlength=10) for _ in range(draws))
    # Five standard deviations of the binomial distribution.
    np.testing.assert_allclose(times, 0.3 * draws, atol=5 * math.sqrt(draws * 0.3 * 0.7))


def test_holding_out_no_points_draws_no_random_numbers():
    random = rng()
    hold_out(50, 0.0, random)
    assert random.random() == rng().random()
