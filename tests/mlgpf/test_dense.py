"""MLGPF with dense features beside sparse ones: the bound, predictions, learning on, and the memory of points."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.central_differences import central_differences
from tests.grids import grid
from xmlgp.data.features import Dense, Features
from xmlgp.gp.bound import Batch, Bound, LabelSample
from xmlgp.gp.expectations import make_expectations
from xmlgp.gp.inner_products import Points
from xmlgp.gp.parameters import IndexedRows
from xmlgp.gp.weight_space import DENSE, LatentMap, WeightSpace, blocks_of, feature_shares
from xmlgp.mlgpf import dense_weights, held_out
from xmlgp.mlgpf.record import MLGPF
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.prediction.scores_file import Scores
from xmlgp.regression.fitting import fit_regression
from xmlgp.runtime.progress import silent

N, D, E, K, P = 7, 5, 4, 6, 3


def problem():
    """Return parameters of both blocks, points and labels."""
    random = np.random.default_rng(0)
    sparse = sp.csr_array(random.random((N, D)) * (random.random((N, D)) < 0.6))
    dense = Dense((random.normal(size=(N, 1)), random.normal(size=(N, E - 1))))
    parameters = {"loadings": random.normal(size=(K, P)), "bias": random.normal(-1, 1, K)}
    for name, width in ("latent_weights", D), (DENSE, E):
        parameters[f"{name}.whitened_mean"] = random.normal(size=(width, P))
        parameters[f"{name}.whitened_log_variance"] = random.normal(-4, 0.3, width)
        parameters[f"{name}.log_prior"] = random.normal(0, 0.5, width)
    return parameters, Features(sparse, dense), sp.csr_array(random.random((N, K)) < 0.3)


@grid(expectations=["quadrature", "jj", "taylor"], sampled=[False, True])
def test_gradients_of_both_blocks_agree_with_central_differences(expectations, sampled):
    parameters, points, labels = problem()
    sample = LabelSample(np.array([0, 1, 3, 4, 5]), np.array([1, 2.5, 1, 1.5, 4])) if sampled else None
    labels = sp.csr_array(labels.toarray() & np.isin(np.arange(K), [0, 1, 3, 4, 5]))
    batch = Batch(Points(points, np.zeros(N)), labels, None, 1.5, sample=sample)
    bound = Bound(WeightSpace(feature_shares(points.sparse)), make_expectations(expectations, 40))
    _, gradients = bound.value_and_gradients(parameters, batch)
    assert gradients.keys() == parameters.keys()
    expected = central_differences(
        lambda given: bound.value_and_gradients(given, batch)[0], parameters, gradients.keys()
    )
    for name, gradient in gradients.items():
        found = gradient.toarray(len(parameters[name])) if isinstance(gradient, IndexedRows) else gradient
        np.testing.assert_allclose(found, expected[name], rtol=2e-5, atol=2e-6, err_msg=name)


def test_dense_features_are_the_same_as_sparse_ones_of_these_values():
    parameters, points, labels = problem()
    both = sp.csr_array(np.hstack([points.sparse.toarray(), points.dense.values(np.float64)]))
    one = {"loadings": parameters["loadings"], "bias": parameters["bias"]}
    for suffix in ("whitened_mean", "whitened_log_variance", "log_prior"):
        arrays = [parameters[f"{block}.{suffix}"] for block in blocks_of(parameters)]
        one[f"latent_weights.{suffix}"] = np.concatenate(arrays)
    values = []
    for given, features in (parameters, points), (one, Features(both)):
        batch = Batch(Points(features, np.zeros(N)), labels, None, 1.0)
        values.append(Bound(WeightSpace(feature_shares(features.sparse))).value_and_gradients(given, batch)[0])
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def planted(count, seed, words=True):
    """Return points whose labels depend on both blocks."""
    random = np.random.default_rng(seed)
    weights = np.random.default_rng(99).normal(size=(30 + 8, 12))
    sparse = (random.random((count, 30)) < 0.15).astype(np.float32)
    dense = random.normal(3, 2, (count, 8))
    utility = sparse @ weights[:30] + (dense - 3) / 2 @ weights[30:] - 2
    sparse = sp.csr_array(sparse if words else np.zeros((count, 0), np.float32))
    labels = sp.csr_array(random.random(utility.shape) < 1 / (1 + np.exp(-3 * utility)))
    return Features(sparse, Dense((dense[:, :5].astype(np.float32), dense[:, 5:]))), labels


SETTINGS = MLGPFSettings(inducing="features", factors=6, label_weights=True, regression_points=0, epochs=12)
QUICK = MLGPFSettings(inducing="features", factors=6, regression_points=0, epochs=2)


def trained(points, labels, settings=SETTINGS):
    preprocessed = MLGPF.preprocess(points, settings, silent)
    return preprocessed, MLGPF.train(points, labels, preprocessed, settings)


def precision(preprocessed, parameters, points, labels, settings=SETTINGS):
    predictor = MLGPF.load_predictor()(settings, preprocessed, parameters, points.D)
    best = predictor.score(points)[0].argmax(axis=1)
    return labels.toarray()[np.arange(len(best)), best].mean()


@pytest.fixture(scope="module")
def model():
    points, labels = planted(900, 1)
    return points, labels, *trained(points, labels)


def test_a_model_of_both_blocks_is_better_than_one_of_each(model):
    points, labels, preprocessed, found = model
    later, truth = planted(600, 2)
    both = precision(preprocessed, found.parameters, later, truth)
    sparse = precision(*_fitted(Features(points.sparse), labels), Features(later.sparse), truth)
    alone = Features(sp.csr_array((900, 0), dtype=np.float32), points.dense)
    settings = MLGPFSettings(inducing="features", factors=6, regression_points=0, epochs=12)
    only, parameters = _fitted(alone, labels, settings)
    dense = precision(
        only, parameters, Features(sp.csr_array((600, 0), dtype=np.float32), later.dense), truth, settings
    )
    assert both > max(sparse, dense) + 0.02
    assert min(sparse, dense) > truth.toarray().mean() + 0.1


def _fitted(points, labels, settings=SETTINGS):
    preprocessed, found = trained(points, labels, settings)
    return preprocessed, found.parameters


def test_weighted_dense_features_have_mean_zero_and_length_one_in_each_block(model):
    points, _, preprocessed, _ = model
    values = preprocessed.weigh(points).dense.values(np.float64)
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-6)
    for columns in slice(0, 5), slice(5, 8):
        assert np.square(values[:, columns]).sum(axis=1).mean() == pytest.approx(1, rel=1e-6)


def test_large_numbers_and_constants_keep_their_meaning():
    random = np.random.default_rng(0)
    signal = random.normal(size=(50, 2))
    dense = Dense((np.hstack([1.6e9 + signal[:, :1], np.full((50, 1), 7.0), 1e-3 * signal[:, 1:]]),))
    points = Features(sp.csr_array((50, 0), dtype=np.float32), dense)
    values = MLGPF.preprocess(points, SETTINGS, silent).weigh(points).dense.values()
    expected = (signal - signal.mean(axis=0)) / signal.std(axis=0) / np.sqrt(3)
    np.testing.assert_allclose(values[:, [0, 2]], expected, rtol=1e-4, atol=1e-5)
    assert not values[:, 1].any()


def test_means_of_latent_functions_are_those_of_the_predictor(model):
    points, _, preprocessed, found = model
    predictor = MLGPF.load_predictor()(SETTINGS, preprocessed, found.parameters, 30)
    prepared = predictor.prepare(points[:20], "utility", False)
    expected = LatentMap.of(found.parameters).means(preprocessed.weigh(points[:20]))
    np.testing.assert_allclose(prepared.batch.latent.mean, expected, rtol=1e-5, atol=1e-6)


def first_labels(points, count=5):
    """Return `Scores` of the first labels of each point, all the same."""
    rows = points.N
    labels = np.tile(np.arange(count, dtype=np.int32), (rows, 1))
    return Scores.from_top(labels, np.zeros(labels.shape), 12)


@grid(blocks=[1, 2], regressed=[False, True], words=[True, False], neighbours=[True, False])
def test_shares_of_words_and_of_each_block_sum_to_utilities(model, blocks, regressed, words, neighbours):
    points, labels, preprocessed, found = model
    settings, parameters = SETTINGS, found.parameters
    if blocks == 1 or not words:
        sparse = points.sparse if words else sp.csr_array((900, 0), dtype=np.float32)
        points, settings = Features(sparse, points.dense.joined() if blocks == 1 else points.dense), QUICK
        preprocessed, found = trained(points, labels, settings)
        parameters = found.parameters
    if regressed:
        linear = preprocessed.weigh(points)
        regression, _ = fit_regression(Features(linear.sparse) if words else linear, labels, None, 900)
        parameters = parameters | regression.parameters()
    assert "neighbours.weight" in parameters
    if not neighbours:
        parameters = {name: value for name, value in parameters.items() if not name.startswith("neighbours.")}
    predictor = MLGPF.load_predictor()(settings, preprocessed, parameters, points.D)
    some = points[:40]
    contributions, utilities = predictor.explain(some, first_labels(some)), predictor.score(some, "utility")[0]
    shares = [contributions.shares(pair) for pair in range(200)]
    expected = [f"dense {number}" for number in range(1, blocks + 1)] + ["regression"] * regressed
    expected += ["neighbours"] * neighbours
    assert list(shares[0]) == ["words", *expected, "bias"]
    sums = np.reshape([sum(share.values()) for share in shares], (40, 5))
    np.testing.assert_allclose(sums, utilities[:, :5], rtol=1e-4, atol=1e-3 if regressed or neighbours else 1e-5)
    if not regressed and not neighbours:
        # Points at the mean of a block are what they are without it.
        for number, block in enumerate(points.dense.arrays):
            arrays = list(some.dense.arrays)
            arrays[number] = np.tile(block.mean(axis=0, dtype=np.float64), (40, 1))
            without = predictor.score(Features(some.sparse, Dense(tuple(arrays))), "utility")[0]
            share = np.reshape([share[f"dense {number + 1}"] for share in shares], (40, 5))
            np.testing.assert_allclose(share, (utilities - without)[:, :5], rtol=1e-4, atol=1e-5)


def test_parts_of_points_are_stacked_as_they_were(model):
    points = model[0]
    whole = Features.stack([points[:300], points[300:]])
    np.testing.assert_array_equal(whole.dense.values(), points.dense.values())
    assert (whole.sparse != points.sparse).nnz == 0


def test_the_weight_of_the_pool_is_the_one_that_ranks_held_out_points_best(monkeypatch):
    points, labels = planted(900, 1, words=False)
    settings = MLGPFSettings(inducing="features", factors=6, epochs=3)
    monkeypatch.setattr(dense_weights, "NEIGHBOUR_WEIGHTS", (0.0,))

    def found(*weights):
        monkeypatch.setattr(held_out, "DENSE_POOL_WEIGHTS", weights)
        result = trained(points, labels, settings)[1]
        return float(result.parameters["regression.pool_weight"]), result.held_out

    # The regression is much better than three epochs.
    assert found(0.9)[1].precision_5 < found(0.2)[1].precision_5
    assert found(0.9, 0.2) == found(0.2)
    assert found(0.2, 0.9) == found(0.2)
