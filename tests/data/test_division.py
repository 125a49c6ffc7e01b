"""Test points are as many as are asked for, and stratified ones have the share of each label."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import xmlgp
from xmlgp.data.division import choose_test_points
from xmlgp.errors import SettingsError, UsageError


def zipf_labels(N, K, seed=0):
    """Return labels of which a few are frequent and most are rare, five or fewer a point."""
    chances = 1 / np.arange(1, K + 1)
    drawn = np.random.default_rng(seed).choice(K, size=(N, 5), p=chances / chances.sum())
    Y = np.zeros((N, K), bool)
    np.put_along_axis(Y, drawn, True, axis=1)
    return csr_array(Y)


def iteratively_stratified(Y, share, seed):
    """Return test points by the algorithm of Sechidis et al. (2011), densely and step by step."""
    random = np.random.default_rng(seed)
    Y = Y.toarray()
    wanted = np.outer([1 - share, share], Y.sum(axis=0))
    room = np.array([1 - share, share]) * len(Y)
    side = np.full(len(Y), -1)
    while (counts := Y[side < 0].sum(axis=0)).any():
        label = np.flatnonzero(counts == counts[counts > 0].min())[0]
        for point in np.flatnonzero((side < 0) & Y[:, label]):
            order = np.lexsort((random.random(2), room, wanted[:, label]))
            side[point] = order[-1]
            wanted[order[-1]] -= Y[point]
            room[order[-1]] -= 1
    side[side < 0] = random.random(np.count_nonzero(side < 0)) < share
    return side == 1


def deviation(Y, is_test, share):
    """Return how far the numbers of test points of labels are from their share, on average."""
    return np.abs(Y[is_test].sum(axis=0) - share * Y.sum(axis=0)).mean()


@pytest.mark.parametrize("method", ["random", "stratified", "in-order"])
def test_the_number_of_test_points_is_as_asked_for(method):
    Y = zipf_labels(501, 90)
    for test, size in (0.25, 125), (77, 77), (1, 1), (0.0001, 1), (0.9999, 500):
        is_test = choose_test_points(Y, [], test, method, 3)
        assert is_test.sum() == size
        np.testing.assert_array_equal(is_test, choose_test_points(Y, [], test, method, 3))
        if method == "in-order":
            assert is_test[-size:].all()
    if method != "in-order":
        assert (choose_test_points(Y, [], 77, method, 3) != choose_test_points(Y, [], 77, method, 4)).any()


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_stratified_points_have_the_share_of_each_label(share):
    Y = zipf_labels(2000, 300)
    stratified = choose_test_points(Y, [], share, "stratified", 0)
    reference = iteratively_stratified(Y, share, 0)
    # Numbers that are rounded at random are a little further off.
    assert deviation(Y, stratified, share) < 1.25 * deviation(Y, reference, share)
    assert deviation(Y, stratified, share) < 0.7 * deviation(Y, choose_test_points(Y, [], share, "random", 0), share)
    counts = Y.sum(axis=0)
    test_counts = Y[stratified].sum(axis=0)
    expected = counts * min(share, 1 - share) >= 1
    assert ((test_counts > 0) & (test_counts < counts))[expected].all()


def test_the_rarest_labels_are_as_frequent_in_both_parts():
    # By the rule of Sechidis et al., no label of a single point would be a test label.
    Y = csr_array(np.hstack([np.eye(400), np.ones((400, 1))]), dtype=bool)
    assert choose_test_points(Y, [], 0.25, "stratified", 0).sum() == 100
    pairs = csr_array(np.repeat(np.eye(200), 2, axis=0), dtype=bool)
    test_counts = pairs[choose_test_points(pairs, [], 0.25, "stratified", 0)].sum(axis=0)
    assert set(test_counts) == {0, 1}
    assert test_counts.sum() == 100


def test_points_of_a_group_are_in_one_part():
    Y = zipf_labels(1000, 50)
    authors = np.random.default_rng(1).zipf(1.5, 1000)
    days = [None if number % 5 else number // 100 for number in range(1000)]
    for method in "random", "stratified":
        is_test = choose_test_points(Y, [authors, days], 0.25, method, 0)
        for values in authors, days:
            parts = [{value for value, part in zip(values, is_test, strict=True) if part == side} for side in (0, 1)]
            assert parts[0] & parts[1] <= {None}
    sizes = np.repeat(np.arange(100), 10)
    assert choose_test_points(Y, [sizes], 0.25, "stratified", 0).sum() == 250
    with pytest.raises(SettingsError, match="^1000 points in 1 group cannot be divided like this$"):
        choose_test_points(Y, [["one"] * 1000], 0.25, "random", 0)


def test_points_in_memory_are_divided_by_their_numbers():
    Y = zipf_labels(200, 20)
    train, test, files = xmlgp.split(Y, test=50, method="stratified")
    assert (len(train), len(test), files) == (150, 50, [])
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(200))
    names = [[f"l{label}" for label in Y[[row]].tocoo().col] for row in range(200)]
    np.testing.assert_array_equal(xmlgp.split(names, method="in-order").test, np.arange(150, 200))
    for arguments, message in (
        ({"test": 200}, "below 200, not 200"),
        ({"test": 2.5}, "below 200, not 2.5"),
        ({"test": 0}, "not 0"),
        ({"method": "sorted"}, "one of random, stratified, in-order, not sorted"),
        ({"groups": [1, 2]}, "groups of 2 points, but 200 points"),
        ({"out": "parts"}, "neither a file nor columns"),
    ):
        with pytest.raises(UsageError, match=message):
            xmlgp.split(Y, **arguments)
