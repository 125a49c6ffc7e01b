"""Initial inducing inputs."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

from tests.grids import each_value
from tests.problems import small_features
from xmlgp.data.features import Features
from xmlgp.features import inducing as module
from xmlgp.features.inducing import KMEANS_ITERATIONS, candidates, initial_inducing
from xmlgp.features.inputs import Inputs
from xmlgp.linear_algebra import k_means

METHODS = pytest.mark.parametrize("method", ["kmeans", "rows"])
FORMS = pytest.mark.parametrize("form", [sp.csr_array, lambda features: features.toarray()], ids=["sparse", "dense"])


@each_value(method=["kmeans", "rows"], given=[(1, 1), (8, 8), (41, 40)])
def test_inducing_inputs_have_the_given_count_up_to_the_number_of_points_in_any_form(method, given):
    features = small_features(40, density=0.3)
    sparse, dense = (initial_inducing(values, given[0], method, 4) for values in (features, features.toarray()))
    for inducing in sparse, dense:
        assert isinstance(inducing, np.ndarray)
        assert inducing.shape == (given[1], 25)
        assert inducing.dtype == np.float32
    np.testing.assert_allclose(sparse, dense, atol=1e-5)


@FORMS
def test_rows_are_distinct_training_points(form):
    features = small_features(60, density=0.6)
    inducing = initial_inducing(form(features), 20, "rows", 1)
    rows = [np.flatnonzero((features.toarray() == row).all(axis=1)).item() for row in inducing]
    assert len(set(rows)) == 20


@each_value(method=["kmeans", "rows"], form=[sp.csr_array, lambda features: features.toarray()])
def test_duplicate_points_are_accepted(method, form):
    features = small_features(2, density=0.6)
    inducing = initial_inducing(form(sp.csr_array(sp.vstack([features] * 10))), 5, method, 0)
    assert inducing.shape == (5, 25)
    for row in inducing:
        assert min(np.abs(features.toarray() - row).max(axis=1)) < 1e-5


@METHODS
def test_inducing_inputs_are_reproducible_given_the_seed(method):
    features = small_features(100)
    first, again, other = (initial_inducing(features, 10, method, seed) for seed in (5, 5, 2**32 - 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def spread(points, centroids):
    """Return the sum of the squared distances of points from the nearest centroid."""
    return np.square(points[:, None] - centroids).sum(axis=2).min(axis=1).sum()


@pytest.mark.parametrize("leading", [None, 12, 100])
def test_centroids_are_as_good_as_those_of_scikit_learn(leading):
    # The coordinates are in descending order of variance, as in the subspace.
    points = (np.random.default_rng(0).normal(size=(600, 25)) * 0.8 ** np.arange(25)).astype(np.float32)
    references = [
        KMeans(20, init="random", n_init=1, max_iter=KMEANS_ITERATIONS, random_state=seed).fit(points).inertia_
        for seed in range(5)
    ]
    ours = [spread(points, initial_inducing(points, 20, "kmeans", seed, leading)) for seed in range(5)]
    assert np.mean(ours) < 1.05 * np.mean(references)


@FORMS
def test_a_centroid_without_points_moves_to_the_furthest_point(form):
    # All points but one are equal, so some centroid has no points.
    points = small_features(50, density=0.6)
    points.data[:] = 1
    far = sp.csr_array(([50.0], ([0], [3])), shape=(1, 25), dtype=np.float32)
    features = sp.csr_array(sp.vstack([points[:1]] * 49 + [far]))
    for seed in range(5):
        inducing = initial_inducing(form(features), 3, "kmeans", seed)
        np.testing.assert_allclose(np.abs(inducing - far.toarray()).max(axis=1).min(), 0, atol=1e-5)


@FORMS
def test_inducing_inputs_do_not_depend_on_the_number_of_cores(monkeypatch, form):
    points = form(small_features(3000, density=0.2))
    expected = initial_inducing(points, 20, "kmeans", 0)
    monkeypatch.setattr(k_means, "run_parallel", lambda tasks: [task() for task in tasks])
    np.testing.assert_array_equal(initial_inducing(points, 20, "kmeans", 0), expected)


@pytest.mark.parametrize("limit", [0, 25 * 4 * 30, 1 << 30])
def test_candidates_are_a_sample_within_the_memory_limit(monkeypatch, limit):
    monkeypatch.setattr(module, "CANDIDATES_LIMIT", limit)
    inputs = Inputs(Features(small_features(100, density=0.5)), None, np.float32)
    rows = np.arange(100)[candidates(inputs, 10, 0)]
    # There are at least as many candidates as inducing inputs.
    assert len(rows) == {0: 10, 25 * 4 * 30: 30, 1 << 30: 100}[limit]
    assert (np.diff(rows) > 0).all()
    other = np.arange(100)[candidates(inputs, 10, 1)]
    assert np.array_equal(rows, other) == (len(rows) == 100)


def test_the_number_of_candidates_is_limited_for_each_inducing_input(monkeypatch):
    monkeypatch.setattr(module, "CANDIDATES", 4)
    inputs = Inputs(Features(small_features(100)), None, np.float32)
    assert len(candidates(inputs, 10, 0)) == 40
    assert candidates(inputs, 25, 0) == slice(None)
