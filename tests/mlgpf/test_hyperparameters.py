"""What `xmlgp show` says about the parts of a model, from its arrays."""

import numpy as np
import pytest

from xmlgp.mlgpf.hyperparameters import hyperparameters
from xmlgp.regression.neighbours import FAR, NEIGHBOURS

WORTH = {"neighbours.weight": np.array(0.2), "neighbours.lengthscales": np.array([0.5, 2, 3, 3], "f4")}


def test_each_block_has_its_lengthscale():
    assert WORTH.keys() <= NEIGHBOURS.arrays.keys()
    widths = {"words": 9, "encoder": 1, "dense 1": 2}
    blocks = {"ℓ of encoder": 2, "ℓ of dense 1": 3, "weight in the pool": 0.2}
    assert hyperparameters(WORTH, widths) == {"neighbours": {"ℓ of words": 0.5} | blocks}
    assert hyperparameters(WORTH, widths | {"words": 0}) == {"neighbours": blocks}
    far = WORTH | {"neighbours.lengthscales": np.array([0.5, 2, FAR, FAR], "f4")}
    assert hyperparameters(far, widths)["neighbours"].keys() == {"ℓ of words", "ℓ of encoder", "weight in the pool"}
    with pytest.raises(ValueError, match="4 lengthscales for dense blocks of widths"):
        hyperparameters(WORTH, {"words": 9, "encoder": 1})


def test_a_regression_on_words_alone_has_constants():
    """Also where there are dense features, which another part has."""
    parameters = {"regression.weights": np.ones((3, 2))}
    words = {"ℓ of words": 0.7}
    expected = {"regression": words | {"weight in the pool": 0.5}}
    assert hyperparameters(parameters, {"words": 9, "encoder": 4}) == expected
    parameters["regression.pool_weight"] = np.array(0.35)
    assert hyperparameters(parameters, {"words": 9}) == {"regression": words | {"weight in the pool": 0.65}}


def test_latent_functions_whose_weights_are_zero_are_without_dense_features():
    means = np.zeros((4, 5))
    means[2, 3:] = 1e-20
    expected = {"latent functions": {"number": 5, "of which see dense features": 2}}
    assert hyperparameters({"dense_weights.mean": means}, {"words": 9, "encoder": 4}) == expected
    assert hyperparameters({}, {"words": 9}) == {}
