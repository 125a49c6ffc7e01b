"""Closed-form updates of label weights and their prior: against dense formulas, and every update raises the bound."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.models.mlgpf.label_weights.pairs import LabelPairs
from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights
from xmlgp.models.mlgpf.label_weights.updates import update_label_weights

N, D, K = 30, 9, 4

#: ρ.
SCALES = np.array([1.0, 2.0, 1.5, 3.0])


@pytest.fixture(params=["float64", "float32"])
def problem(request):
    """Features, label weights, pairs of every point with each label but the second, their offsets, and π."""
    random, dtype = np.random.default_rng(0), np.dtype(request.param)
    features = (random.random((N, D)) * (random.random((N, D)) < 0.5)).astype(dtype)
    chosen = random.random((K, D)) < 0.7
    columns = np.nonzero(chosen)[1].astype(np.int32)
    weights = LabelWeights(
        np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]),
        columns,
        random.normal(0, 0.5, len(columns)).astype(dtype),
        random.normal(-1, 0.3, len(columns)).astype(dtype),
        random.normal(0.5, 0.3, D).astype(dtype),
    )
    points = [random.permutation(N) if k != 1 else np.zeros(0, int) for k in range(K)]
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in points])])
    E = starts[-1]
    points = np.concatenate(points).astype(np.int32)
    pairs = LabelPairs(starts, points, random.random(E) < 0.3, random.choice([1.0, 1.0, 2.5], E).astype(np.float32))
    offset = random.normal(-2, 1, E).astype(dtype)
    return sp.csr_array(features), weights, pairs, offset, weights.prior_precision(SCALES.astype(dtype))


def update(features, weights, pairs, offset, precision, rounds, cg_steps):
    return update_label_weights(pairs, offset, features, weights, precision, rounds, cg_steps)


def dense_parts(features, weights, pairs, offset, precision, k):
    """Return X of the label's pairs and own features, m, v, 1/π, and y, c and o of its pairs, as float64."""
    own, rows = slice(*weights.indptr[k : k + 2]), slice(*pairs.starts[k : k + 2])
    X = features.toarray()[pairs.points[rows]][:, weights.features[own]]
    moments = weights.mean[own], np.exp(weights.log_variance[own].astype(float))
    arrays = X, *moments, 1 / precision[own].astype(float), pairs.target[rows], pairs.weight[rows], offset[rows]
    return [array.astype(float) for array in arrays]


def dense_bound(X, m, v, tau, y, c, o):
    f = o + X @ m
    xi = np.sqrt(f**2 + X**2 @ v)
    likelihood = c @ (y * f - f / 2 - np.log(2 * np.cosh(xi / 2)))
    return likelihood - divergence(m, v, tau)


def divergence(m, v, tau):
    return 0.5 * (m**2 / tau + v / tau - 1 - np.log(v / tau)).sum()


def bounds_of(problem):
    return np.array([dense_bound(*dense_parts(*problem, k)) for k in range(K) if k != 1])


def test_bound_is_the_dense_one_before_the_last_round(problem):
    expected = bounds_of(problem)
    found = update(*problem, 1, 3)
    tolerance = 1e-10 if problem[1].mean.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(np.delete(found, 1), expected, rtol=tolerance)
    assert found[1] == 0


@pytest.mark.parametrize("cg_steps", [1, 4])
def test_every_round_raises_the_bound_of_every_label(problem, cg_steps):
    values = [bounds_of(problem)]
    for _ in range(6):
        update(*problem, 1, cg_steps)
        values.append(bounds_of(problem))
    slack = 0 if problem[1].mean.dtype == np.float64 else 1e-5
    assert (np.diff(values, axis=0) > -slack).all()
    assert (values[1] > values[0]).all()


def test_updates_end_where_means_and_variances_solve_their_equations(problem):
    update(*problem, 400, 30)
    tolerance = 1e-6 if problem[1].mean.dtype == np.float64 else 1e-2
    for k in (0, 2, 3):
        X, m, v, tau, y, c, o = dense_parts(*problem, k)
        f = o + X @ m
        xi = np.sqrt(f**2 + X**2 @ v)
        curvature = 2 * c * np.tanh(xi / 2) / (4 * xi)
        np.testing.assert_allclose(v, 1 / (1 / tau + X.T**2 @ curvature), rtol=tolerance)
        system = np.diag(1 / tau) + X.T @ (curvature[:, None] * X)
        np.testing.assert_allclose(system @ m, X.T @ ((y - 0.5) * c - curvature * o), atol=10 * tolerance)


def test_blocks_of_labels_are_updated_as_all_of_them(problem):
    features, weights, pairs, offset, precision = problem
    before = weights.block(0, K)
    update(*problem, 3, 3)
    for first, last in (0, 1), (1, 3), (3, 4):
        block, part = before.block(first, last), slice(*pairs.starts[[first, last]])
        alone = LabelPairs(pairs.starts[first : last + 1] - part.start, *(array[part] for array in pairs[1:]))
        own = slice(*weights.indptr[[first, last]])
        update(features, block, alone, offset[part], precision[own], 3, 3)
        np.testing.assert_array_equal(block.mean, weights.mean[own])
        np.testing.assert_array_equal(block.log_variance, weights.log_variance[own])


def test_labels_without_pairs_keep_their_weights(problem):
    weights = problem[1]
    own = slice(*weights.indptr[1:3])
    before = weights.mean[own].copy()
    update(*problem, 2, 2)
    np.testing.assert_array_equal(weights.mean[own], before)


def test_labels_without_weights_have_the_bound_of_their_offsets(problem):
    features, weights, pairs, offset, precision = problem
    lengths = np.diff(weights.indptr)
    kept = np.repeat(np.arange(K) != 2, lengths)
    lengths[2] = 0
    starts = np.concatenate([[0], np.cumsum(lengths)])
    weights = LabelWeights(starts, *(array[kept] for array in weights[1:4]), weights.log_prior)
    precision = precision[kept]
    bounds = update(features, weights, pairs, offset, precision, 2, 2)
    expected = dense_bound(*dense_parts(features, weights, pairs, offset, precision, 2))
    assert bounds[2] == pytest.approx(expected, rel=1e-5)
    assert bounds[2] < 0


def test_prior_variances_are_updated_to_where_the_bound_is_highest(problem):
    features, weights, pairs, offset, _ = problem
    weights.update_prior_variances(SCALES.astype(weights.mean.dtype))
    weights = LabelWeights(*(array.astype(float) if array.dtype.kind == "f" else array for array in weights))

    def total():
        precision = weights.prior_precision(SCALES)
        parts = [dense_parts(features, weights, pairs, offset, precision, k) for k in range(K)]
        return sum(divergence(m, v, tau) for _, m, v, tau, *_ in parts)

    least = total()
    for d in range(D):
        for change in (-0.02, 0.02):
            weights.log_prior[d] += change
            assert total() > least
            weights.log_prior[d] -= change


def test_features_without_weights_keep_their_prior_variance():
    moments = np.array([1.0, 2.0, 3.0]), np.log([1.0, 4.0, 3.0])
    weights = LabelWeights(np.array([0, 2, 3]), np.array([0, 2, 0], np.int32), *moments, np.array([0.1, 0.2, 0.3]))
    weights.update_prior_variances(np.array([1.0, 0.5]))
    np.testing.assert_allclose(np.exp(weights.log_prior), [13, np.exp(0.2), 8])
