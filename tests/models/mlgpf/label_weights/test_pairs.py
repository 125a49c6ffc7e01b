"""Stratified pairs: shortlists against a full sort, strata without overlap, and unbiased sums."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.models.mlgpf.label_weights import pairs as module
from xmlgp.models.mlgpf.label_weights.pairs import (
    Strata,
    latent_offsets,
    shortlist_length,
    shortlist_negatives,
    stratified_pairs,
)
from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights
from xmlgp.models.mlgpf.label_weights.utilities import linear_utilities

N, D, K, P, S = 40, 8, 12, 3, 4


def pairs_of(labels, listed, first, last, sampled=5, seed=0, points=None):
    """Return the pairs of consecutive labels, given Y and shortlists; points are drawn from all by default."""
    strata = Strata.of(sp.csr_array(labels), listed)
    points = np.arange(len(labels)) if points is None else points
    return stratified_pairs(strata, first, last, [seed], points.astype(np.int32), sampled)


@pytest.fixture
def problem():
    """Latent functions, features, loadings, bias, weights and labels."""
    random = np.random.default_rng(0)
    features = random.random((N, D)) * (random.random((N, D)) < 0.5)
    weights = random.normal(size=(K, D)) * (random.random((K, D)) < 0.5)
    labels = random.random((N, K)) < 0.2
    dense = random.normal(size=(N, P)), features, random.normal(size=(K, P)), random.normal(size=K), weights, labels
    return tuple(array.astype(np.float32) if array.dtype == float else array for array in dense)


def utilities_of(latent, features, loadings, bias, weights):
    return latent @ loadings.T + bias + features @ weights.T


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("rows", "tile"), [(3, 100), (100, 5), (100, 2), (100, 100)])
def test_shortlists_are_the_negatives_of_highest_utility(problem, monkeypatch, weighted, rows, tile):
    monkeypatch.setattr(module, "ROWS", rows)
    monkeypatch.setattr(module, "TILE", tile)
    latent, features, loadings, bias, weights, labels = problem
    if not weighted:
        weights = np.zeros_like(weights)
    dense = utilities_of(latent, features, loadings, bias, weights)
    utilities = linear_utilities(loadings, bias, label_weights(weights) if weighted else None)
    some = slice(10, 30)
    out = shortlist_negatives(utilities, latent[some], sp.csr_array(features[some]), sp.csr_array(labels[some]), S)
    dense[labels] = -np.inf
    np.testing.assert_array_equal(out, np.argsort(-dense[some], axis=1)[:, :S])


@pytest.mark.parametrize("tile", [5, 100])
def test_points_with_few_negatives_have_short_lists(problem, monkeypatch, tile):
    monkeypatch.setattr(module, "TILE", tile)
    latent, features, loadings, bias, weights, labels = problem
    labels[:3] = True
    labels[1, 4] = labels[2, [3, 9]] = False
    utilities = linear_utilities(loadings, bias, label_weights(weights))
    out = shortlist_negatives(utilities, latent, sp.csr_array(features), sp.csr_array(labels), S)
    assert [row[row >= 0].tolist() for row in out[:2]] == [[], [4]]
    assert set(out[2, :2]) == {3, 9}
    assert (out[:3] == -1).sum() == 3 * S - 3
    assert (out[3:] >= 0).all()
    starts, points, positive, _ = pairs_of(labels, out, 0, K, sampled=0)
    owner = np.repeat(np.arange(K), np.diff(starts))
    listed = {(i, k) for i, row in enumerate(out) for k in row if k >= 0}
    assert set(zip(points[~positive], owner[~positive], strict=True)) == listed
    assert positive.sum() == labels.sum()


def test_points_near_no_labels_have_empty_lists(problem):
    latent, features, loadings, bias, weights, labels = problem
    utilities = linear_utilities(loadings, bias, label_weights(weights))
    near = np.empty((len(latent), 0), np.int32)
    out = shortlist_negatives(utilities, latent, sp.csr_array(features), sp.csr_array(labels), S, near)
    np.testing.assert_array_equal(out, np.full((len(latent), S), -1))


def label_weights(means):
    """Return q(W) with these means, K×D, where they are not zero."""
    stored = sp.csr_array(means)
    log_variances, log_prior = np.zeros_like(stored.data), np.zeros(D, np.float32)
    return LabelWeights(stored.indptr, stored.indices, stored.data, log_variances, log_prior)


def random_shortlists(labels, length=S):
    dense = np.random.default_rng(1).random((N, K))
    dense[labels] = 2
    return np.argsort(dense, axis=1)[:, :length].astype(np.int32)


@pytest.mark.parametrize("shortlist", [0, S])
def test_each_pair_belongs_to_one_stratum(problem, shortlist):
    labels = problem[-1]
    listed = random_shortlists(labels, shortlist)
    first, last = 3, 9
    starts, points, positive, weight = pairs_of(labels, listed, first, last)
    for k in range(first, last):
        part = slice(*starts[k - first : k - first + 2])
        rows = points[part]
        assert len(set(rows)) == len(rows)
        np.testing.assert_array_equal(np.sort(rows[positive[part]]), np.flatnonzero(labels[:, k]))
        on_list = np.flatnonzero((listed == k).any(axis=1))
        others = rows[~positive[part]]
        assert set(on_list) <= set(others)
        certain = positive[part] | np.isin(rows, on_list)
        assert (weight[part][certain] == 1).all()
        # The others stand for all points that are neither positive nor on the list.
        assert weight[part][~certain].sum() == pytest.approx(N - certain.sum())


def test_points_that_are_left_out_have_no_pairs(problem):
    labels, kept = problem[-1].copy(), np.setdiff1d(np.arange(N), [0, 5, 39])
    labels[[0, 5, 39]] = False
    listed = random_shortlists(labels)
    listed[[0, 5, 39]] = -1
    starts, points, _, weight = pairs_of(labels, listed, 0, K, sampled=200, points=kept)
    assert set(points) == set(kept)
    np.testing.assert_allclose(np.add.reduceat(weight, starts[:-1]), len(kept))


def test_offsets_are_the_utilities_of_latent_functions(problem):
    latent, _, loadings, bias, _, labels = problem
    pairs = pairs_of(labels, random_shortlists(labels), 3, 9)
    owner = np.repeat(np.arange(3, 9), np.diff(pairs.starts))
    found = latent_offsets(pairs, latent, loadings[3:9], bias[3:9], 0.25)
    expected = (0.25 * latent @ loadings.T + bias)[pairs.points, owner]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_shortlists_are_longer_where_pairs_are_few_up_to_a_limit():
    assert shortlist_length(10**6, 10**6) == module.MIN_SHORTLIST
    assert shortlist_length(10**3, 10**6) == 100
    assert shortlist_length(10, 10**6) == module.MAX_SHORTLIST
    assert shortlist_length(10**3, 50) == 50
    assert shortlist_length(0, 50) == 50
