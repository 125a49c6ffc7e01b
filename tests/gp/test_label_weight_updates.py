"""Closed-form updates of label weights and their prior: against dense formulas, and every update raises the bound."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.gp.label_weight_updates import LabelPairs, update_label_weights, update_prior_variances
from xmlgp.gp.label_weights import WeightsPrior

N, D, K = 30, 9, 4

#: ρ.
SCALES = np.array([1.0, 2.0, 1.5, 3.0])


@pytest.fixture(
    params=[("float64", "training"), ("float64", "earlier"), ("float32", "training"), ("float32", "earlier")]
)
def problem(request):
    """Features, label weights, pairs of every point with each label but the second, in random order, and the prior."""
    random, dtype = np.random.default_rng(0), np.dtype(request.param[0])
    features = (random.random((N, D)) * (random.random((N, D)) < 0.5)).astype(dtype)
    chosen = random.random((K, D)) < 0.7
    columns = np.nonzero(chosen)[1].astype(np.int32)
    weights = {
        "label_weights.indptr": np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]),
        "label_weights.features": columns,
        "label_weights.mean": random.normal(0, 0.5, len(columns)).astype(dtype),
        "label_weights.log_variance": random.normal(-1, 0.3, len(columns)).astype(dtype),
        "label_weights.log_prior": random.normal(0.5, 0.3, D).astype(dtype),
    }
    points = [random.permutation(N) if k != 1 else np.zeros(0, int) for k in range(K)]
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in points])])
    E = starts[-1]
    pairs = LabelPairs(
        starts,
        np.concatenate(points).astype(np.int32),
        random.random(E) < 0.3,
        random.choice([1.0, 1.0, 2.5], E).astype(dtype),
        random.normal(-2, 1, E).astype(dtype),
    )
    prior = WeightsPrior.of_training(weights, 0, scales(weights))
    if request.param[1] == "earlier":
        mean, precision = random.normal(0, 1, len(columns)), random.uniform(0.2, 5, len(columns))
        prior = WeightsPrior(mean.astype(dtype), precision.astype(dtype))
    return sp.csr_array(features), weights, pairs, prior


def scales(weights):
    return SCALES.astype(weights["label_weights.mean"].dtype)


def dense_parts(features, weights, pairs, prior, k):
    """Return X of the label's pairs and own features, m, v, a, 1/π, and y, c and o of its pairs, as float64."""
    own = slice(*weights["label_weights.indptr"][k : k + 2])
    columns = weights["label_weights.features"][own]
    rows = slice(*pairs.starts[k : k + 2])
    X = features.toarray()[pairs.points[rows]][:, columns].astype(float)
    m = weights["label_weights.mean"][own].astype(float)
    v = np.exp(weights["label_weights.log_variance"][own].astype(float))
    center, tau = prior.mean[own].astype(float), 1 / prior.precision[own].astype(float)
    return (
        X,
        m,
        v,
        center,
        tau,
        pairs.target[rows],
        pairs.weight[rows].astype(float),
        pairs.offset[rows].astype(float),
    )


def dense_bound(X, m, v, center, tau, y, c, o):
    f = o + X @ m
    xi = np.sqrt(f**2 + X**2 @ v)
    likelihood = c @ (y * f - f / 2 - np.log(2 * np.cosh(xi / 2)))
    return likelihood - divergence(m - center, v, tau)


def divergence(m, v, tau):
    return 0.5 * (m**2 / tau + v / tau - 1 - np.log(v / tau)).sum()


def bounds_of(features, weights, pairs, prior):
    return np.array([dense_bound(*dense_parts(features, weights, pairs, prior, k)) for k in range(K) if k != 1])


def test_bound_is_the_dense_one_before_the_last_round(problem):
    features, weights, pairs, prior = problem
    expected = bounds_of(features, weights, pairs, prior)
    found = update_label_weights(pairs, 0, features, weights, prior, 1, 3)
    tolerance = 1e-10 if weights["label_weights.mean"].dtype == np.float64 else 1e-5
    np.testing.assert_allclose(np.delete(found, 1), expected, rtol=tolerance)
    assert found[1] == 0


@pytest.mark.parametrize("cg_steps", [1, 4])
def test_every_round_raises_the_bound_of_every_label(problem, cg_steps):
    features, weights, pairs, prior = problem
    values = [bounds_of(features, weights, pairs, prior)]
    for _ in range(6):
        update_label_weights(pairs, 0, features, weights, prior, 1, cg_steps)
        values.append(bounds_of(features, weights, pairs, prior))
    slack = 0 if weights["label_weights.mean"].dtype == np.float64 else 1e-5
    assert (np.diff(values, axis=0) > -slack).all()
    assert (values[1] > values[0]).all()


