"""Stratified pairs: shortlists against a full sort, strata without overlap, and unbiased sums."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.gp.label_weights import LabelWeights
from xmlgp.gp.utilities import UtilityMoments
from xmlgp.mlgpf import label_pairs as module
from xmlgp.mlgpf.label_pairs import (
    StratifiedPairs,
    listed_by_label,
    pairs_with_offsets,
    positives_by_label,
    shortlist_negatives,
)

N, D, K, P, S = 40, 8, 12, 3, 4


def stratified_pairs(labels, listed, *arguments):
    by_label = positives_by_label(sp.csr_array(labels)), listed_by_label(listed, labels.shape[1])
    return StratifiedPairs(*by_label, *arguments)


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
    utilities = UtilityMoments(loadings, bias, label_weights(weights) if weighted else None)
    out, some = np.empty((20, S), np.int32), slice(10, 30)
    shortlist_negatives(utilities, latent[some], sp.csr_array(features[some]), sp.csr_array(labels[some]), out)
    dense[labels] = -np.inf
    np.testing.assert_array_equal(out, np.argsort(-dense[some], axis=1)[:, :S])


@pytest.mark.parametrize("tile", [5, 100])
def test_points_with_few_negatives_have_short_lists(problem, monkeypatch, tile):
    monkeypatch.setattr(module, "TILE", tile)
    latent, features, loadings, bias, weights, labels = problem
    labels[:3] = True
    labels[1, 4] = labels[2, [3, 9]] = False
    out = np.empty((N, S), np.int32)
    utilities = UtilityMoments(loadings, bias, label_weights(weights))
    shortlist_negatives(utilities, latent, sp.csr_array(features), sp.csr_array(labels), out)
    assert [row[row >= 0].tolist() for row in out[:2]] == [[], [4]]
    assert set(out[2, :2]) == {3, 9}
    assert (out[:3] == -1).sum() == 3 * S - 3
    assert (out[3:] >= 0).all()
    pairs = stratified_pairs(labels, out, 0, [0], np.arange(N))
    starts, points, positive, _ = pairs.of(0, K)
    owner = np.repeat(np.arange(K), np.diff(starts))
    listed = {(i, k) for i, row in enumerate(out) for k in row if k >= 0}
    assert set(zip(points[~positive], owner[~positive], strict=True)) == listed
    assert positive.sum() == labels.sum()


def label_weights(means):
    """Return q(W) with these means, K×D, where they are not zero."""
    stored = sp.csr_array(means)
    names = {"indptr": stored.indptr, "features": stored.indices, "mean": stored.data}
    names |= {"log_variance": np.zeros_like(stored.data), "log_prior": np.zeros(D, np.float32)}
    return LabelWeights({f"label_weights.{name}": value for name, value in names.items()})


def stratified(labels, seed=0, sampled=5, shortlist=S):
    dense = np.random.default_rng(1).random((N, K))
    dense[labels] = 2
    listed = np.argsort(dense, axis=1)[:, :shortlist].astype(np.int32)
    return stratified_pairs(labels, listed, sampled, [seed], np.arange(len(labels))), listed


@pytest.mark.parametrize("shortlist", [0, S])
def test_each_pair_belongs_to_one_stratum(problem, shortlist):
    labels = problem[-1]
    pairs, listed = stratified(labels, shortlist=shortlist)
    first, last = 3, 9
    starts, points, positive, weight = pairs.of(first, last)
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
    dense = np.random.default_rng(1).random((N, K))
    dense[labels] = 2
    listed = np.argsort(dense, axis=1)[:, :S].astype(np.int32)
    listed[[0, 5, 39]] = -1
    starts, points, _, weight = stratified_pairs(labels, listed, 200, [0], kept).of(0, K)
    assert set(points) == set(kept)
    np.testing.assert_allclose(np.add.reduceat(weight, starts[:-1]), len(kept))


def test_weighted_sums_over_pairs_are_unbiased(problem):
    labels = problem[-1]
    values = np.random.default_rng(2).normal(size=(N, K))
    sums = []
    for seed in range(2000):
        starts, points, _, weight = stratified(labels, seed)[0].of(0, K)
        owner = np.repeat(np.arange(K), np.diff(starts))
        sums.append(np.bincount(owner, weight * values[points, owner], K))
    error = np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (np.abs(np.mean(sums, axis=0) - values.sum(axis=0)) < 4.5 * error).all()


def test_draws_depend_on_the_seed_and_the_block_alone(problem):
    labels = problem[-1]
    first, again, other = (stratified(labels, seed)[0].of(2, 6) for seed in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(first[1]) != len(other[1]) or (first[1] != other[1]).any()


def test_offsets_are_the_utilities_of_latent_functions(problem):
    latent, _, loadings, bias, _, labels = problem
    pairs = stratified(labels)[0].of(3, 9)
    found = pairs_with_offsets(pairs, 3, latent, loadings, bias, 1.0)
    owner = np.repeat(np.arange(3, 9), np.diff(found.starts))
    np.testing.assert_allclose(found.offset, (latent @ loadings.T + bias)[found.points, owner], rtol=1e-5, atol=1e-6)
    part = pairs_with_offsets(pairs, 3, latent, loadings, bias, 0.25)
    expected = (0.25 * latent @ loadings.T + bias)[found.points, owner]
    np.testing.assert_allclose(part.offset, expected, rtol=1e-5, atol=1e-6)
