"""Minibatches: their points and their sampled negatives; points that are held out."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from tests.problems import DETERMINISTIC, small_dataset
from xmlgp.features.inputs import Inputs
from xmlgp.training.minibatches import SeededMinibatches, hold_out, make_batch, sample_negatives


def rng(seed=0):
    return np.random.default_rng(seed)


def labels_of(*points, K):
    """Return the labels, a csr_array, given the positives of each point."""
    indptr = np.cumsum([0, *map(len, points)])
    indices = np.array([label for point in points for label in sorted(point)], np.int32)
    return sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(len(points), K))


def split_by_point(pairs):
    """Yield the positives, the sampled negatives, and the weights of both, for each point."""
    for start, stop in itertools.pairwise(pairs.indptr):
        labels, positive, weight = (values[start:stop] for values in pairs[1:])
        yield labels[positive], labels[~positive], weight[positive], weight[~positive]


def rows_of(matrix):
    return [set(row.tolist()) for row in np.split(matrix.indices, matrix.indptr[1:-1])]


def check(pairs, labels, count):
    """Check all properties of pairs that are not random."""
    present = rows_of(labels)
    assert len(pairs.indptr) == labels.shape[0] + 1
    assert pairs.indptr[0] == 0
    assert pairs.indptr[-1] == len(pairs.labels) == len(pairs.positive) == len(pairs.weight)
    for known, split in zip(present, split_by_point(pairs), strict=True):
        positives, negatives, weight, negative_weight = split
        available = labels.shape[1] - len(known)
        assert sorted(positives.tolist()) == sorted(known)
        assert len(set(negatives.tolist())) == len(negatives) == min(count, available)
        assert not known & set(negatives.tolist())
        assert not len(negatives) or (negatives.min() >= 0 and negatives.max() < labels.shape[1])
        assert (weight == 1).all()
        np.testing.assert_allclose(negative_weight, available / max(len(negatives), 1), rtol=1e-6)


@given(st.integers(1, 200), st.integers(1, 250), st.integers(0, 9), st.integers(0, 3))
@DETERMINISTIC
def test_an_epoch_has_every_point_once_in_batches_of_almost_equal_size(count, batch_size, seed, epoch):
    minibatches = SeededMinibatches(count, batch_size, seed)
    pieces = [minibatches.rows(epoch, number) for number in range(len(minibatches))]
    assert sorted(np.concatenate(pieces)) == list(range(count))
    sizes = {len(piece) for piece in pieces}
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1
    assert len(pieces) == math.ceil(count / batch_size)


def test_the_order_of_points_depends_on_the_seed_and_the_epoch():
    first, again, other_seed, other_epoch = (
        SeededMinibatches(100, 100, seed).rows(epoch, 0) for seed, epoch in ((0, 0), (0, 0), (1, 0), (0, 1))
    )
    assert (first == again).all()
    for other in other_seed, other_epoch, np.arange(100):
        assert (first != other).any()


@pytest.mark.parametrize("dense_limit", [0, 1 << 30])
def test_a_batch_has_the_features_and_labels_of_its_rows(dense_limit):
    dataset = small_dataset()
    rows = np.array([7, 0, 39])
    coordinates = Inputs(dataset.features, None, np.float32, dense_limit)
    batch = make_batch(coordinates, dataset.labels, rows)
    points = batch.points.coordinates
    np.testing.assert_array_equal(
        points.toarray() if sp.issparse(points) else points, dataset.features.sparse.toarray()[rows]
    )
    assert batch.points.residual.shape == (3,)
    np.testing.assert_array_equal(batch.likelihood.positives.toarray(), dataset.labels.toarray()[rows])
    assert batch.scale == 40 / 3


POINTS = [[], [0], [0, 1, 2, 3, 4, 5], [5], [1, 2, 3, 4, 5], [2, 4]]


@pytest.mark.parametrize("count", [1, 3, 6, 10**9])
def test_negatives_of_points_with_all_some_and_no_labels(count):
    labels = labels_of(*POINTS, K=6)
    check(sample_negatives(labels, rng(), count), labels, count)


@DETERMINISTIC
@given(st.data())
def test_negatives_of_random_labels(data):
    K = data.draw(st.integers(1, 40))
    points = data.draw(st.lists(st.sets(st.integers(0, K - 1)), min_size=1, max_size=8))
    count = data.draw(st.integers(1, K + 2))
    labels = labels_of(*points, K=K)
    check(sample_negatives(labels, rng(data.draw(st.integers(0, 99))), count), labels, count)


@pytest.mark.parametrize("count", [2, 5])
def test_every_set_of_negatives_is_equally_likely(count):
    # There are 8 negatives: fewer than 5 are drawn by rejection, 5 or more by a random order.
    positives, draws = [1, 6, 7], 5000
    labels = labels_of(*[positives] * draws, K=11)
    pairs = sample_negatives(labels, rng(), count)
    negatives = np.sort(pairs.labels[~pairs.positive].reshape(draws, count), axis=1)
    _, found = np.unique(negatives, axis=0, return_counts=True)
    sets = math.comb(8, count)
    assert len(found) == sets
    statistic = ((found - draws / sets) ** 2 / (draws / sets)).sum()
    assert statistic < chi2.ppf(0.999, sets - 1)


def test_memory_does_not_grow_with_the_number_of_labels():
    K = 10**9
    random = rng(3)
    points = [random.integers(0, K, size).tolist() for size in (0, 1, 5, 80)] + [[0, K - 1]]
    labels = labels_of(*points, K=K)
    tracemalloc.start()
    pairs = sample_negatives(labels, rng(), 100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    check(pairs, labels, 100)
    assert peak < 1_000_000
    assert pairs.labels[~pairs.positive].max() > 0.9 * K


@pytest.mark.parametrize(
    ("count", "share", "held"),
    [(100, 0.1, 10), (7, 0.4, 3), (30, 0.001, 1), (2, 0.1, 1), (5, 1.0, 4), (100, 0.0, 0), (1, 0.5, 0), (0, 0.5, 0)],
)
def test_hold_out_splits_all_points_in_the_given_ratio(count, share, held):
    training, validation = hold_out(count, share, rng())
    assert len(validation) == held
    for rows in (training, validation):
        assert rows.dtype.kind == "i"
        assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(np.sort(np.concatenate([training, validation])), np.arange(count))


def test_the_random_numbers_decide_which_points_are_held_out():
    first, again, other = (hold_out(100, 0.3, rng(seed))[1] for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()
    random = rng()
    hold_out(50, 0.0, random)
    # No points, no random numbers.
    assert random.random() == rng().random()
