"""Test points are as many as are asked for, the same for the same seed, and groups stay together."""

import numpy as np
import pytest

from xmlgp.data.division import choose_test_points, numbered_groups
from xmlgp.runtime.errors import UsageError


@pytest.mark.parametrize("in_order", [False, True])
def test_the_number_of_test_points_is_as_asked_for(in_order):
    groups = [0] * 501
    for test, size in (0.25, 125), (77, 77), (1, 1), (0.0001, 1), (0.9999, 500):
        is_test = choose_test_points(groups, test, in_order, 3)
        assert is_test.sum() == size
        np.testing.assert_array_equal(is_test, choose_test_points(groups, test, in_order, 3))
        assert (is_test == choose_test_points(groups, test, in_order, 4)).all() == in_order or test < 1
        if in_order:
            assert is_test[-size:].all()


def test_the_choice_of_a_seed_stays():
    assert np.flatnonzero(choose_test_points([0] * 12, 4, seed=5)).tolist() == [1, 3, 9, 11]


@pytest.mark.parametrize("in_order", [False, True])
def test_groups_stay_together_and_the_size_is_near(in_order):
    random = np.random.default_rng(0)
    for _ in range(20):
        groups = random.integers(1, 41, 300).tolist()
        is_test = choose_test_points(groups, 0.3, in_order, 1)
        assert not {group for group, chosen in zip(groups, is_test, strict=True) if chosen} & {
            group for group, chosen in zip(groups, is_test, strict=True) if not chosen
        }
        assert abs(is_test.sum() - 90) <= 10


@pytest.mark.parametrize("test", [0, 1.5, -0.1, 12, 30, float("nan")])
def test_other_numbers_are_refused(test):
    with pytest.raises(UsageError, match="a share between 0 and 1, such as 0.25, or a whole number of points below 12"):
        choose_test_points([0] * 12, test)


@pytest.mark.parametrize("groups", [[7] * 12, [0]])
def test_one_group_is_not_divided(groups):
    assert len(set(choose_test_points(groups, 0.5).tolist())) == 1


def test_groups_are_numbered_in_the_order_of_their_first_points():
    assert numbered_groups([9, 0, 9, 4, 0, 4]).tolist() == [0, 1, 0, 2, 3, 2]
