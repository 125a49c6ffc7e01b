"""Contributions of features to utilities, with a model whose contributions are known exactly."""

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from tests.prediction.test_predictor import NEW, WEIGHTS, D, K, Linear
from tests.problems import small_dataset
from xmlgp.errors import NumericalError, SettingsError
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.prediction import predictor as module
from xmlgp.prediction.contributions import Contributions
from xmlgp.prediction.scores_file import Scores

N = 300
POINTS = NEW[:N]


class Explained(Linear):
    """The model with utilities x W, which are sums over features."""

    def check_explainable(self):
        pass

    def contributions(self, features, scores, values, rest):
        self.seen.append(features.shape[0])
        labels = [scores.labels[i:j] for i, j in zip(scores.indptr, scores.indptr[1:], strict=False)]
        found = [
            self.weights[features.indices[i:j], label] * features.data[i:j]
            for i, j, chosen in zip(features.indptr, features.indptr[1:], labels, strict=False)
            for label in chosen
        ]
        values[:] = np.concatenate([*found, []])
        rest[:] = scores.labels


def ragged_scores(seed=0):
    """Return scores of no label, some or many for each point."""
    random = np.random.default_rng(seed)
    labels = [random.permutation(K)[: random.integers(0, 9)] for _ in range(N)]
    indptr = np.concatenate([[0], np.cumsum([len(chosen) for chosen in labels])])
    chosen = np.concatenate(labels).astype(np.int32)
    return Scores(indptr, chosen, np.zeros(len(chosen), np.float32), K)


@pytest.mark.parametrize("rows", [1, 50, module.ROWS])
def test_contributions_are_those_of_each_pair(monkeypatch, rows):
    monkeypatch.setattr(module, "ROWS", rows)
    model, scores = Explained(), ragged_scores()
    found = model.explain(POINTS, scores)
    assert sum(model.seen) == N
    assert max(model.seen) <= rows
    assert (found.features.dtype, found.values.dtype, found.rest.dtype) == (np.int32, np.float32, np.float32)
    assert len(found.indptr) == len(scores.labels) + 1
    points = np.repeat(np.arange(N), np.diff(scores.indptr))
    for j, (point, label) in enumerate(zip(points, scores.labels, strict=True)):
        part = slice(found.indptr[j], found.indptr[j + 1])
        row = POINTS[[point]]
        np.testing.assert_array_equal(found.features[part], row.indices)
        np.testing.assert_array_equal(found.values[part], row.data * WEIGHTS[row.indices, label])
        assert found.rest[j] == label


def test_strongest_features_of_a_pair():
    indptr, features = np.array([0, 2, 9]), np.array([1, 2, 7, 3, 5, 4, 9, 0, 6], np.int32)
    values = np.array([9, -9, 0.5, 2, -3, 2, 0, -1, 1], np.float32)
    found = Contributions(indptr, features, values, np.zeros(2))
    assert found.strongest(1, 3) == ([(3, 2.0), (4, 2.0), (6, 1.0)], [(5, -3.0), (0, -1.0)])
    assert found.strongest(1, 10)[0] == [(3, 2.0), (4, 2.0), (6, 1.0), (7, 0.5)]
    assert found.strongest(0, 1) == ([(1, 9.0)], [(2, -9.0)])
    assert found.strongest(0, 0) == ([], [])


def test_points_without_features_or_labels():
    nothing = sp.csr_array((2, D), dtype=np.float32)
    found = Explained().explain(nothing, Scores.from_top(np.array([[3], [5]], np.int32), np.zeros((2, 1)), K))
    assert (found.indptr.tolist(), found.rest.tolist(), found.strongest(1, 3)) == ([0, 0, 0], [3, 5], ([], []))
    for points in POINTS[:2], POINTS[:0]:
        labels = np.empty((points.shape[0], 0), np.int32)
        found = Explained().explain(points, Scores.from_top(labels, labels.astype(float), K))
        assert [len(array) for array in (found.indptr, found.features, found.values, found.rest)] == [1, 0, 0, 0]


def test_scores_of_other_points_or_another_model_raise():
    right = ragged_scores()
    other = Scores(right.indptr, right.labels, right.scores, K + 1)
    for points, scores, sentence in [
        (POINTS[:, :3], right, "the points have 3 features"),
        (POINTS[:7], right, f"{N} points and {K} labels, but there are 7 points, and the model has {K} labels"),
        (POINTS, other, f"{N} points and {K + 1} labels, .* has {K} labels"),
    ]:
        with pytest.raises(SettingsError, match=sentence):
            Explained().explain(points, scores)


@pytest.mark.parametrize("wrong", ["values", "rest"])
def test_contributions_that_are_not_finite_raise(wrong):
    class Overflowing(Explained):
        def contributions(self, features, scores, values, rest):
            super().contributions(features, scores, values, rest)
            if wrong == "values":
                # The last feature of the label of the third pair, and those of later ones.
                values[6:] = np.inf
            else:
                rest[2:] = np.nan

    points = sp.csr_array(np.array([[0, 0, 0, 0], [1, 1, 0, 0], [1, 2, 3, 0]]), dtype=np.float32)
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
