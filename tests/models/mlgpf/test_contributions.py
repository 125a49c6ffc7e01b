"""Contributions of features to the utilities of MLGPF, against utilities and the changes of utilities."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.mlgpf.models import NEW, D, K, N, model, weight_space_model, weighted
from xmlgp.api.trained_model import open_model
from xmlgp.data.dataset import Features
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.prediction.scores_file import Scores

KINDS = {
    "free": {"inducing": "free"},
    "free, no ard": {"inducing": "free", "ard": False},
    "subspace": {"inducing": "subspace"},
    "subspace, no ard": {"inducing": "subspace", "ard": False},
    "features": {"inducing": "features"},
}
CASES = list(zip([*POSTERIORS, "diagonal", "shared-diagonal"], KINDS, strict=True))
#: With and without label weights in turn.
ALTERNATING = [(*case, i % 2 == 0) for i, case in enumerate(CASES)]


def made(path, posterior, kind, own, **chosen):
    """Return the folder of a model with random parameters, or with trained ones in weight space."""
    chosen = KINDS[kind] | {"posterior": posterior} | chosen
    if kind != "features":
        return model(path, own, **chosen)
    return weight_space_model(path, **chosen | {"label_weights": own, "epochs": 8})


def some_labels(seed=0):
    """Return scores of some labels of each point, in any order; the second point has none."""
    random = np.random.default_rng(seed)
    labels = [random.permutation(K)[: random.integers(1, K + 1)] if i != 1 else [] for i in range(N)]
    indptr = np.concatenate([[0], np.cumsum([len(chosen) for chosen in labels])])
    chosen = np.concatenate(labels).astype(np.int32)
    return Scores(indptr, chosen, np.zeros(len(chosen)), K)


ALL = Scores.from_top(np.tile(np.arange(K, dtype=np.int32), (N, 1)), np.zeros((N, K)), K)


def dense(found):
    """Return the contributions to the utilities of all labels, N×K×D."""
    return found.features.toarray().reshape(N, K, D)


def sums(found):
    """Return the sum of the contributions to each pair and its rest, n."""
    return found.features.sum(axis=1) + sum(found.rest.values())


def assert_sums_are_utilities(predictor, scores, **tolerance):
    points = np.repeat(np.arange(N), np.diff(scores.indptr))
    utilities = predictor.score(NEW, "utility")[0][points, scores.labels]
    np.testing.assert_allclose(sums(predictor.explain(NEW, scores)), utilities, **tolerance)


@pytest.mark.parametrize(("posterior", "kind", "own"), ALTERNATING)
def test_contributions_and_the_rest_sum_to_utilities(tmp_path, posterior, kind, own):
    for dtype, tolerance in ("float64", 1e-10), ("float32", 1e-4):
        predictor = open_model(made(tmp_path / dtype, posterior, kind, own, dtype=dtype)).predictor
        assert predictor.explain(NEW, ALL).features.dtype == dtype
        for scores in ALL, some_labels(), next(predictor.top(NEW, 3)):
            assert_sums_are_utilities(predictor, scores, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("posterior", "kind"), CASES)
def test_contributions_are_weighted_features_times_the_utilities_of_single_features(tmp_path, posterior, kind):
    folder = made(tmp_path, posterior, kind, True)
    predictor = open_model(folder).predictor
    bias = folder.array("parameters.bias")
    # A point with one feature has the length one, whatever its count is.
    slopes = predictor.score(Features(sp.csr_array(np.eye(D, dtype=np.float32))), "utility")[0] - bias
    found = predictor.explain(NEW, ALL)
    # Points are weighted in single precision.
    expected = weighted()[:, None, :] * slopes.T
    np.testing.assert_allclose(dense(found), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.rest["bias"], np.tile(bias, N))
