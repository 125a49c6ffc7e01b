"""What `xmlgp show` says about the parts of a model, from its arrays."""

import numpy as np
import pytest

from xmlgp.mlgpf.hyperparameters import hyperparameters

POOLED = {"regression.weights": np.ones((3, 2)), "regression.pool_weight": np.array(0.35)}
NEIGHBOURS = {"neighbours.weight": np.array(0.2), "neighbours.lengthscales": np.array([0.5, 2, 3, 3], "f4")}


def lines(parameters, **widths):
    return list(hyperparameters(parameters, widths))


def test_each_block_has_its_lengthscale():
    assert lines(NEIGHBOURS, words=9, encoder=1, **{"dense 1": 2}) == [
        "neighbours: ℓ 0.5 of words, 2 of encoder, 3 of dense 1; weight 0.2 in the pool"
    ]
    assert lines(NEIGHBOURS, words=0, encoder=1, **{"dense 1": 2}) == [
        "neighbours: ℓ 2 of encoder, 3 of dense 1; weight 0.2 in the pool"
    ]
    with pytest.raises(ValueError, match="4 lengthscales for dense blocks of widths"):
        lines(NEIGHBOURS, words=9, encoder=1)


def test_a_regression_on_words_alone_has_the_constants():
    """Also where there are dense features, which another part sees."""
    assert lines({"regression.weights": np.ones((3, 2))}, words=9, encoder=4) == [
        "regression: ℓ 0.7 of words; weight 0.5 in the pool"
    ]
    assert lines(POOLED, words=9) == ["regression: ℓ 0.7 of words; weight 0.65 in the pool"]


def test_latent_functions_without_weights_of_dense_features_do_not_see_them():
    means = np.zeros((4, 5))
    means[2, 3:] = 1e-20
    assert lines({"dense_weights.mean": means}, words=9, encoder=4) == ["2 of 5 latent functions see dense features"]
    assert lines({}, words=9) == []
