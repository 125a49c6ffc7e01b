"""A restricted predictor lists what the whole one lists, without the labels that are not allowed."""

import numpy as np
import pytest

from tests.grids import each_value
from tests.prediction.test_predictor import NEW, D, K, Linear
from xmlgp.errors import SettingsError
from xmlgp.prediction.restricted import RestrictedPredictor

POINTS = NEW[:9]


@each_value(
    allowed=[[0], [K - 1], [1, 3, 50], range(1, K), range(K)],
    k=[1, 2, K, 2 * K, None],
    output=["utility", "probability"],
    with_std=[False, True],
)
def test_allowed_labels_are_listed_in_order(allowed, k, output, with_std):
    restricted = RestrictedPredictor(Linear(), np.isin(np.arange(K), allowed))
    assert restricted.label_count == len(allowed)
    (whole,) = Linear().top(POINTS, None, output, with_std)
    (found,) = restricted.top(POINTS, k, output, with_std)
    kept = np.isin(whole.labels, allowed).reshape(9, K)
    kept &= np.cumsum(kept, axis=1) <= (k or K)
    assert (found.N, found.K) == (9, K)
    np.testing.assert_array_equal(found.indptr, np.arange(10) * min(k or K, len(allowed)))
    for name in ("labels", "scores", *["std"] * with_std):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name)[kept.ravel()])
    assert (found.std is not None) == with_std


def test_points_of_other_models_are_refused():
    restricted = RestrictedPredictor(Linear(), np.ones(K, bool))
    assert (restricted.feature_count, restricted.default_output) == (D, "utility")
    with pytest.raises(SettingsError):
        restricted.check(D - 1)
