"""What dense features are worth beside words: the weights that held-out points choose, zero included."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Dense, Features
from xmlgp.gp.weight_space import names_of
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf import dense_weights
from xmlgp.mlgpf.dense_weights import DenseWeights, pooled_parameters

SETTINGS = {"factors": 5, "epochs": 4, "label_weights": True, "regression_points": 0}
K = 12


def planted(count=600, seed=1, informative=1.0, widths=(6,), labels=K):
    """Return points whose labels depend on their words, and on their first dense block as far as it is informative."""
    random = np.random.default_rng(seed)
    weights = np.random.default_rng(99).normal(size=(40 + widths[0], labels))
    words = (random.random((count, 40)) < 0.15).astype(np.float32)
    dense = random.normal(size=(count, sum(widths)))
    utility = 2 * words @ weights[:40] + informative * dense[:, : widths[0]] @ weights[40:] - 3
    Y = sp.csr_array(random.random(utility.shape) < 1 / (1 + np.exp(-2 * utility)))
    ends = np.cumsum(widths)[:-1]
    blocks = tuple(block.astype(np.float32) for block in np.split(dense, ends, axis=1))
    return Dataset(Features(sp.csr_array(words), Dense(blocks)), Y)


def without_dense(points):
    return Dataset(Features(points.features.sparse), points.labels)


def ndcg(model, points):
    dense = list(points.features.dense.arrays) if "dense" in model.data else None
    scores = xmlgp.predict(model, points.features.sparse, dense=dense, k=5).matrix()
    return evaluate_ranking(scores, points.labels, ks=(5,))["nDCG@5"]


@pytest.fixture(scope="module")
def points():
    return planted()


@pytest.fixture(scope="module")
def model(points):
    return xmlgp.train(points, settings=SETTINGS)


@pytest.mark.parametrize("regression_points", [0, 1000])
def test_with_weights_of_zero_the_model_is_that_of_words_alone(points, monkeypatch, tmp_path, regression_points):
    monkeypatch.setattr(dense_weights, "JOINT_WEIGHTS", (0.0,))
    monkeypatch.setattr(dense_weights, "NEIGHBOUR_WEIGHTS", (0.0,))
    settings = SETTINGS | {"regression_points": regression_points}
    alone = xmlgp.train(without_dense(points), settings=settings)
    both = xmlgp.train(points, tmp_path / "model", settings=settings)
    assert both.parameters.keys() - alone.parameters.keys() == {"replay.dense"}
    for name, array in alone.parameters.items():
        np.testing.assert_array_equal(both.parameters[name], array, err_msg=name)
    assert both.held_out.dense_gains == (0,)
    # Such a model does what others do.
    read = xmlgp.load(tmp_path / "model")
    later = planted(40, 2)
    dense = later.features.dense.arrays[0]
    scores = xmlgp.predict(read, later.features.sparse, dense=dense, k=5, explain=3)
    expected = xmlgp.predict(alone, later.features.sparse, k=5).matrix().toarray()
    np.testing.assert_array_equal(scores.matrix().toarray(), expected)
    learned = xmlgp.learn(read, later)
    assert np.isfinite(xmlgp.predict(learned, later.features.sparse, dense=dense).matrix().data).all()


def test_a_block_that_says_much_gains_much(points, model):
    later = planted(400, 2)
    alone = xmlgp.train(without_dense(points), settings=SETTINGS)
    assert ndcg(model, later) > ndcg(alone, later) + 5
    assert model.held_out.dense_gains[0] > 5
    words = model.held_out.worth_of_dense(["encoder"])
    assert words.startswith("what dense features add to the nDCG@5 of 60 held-out points: encoder +")


def test_a_block_of_noise_costs_next_to_nothing():
    noise = planted(informative=0)
    later = planted(600, 2, informative=0)
    alone = xmlgp.train(without_dense(noise), settings=SETTINGS)
    both = xmlgp.train(noise, settings=SETTINGS)
    assert ndcg(both, later) > ndcg(alone, later) - 1


@pytest.mark.parametrize("joint", [0, 0.25, 0.75, 1])
def test_pooled_utilities_are_the_weighted_means(model, points, joint):
    random = np.random.default_rng(0)
    P = 5
    mean, log_variance, _ = names_of("latent_weights")
    words = {name: array for name, array in model.parameters.items() if not name.startswith(("neighbours", "dense"))}
    words |= {mean: random.normal(size=(40, P)), "loadings": random.normal(size=(K, P)), "bias": random.normal(size=K)}
    words = {name: array.astype("f4") if array.dtype == "f8" and array.ndim else array for name, array in words.items()}
    block = dict(zip(names_of("dense_weights"), (random.normal(size=(6, P)), np.zeros(6), np.zeros(6)), strict=True))
    other = words | {name: array.astype("f4") for name, array in block.items()}
    other |= {name: words[name][::-1] for name in (mean, log_variance, "loadings", "bias")}
    pooled = pooled_parameters(words, other, DenseWeights(joint, 0), [(0, 6)])
    first, second, found = (utilities(model, parameters, points) for parameters in (words, other, pooled))
    np.testing.assert_allclose(found, (1 - joint) * first + joint * second, rtol=1e-4, atol=1e-4)


def utilities(model, parameters, points):
    """Return the utilities of all labels by a model with these parameters, without its calibration."""
    without = {name: array for name, array in parameters.items() if name != "calibration"}
    other = dataclasses.replace(model, parameters=without, folder=None)
    dense = points.features.dense.arrays[0]
    return xmlgp.predict(other, points.features.sparse, dense=dense, k="all", output="utility").matrix().toarray()
