"""Contributions of features to utilities, with a model whose contributions are known exactly."""

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from tests.prediction.test_predictor import NEW, WEIGHTS, K, Linear
from tests.problems import small_dataset
from xmlgp.data.dataset import Features
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.prediction.contributions import Contributions
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.top_k import ROWS
from xmlgp.runtime.errors import NumericalError, SettingsError

N = 300
# Every seventh point has no features.
POINTS = Features(sp.csr_array(NEW.sparse[:N].toarray() * (np.arange(N) % 7 > 0)[:, None]))


class Explained(Linear):
    """The model with utilities x W, which are sums over features, and rests that are the numbers of labels."""

    def check_explainable(self):
        pass

    def contributions(self, features, pairs, count):
        self.seen.append(features.N)
        x = features.sparse[pairs.repeat(np.arange(features.N))]
        x.data *= self.weights[x.indices, np.repeat(pairs.labels, np.diff(x.indptr))]
        return Contributions(x, {"bias": pairs.labels.astype(np.float32)})


def ragged_scores():
    """Return scores of no label, some or many for each point."""
    random = np.random.default_rng(0)
    labels = [random.permutation(K)[: random.integers(0, 9)] for _ in range(N)]
    indptr = np.concatenate([[0], np.cumsum([len(chosen) for chosen in labels])])
    chosen = np.concatenate(labels).astype(np.int32)
    return Scores(indptr, chosen, np.zeros(len(chosen), np.float32), K)


@pytest.mark.parametrize("rows", [1, 50, ROWS])
def test_contributions_are_those_of_each_pair(monkeypatch, rows):
    monkeypatch.setattr("xmlgp.prediction.top_k.ROWS", rows)
    model, scores = Explained(), ragged_scores()
    found = model.explain(POINTS, scores)
    assert (sum(model.seen), max(model.seen) <= rows) == (N, True)
    of_pairs = POINTS[scores.points].sparse
    np.testing.assert_array_equal(found.features.toarray(), of_pairs.toarray() * WEIGHTS[:, scores.labels].T)
    np.testing.assert_array_equal(found.features.indices, of_pairs.indices)
    np.testing.assert_array_equal(found.rest["bias"], scores.labels)


def test_strongest_features_of_a_pair():
    indptr, features = np.array([0, 2, 9]), np.array([1, 2, 7, 3, 5, 4, 9, 0, 6], np.int32)
    values = np.array([9, -9, 0.5, 2, -3, 2, 0, -1, 1], np.float32)
    found = Contributions(sp.csr_array((values, features, indptr), (2, 10)), {"bias": np.zeros(2)})
    assert found.strongest(1, 3) == ([(3, 2.0), (4, 2.0), (6, 1.0)], [(5, -3.0), (0, -1.0)])
    assert found.strongest(1, 10)[0] == [(3, 2.0), (4, 2.0), (6, 1.0), (7, 0.5)]
    assert found.strongest(0, 1) == ([(1, 9.0)], [(2, -9.0)])
    assert found.strongest(0, 0) == ([], [])


def test_features_that_say_little_beside_the_strongest_are_left_out():
    indptr, features = np.array([0, 4, 6, 6]), np.arange(6, dtype=np.int32)
    values = np.array([5, 0.51, 0.49, -0.49, 1e-3, -2e-3])
    found = Contributions(sp.csr_array((values, features, indptr), (3, 10)), {"bias": np.zeros(3)})
    assert found.strongest(0, 9) == ([(0, 5.0), (1, 0.51)], [])
    assert found.strongest(1, 9) == ([(4, 1e-3)], [(5, -2e-3)])
    assert found.strongest(2, 9) == ([], [])


def test_shares_of_a_pair():
    features = sp.csr_array((np.array([1, 2, -0.5]), np.array([1, 2, 7]), np.array([0, 1, 3])), (2, 8))
    rest = {"bias": np.array([0.25, -3])}
    assert Contributions(features, rest).shares(1) == {"words": 1.5, "bias": -3}
    found = Contributions(features, {**rest, "neighbours": np.array([6, 7])})
    assert found.shares(1) == {"words": 1.5, "neighbours": 7, "bias": -3}


@pytest.mark.parametrize(("wrong", "first"), [("features", 6), ("bias", 2)])
def test_contributions_that_are_not_finite_raise(wrong, first):
    class Overflowing(Explained):
        def contributions(self, features, pairs, count):
            found = super().contributions(features, pairs, count)
            # From the last feature of the third pair on, or from its bias on.
            (found.features.data if wrong == "features" else found.rest[wrong])[first:] = np.nan
            return found

    points = Features(sp.csr_array(np.array([[0, 0, 0, 0], [1, 1, 0, 0], [1, 2, 3, 0]]), dtype=np.float32))
    scores = Scores(np.array([0, 0, 2, 4]), np.array([8, 9, 7, 6], np.int32), np.zeros(4), K)
    expected = r"^the contributions to the score of label 7 for point 2 are not finite$"
    with pytest.raises(NumericalError, match=expected):
        Overflowing().explain(points, scores)


def test_models_whose_utilities_are_not_sums_over_features_are_refused():
    sentence = "this model cannot be explained, because its utilities are not sums over features; "
    with pytest.raises(SettingsError, match=f"^{sentence}train with model=mlgpf and kernel=linear$"):
        Linear().explain(POINTS, ragged_scores())


def test_labels_that_the_model_does_not_have_raise(tmp_path):
    dataset, settings = small_dataset(), MLGPFSettings(inducing_count=3, factors=2, epochs=1)
    predictor = xmlgp.train(dataset, tmp_path, settings=settings).predictor
    labels = np.full((dataset.N, 1), dataset.K, np.int32)
    with pytest.raises(IndexError):
        predictor.explain(dataset.features, Scores.from_top(labels, labels.astype(float), dataset.K))
