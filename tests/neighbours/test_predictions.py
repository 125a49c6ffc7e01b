"""The pool of utilities with the regression on neighbours against formulas, and the arrays of a model."""

import numpy as np
import pytest
from scipy.special import logit

from tests.grids import each_value
from tests.neighbours.test_regression import B, D, K, N, predictions_of, problem
from xmlgp.data.dataset import Features
from xmlgp.linear_algebra.array_groups import arrays_fit
from xmlgp.neighbours import predictions as module
from xmlgp.neighbours.predictions import DENSE, MARGIN, NEIGHBOURS, Neighbours, NeighbourTerm
from xmlgp.neighbours.regression import Choices, Kernel, Recall
from xmlgp.prediction.terms import Pairs

KERNEL = Kernel(0.5, 1.0, 0.2)


def pooled(predictions, predicted, labels, mean, variance, weight, rarity):
    """Return the moments of all utilities after pooling, B×K, in double precision."""
    counts = labels.toarray().sum(axis=0).astype(float)
    g = predicted.shares.toarray().astype(float) + np.outer(predicted.regressed.rest.astype(float), counts / N)
    assert ((g < 0) | (g > 1)).any()
    g = np.clip(g, 0, 1) * (1 / (1 + 2 * MARGIN)) + MARGIN / (1 + 2 * MARGIN)
    w = np.maximum(weight * counts / (counts + rarity), predicted.least.astype(float)[:, None])
    spread = predicted.regressed.variance.astype(float)[:, None]
    return (1 - w) * mean + w * logit(g), (1 - w) ** 2 * variance + w**2 * spread


@each_value(dense=[False, True], weight=[0.0, 0.3, 1.0], rarity=[0.0, 2.0], dtype=["float32", "float64"])
def test_pooled_moments_agree_with_the_formula(dense, weight, rarity, dtype):
    drawn = problem(dense, seed=5)
    predictions = predictions_of(drawn, Choices(Kernel(0.2, 3.0, 0.01), weight, rarity))
    predicted = predictions.predict(Features(drawn[3], drawn[4]))
    random = np.random.default_rng(6)
    mean, variance = (random.normal(-2, 2, (B, K)), random.gamma(2, size=(B, K)))
    expected = pooled(predictions, predicted, drawn[2], mean, variance, weight, rarity)
    tolerance = {"rtol": 1e-4, "atol": 1e-4}
    for block in (slice(0, K), slice(1, 4), slice(4, K)):
        found = [np.array(array[:, block], dtype, order="C") for array in (mean, variance)]
        predictions.block(predicted, block, *found)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs[:, block], **tolerance)
    # Some labels of each point in any order, of the third point none.
    chosen = [random.permutation(K)[: i % (K + 1)] if i != 2 else [] for i in range(B)]
    indptr = np.concatenate([[0], np.cumsum([len(labels) for labels in chosen])])
    labels, rows = np.concatenate(chosen).astype(np.int32), np.repeat(np.arange(B), np.diff(indptr))
    found = [array[rows, labels].astype(dtype) for array in (mean, variance)]
    predictions.pairs(predicted, Pairs(indptr, labels), *found)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs[rows, labels], **tolerance)
    alone = mean[rows, labels]
    predictions.pairs(predicted, Pairs(indptr, labels), alone)
    np.testing.assert_allclose(alone, expected[0][rows, labels], **tolerance)


def test_labels_that_training_does_not_know_are_those_of_the_regression():
    rows, _, labels, queries, _ = problem()
    neighbours = Neighbours.build(rows, labels, Choices(KERNEL, 0.3, 2.0))
    predictions = NeighbourTerm(neighbours, np.ones(D), labels.sum(axis=0), trained=K - 2)
    predicted = predictions.predict(Features(queries))
    weights = predictions.weights(predicted, Pairs(np.array([0] + [K] * B), np.arange(K)))
    assert (weights[K - 2 :] == 1).all()
    assert (weights[: K - 2] < 0.3).all()


