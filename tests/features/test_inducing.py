"""Initial inducing inputs."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

from tests.grids import each_value
from tests.problems import small_features
from xmlgp.data.dataset import Features
from xmlgp.features import inducing as module
from xmlgp.features.inducing import KMEANS_ITERATIONS, initial_inducing
from xmlgp.features.inputs import Inputs
from xmlgp.runtime.threads import limit_threads


def inducing_of(features, *options, sparse=True):
    """Return the initial inducing inputs of points, given their features."""
    return initial_inducing(Inputs(Features(sp.csr_array(features)), None, np.float32, sparse=sparse), *options)


METHODS = pytest.mark.parametrize("method", ["kmeans", "rows"])
FORMS = pytest.mark.parametrize("sparse", [True, False])


@each_value(method=["kmeans", "rows"], given=[(1, 1), (8, 8), (41, 40)])
def test_inducing_inputs_have_the_given_count_up_to_the_number_of_points_in_any_form(method, given):
    features = small_features(40, density=0.3)
    sparse, dense = (inducing_of(features, given[0], method, 4, sparse=form) for form in (True, False))
    for inducing in sparse, dense:
        assert isinstance(inducing, np.ndarray)
        assert inducing.shape == (given[1], 25)
        assert inducing.dtype == np.float32
    np.testing.assert_allclose(sparse, dense, atol=1e-5)


@FORMS
def test_rows_are_distinct_training_points(sparse):
    features = small_features(60, density=0.6)
    inducing = inducing_of(features, 20, "rows", 1, sparse=sparse)
    rows = [np.flatnonzero((features.toarray() == row).all(axis=1)).item() for row in inducing]
    assert len(set(rows)) == 20


@each_value(method=["kmeans", "rows"], sparse=[True, False])
def test_duplicate_points_are_accepted(method, sparse):
    features = small_features(2, density=0.6)
    inducing = inducing_of(sp.vstack([features] * 10), 5, method, 0, sparse=sparse)
    assert inducing.shape == (5, 25)
    for row in inducing:
        assert min(np.abs(features.toarray() - row).max(axis=1)) < 1e-5


@METHODS
def test_inducing_inputs_are_reproducible_given_the_seed(method):
    features = small_features(100)
    first, again, other = (inducing_of(features, 10, method, seed) for seed in (5, 5, 2**32 - 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def spread(points, centroids):
    """Return the sum of the squared distances of points from the nearest centroid."""
    return np.square(points[:, None] - centroids).sum(axis=2).min(axis=1).sum()


def test_centroids_are_as_good_as_those_of_scikit_learn():
    points = (np.random.default_rng(0).normal(size=(600, 25)) * 0.8 ** np.arange(25)).astype(np.float32)
    references = [
        KMeans(20, init="random", n_init=1, max_iter=KMEANS_ITERATIONS, random_state=seed).fit(points).inertia_
        for seed in range(5)
    ]
    ours = [spread(points, inducing_of(points, 20, "kmeans", seed, sparse=False)) for seed in range(5)]
    assert np.mean(ours) < 1.05 * np.mean(references)


@FORMS
def test_a_centroid_without_points_stays(sparse):
    # All points but one are equal, so some centroid has no points.
    points = small_features(1, density=0.6)
    far = sp.csr_array(([50.0], ([0], [3])), shape=(1, 25), dtype=np.float32)
    features = sp.csr_array(sp.vstack([points] * 49 + [far]))
    for seed in range(5):
        for row in inducing_of(features, 3, "kmeans", seed, sparse=sparse):
            assert np.abs(features.toarray() - row).max(axis=1).min() < 1e-4


@FORMS
def test_inducing_inputs_do_not_depend_on_the_number_of_cores(sparse):
    points = small_features(3000, density=0.2)
    found = []
    for count in 1, 2:
        with limit_threads(count):
            found.append(inducing_of(points, 20, "kmeans", 0, sparse=sparse))
    np.testing.assert_array_equal(*found)


@each_value(memory=[0, 25 * 4 * 30, 1 << 30], most=[4, 256])
def test_the_candidates_are_a_sample_within_the_limits(monkeypatch, memory, most):
    monkeypatch.setattr(module, "CANDIDATES_LIMIT", memory)
    monkeypatch.setattr(module, "CANDIDATES", most)
    inputs = Inputs(Features(small_features(100, density=0.5)), None, np.float32)
    points, other = (module._candidates(inputs, 10, seed) for seed in (0, 1))
    # There are at least as many candidates as inducing inputs.
    assert len(points) == min({0: 10, 25 * 4 * 30: 30, 1 << 30: 100}[memory], 10 * most)
    assert len(np.unique(points, axis=0)) == len(points)
    assert np.array_equal(points, other) == (len(points) == 100)
