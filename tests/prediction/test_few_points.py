"""The scores of a point do not depend on the points beside it, to the last digit."""

import numpy as np
import pytest

import xmlgp
from tests.problems import small_dataset
from xmlgp.models.mlgpf.settings import MLGPFSettings


@pytest.fixture(scope="module")
def model():
    settings = MLGPFSettings(inducing="features", epochs=1)
    return xmlgp.train(small_dataset(N=300, D=400, K=90), settings=settings)


@pytest.mark.parametrize("how", [{"k": 5}, {"k": 70}, {"threshold": 0.02}, {"k": 40, "threshold": 0.01}])
@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_few_points_have_the_scores_that_they_have_among_many(model, how, count):
    features = small_dataset(N=64, D=400, K=90, seed=3).features.sparse
    how = how | {"output": "probability", "with_std": True}
    among_many = list(xmlgp.predict(model, features, **how))
    for start in range(0, 63, count):
        alone = list(xmlgp.predict(model, features[start : start + count], **how))
        assert [point["labels"] for point in alone] == [
            point["labels"] for point in among_many[start : start + len(alone)]
        ]


def test_all_scores_of_a_point_are_those_among_many(model):
    features = small_dataset(N=64, D=400, K=90, seed=3).features
    among_many = model.predictor.score(features, "probability", True)
    for point in range(0, 64, 7):
        for own, others in zip(model.predictor.score(features[[point]], "probability", True), among_many, strict=True):
            np.testing.assert_array_equal(own[0], others[point])