@pytest.mark.parametrize("dense", [False, True])
def test_arrays_of_a_model_are_the_same_index(dense):
    drawn = problem(dense)
    built = Neighbours.build(drawn[0], drawn[2], Choices(KERNEL, 0.3, 2.0), drawn[1])._replace(recall=Recall(1, 0.75))
    arrays = built.parameters()
    assert arrays_fit(arrays, {NEIGHBOURS: True, DENSE: dense}, {"D": D, "K": K})
    read = Neighbours.of(arrays, D, K)
    assert (read.choices, read.recall) == (built.choices, built.recall)
    assert np.shares_memory(read.words.rows.data, arrays["neighbours.values"])
    # SciPy would copy the indices of a matrix of other types.
    assert np.shares_memory(read.words.rows.indices, arrays["neighbours.indices"])
    assert np.shares_memory(read.labels.indices, arrays["neighbours.labels"])
    assert Neighbours.of({"bias": np.zeros(K)}, D, K) is None
    points = Features(drawn[3], drawn[4])
    counts = drawn[2].sum(axis=0)
    found = [NeighbourTerm(one, np.ones(D), counts).predict(points) for one in (built, read)]
    for ours, theirs in zip(found[0].regressed, found[1].regressed, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    again = read.parameters()
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype
        np.testing.assert_array_equal(again[name], array)


def test_an_extended_index_is_that_of_all_points():
    rows, _, labels, queries, _ = problem()
    choices = Choices(KERNEL, 0.3, 2.0)
    of_some = Neighbours.build(rows[:50], labels[:50], choices)
    parts = of_some.extended(rows[50:], labels[50:], None, np.arange(rows.shape[0])).parameters()
    for name, array in Neighbours.build(rows, labels, choices).parameters().items():
        np.testing.assert_array_equal(parts[name], array)


def test_the_best_of_many_labels_are_those_of_neighbours_and_frequent_ones(monkeypatch):
    monkeypatch.setattr(module, "FREQUENT", 2)
    rows, _, labels, queries, _ = problem()
    built = Neighbours.build(rows, labels, Choices(KERNEL, 0.3, 2.0))
    counts = labels.sum(axis=0)

    def best(recall):
        predictions = NeighbourTerm(built._replace(recall=Recall(1, recall)), np.ones(D), counts)
        predicted = predictions.predict(Features(queries))
        return predictions.best_labels(predicted, 1), predicted.shares

    # Few labels, then too small a recall.
    assert best(1)[0] is None
    monkeypatch.setattr(module, "EXACT_LABELS", K - 1)
    assert best(0.5)[0] is None
    found, shares = best(1)
    frequent = np.argsort(-counts, kind="stable")[:2]
    for b in range(B):
        near = shares.indices[shares.indptr[b] : shares.indptr[b + 1]]
        np.testing.assert_array_equal(found[b][found[b] >= 0], np.union1d(near, frequent))


def test_supporters_are_the_points_of_a_label_that_weigh_most():
    rows, _, labels, queries, _ = problem()
    predictions = NeighbourTerm(
        Neighbours.build(rows, labels, Choices(KERNEL, 0.3, 0.0)), np.ones(D), labels.sum(axis=0)
    )
    points = Features(queries)
    predicted = predictions.predict(points)
    found, weights = predicted.found, predicted.regressed.weights
    pairs = Pairs.from_table(np.tile(np.arange(K), (B, 1)))
    supporters = predictions.supporters(predicted, pairs, queries, 2)
    products = (queries @ rows.T).toarray()
    has_label = labels.toarray() > 0
    assert any(map(len, supporters))
    for i, label in np.ndindex(B, K):
        weigh = [
            (-weights[i, r], n)
            for r, n in enumerate(found.nearest[i])
            if n >= 0 and has_label[n, label] and weights[i, r] > 0
        ]
        ours = supporters[i * K + label]
        assert [point for point, _, _ in ours] == [n for _, n in sorted(weigh)[:2]]
        for point, similarity, words in ours:
            assert similarity == pytest.approx(np.exp((products[i, point] - 1) / KERNEL.squared_lengthscale), rel=1e-4)
            shared = (queries[[i]] * rows[[point]]).toarray()[0]
            assert shared[words] == pytest.approx(-np.sort(-shared)[: len(words)])