def test_updates_end_where_means_and_variances_solve_their_equations(problem):
    features, weights, pairs, prior = problem
    update_label_weights(pairs, 0, features, weights, prior, 400, 30)
    tolerance = 1e-6 if weights["label_weights.mean"].dtype == np.float64 else 1e-2
    for k in (0, 2, 3):
        X, m, v, center, tau, y, c, o = dense_parts(features, weights, pairs, prior, k)
        f = o + X @ m
        xi = np.sqrt(f**2 + X**2 @ v)
        curvature = 2 * c * np.tanh(xi / 2) / (4 * xi)
        np.testing.assert_allclose(v, 1 / (1 / tau + X.T**2 @ curvature), rtol=tolerance)
        system = np.diag(1 / tau) + X.T @ (curvature[:, None] * X)
        np.testing.assert_allclose(
            system @ m, center / tau + X.T @ ((y - 0.5) * c - curvature * o), atol=10 * tolerance
        )


def test_labels_are_updated_alone_as_together(problem):
    features, weights, pairs, prior = problem
    apart = {name: array.copy() for name, array in weights.items()}
    update_label_weights(pairs, 0, features, weights, prior, 3, 3)
    for k in range(K):
        part = slice(*pairs.starts[k : k + 2])
        alone = LabelPairs(np.array([0, part.stop - part.start]), *(array[part] for array in pairs[1:]))
        own = slice(*weights["label_weights.indptr"][k : k + 2])
        update_label_weights(alone, k, features, apart, WeightsPrior(*(part[own] for part in prior)), 3, 3)
    for name, array in weights.items():
        np.testing.assert_array_equal(apart[name], array)


def test_labels_without_pairs_keep_their_weights(problem):
    features, weights, pairs, prior = problem
    own = slice(*weights["label_weights.indptr"][1:3])
    before = weights["label_weights.mean"][own].copy()
    update_label_weights(pairs, 0, features, weights, prior, 2, 2)
    np.testing.assert_array_equal(weights["label_weights.mean"][own], before)


def test_labels_without_weights_have_the_bound_of_their_offsets(problem):
    features, weights, pairs, prior = problem
    lengths = np.diff(weights["label_weights.indptr"])
    kept = np.repeat(np.arange(K) != 2, lengths)
    lengths[2] = 0
    fewer = {name: weights[f"label_weights.{name}"][kept] for name in ("features", "mean", "log_variance")}
    fewer |= {"indptr": np.concatenate([[0], np.cumsum(lengths)]), "log_prior": weights["label_weights.log_prior"]}
    weights = {f"label_weights.{name}": value for name, value in fewer.items()}
    prior = WeightsPrior(*(part[kept] for part in prior))
    bounds = update_label_weights(pairs, 0, features, weights, prior, 2, 2)
    assert bounds[2] == pytest.approx(dense_bound(*dense_parts(features, weights, pairs, prior, 2)), rel=1e-5)
    assert bounds[2] < 0


def test_prior_variances_are_updated_to_where_the_bound_is_highest(problem):
    features, weights, pairs, _ = problem
    update_prior_variances(weights, scales(weights))
    weights = {name: array.astype(float) if array.dtype.kind == "f" else array for name, array in weights.items()}
    log_prior = weights["label_weights.log_prior"]

    def total():
        prior = WeightsPrior.of_training(weights, 0, SCALES)
        parts = [dense_parts(features, weights, pairs, prior, k) for k in range(K)]
        return sum(divergence(m, v, tau) for _, m, v, _, tau, *_ in parts)

    least = total()
    for d in range(D):
        for change in (-0.02, 0.02):
            log_prior[d] += change
            assert total() > least
            log_prior[d] -= change


def test_features_without_weights_keep_their_prior_variance():
    weights = {
        "label_weights.indptr": np.array([0, 2, 3]),
        "label_weights.features": np.array([0, 2, 0], np.int32),
        "label_weights.mean": np.array([1.0, 2.0, 3.0]),
        "label_weights.log_variance": np.log([1.0, 4.0, 3.0]),
        "label_weights.log_prior": np.array([0.1, 0.2, 0.3]),
    }
    update_prior_variances(weights, np.array([1.0, 0.5]))
    np.testing.assert_allclose(np.exp(weights["label_weights.log_prior"]), [13, np.exp(0.2), 8])
