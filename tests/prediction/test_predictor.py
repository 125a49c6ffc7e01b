"""The base class of predictors, with a model whose scores are known exactly."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from tests.grids import each_value
from xmlgp.data.dataset import Features
from xmlgp.features.pipeline import Preprocessed
from xmlgp.features.weighting import Weighting
from xmlgp.prediction.calibration import Calibration
from xmlgp.prediction.predictor import OUTPUTS, Predictor
from xmlgp.runtime.errors import NumericalError, SettingsError

N, D, K = 600, 4, 90
RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.integers(-3, 4, (D, K))
NEW = Features(sp.csr_array(RANDOM.integers(0, 3, (N, D)), dtype=np.float32))


class Linear(Predictor):
    """A model with integer utilities x W, many of them equal, probabilities 2^(x W) and standard deviations |x| |W|."""

    def __init__(self, settings=None, preprocessed=None, parameters=WEIGHTS, feature_count=D):
        super().__init__(feature_count, parameters.shape[1], "float32")
        self.weights = parameters.astype(np.float32)
        self.seen = []

    @classmethod
    def parameters_fit(cls, settings, parameters, D, K):
        return settings() if settings else True

    def prepare(self, features, output, with_std):
        self.seen.append(features.N)
        return features.sparse.toarray()

    def scores(self, points, labels, output):
        utilities = points @ self.weights[:, labels]
        return utilities if output == "utility" else np.exp2(utilities)

    def std(self, points, labels, output):
        return np.einsum("ikd,id->ik", np.abs(self.weights).T[labels], np.abs(points))


class Calibrated(Linear):
    """The same with probabilities between 0 and 1, σ(x W / 8), which are calibrated."""

    calibration = Calibration((0.6, 1.2, -0.4, -0.3, 0.4))

    def scores(self, points, labels, output):
        utilities = super().scores(points, labels, "utility") / 8
        return utilities if output == "utility" else expit(utilities)


def ranked(model, output, k=K):
    """Return the best labels of each point with their scores and standard deviations, N×k, in double precision."""
    utilities = NEW.sparse.toarray() @ WEIGHTS
    order = np.argsort(-utilities, axis=1, kind="stable")
    scores = np.take_along_axis(utilities, order, axis=1) / (8 if model is Calibrated else 1)
    std = np.take_along_axis(NEW.sparse.toarray() @ np.abs(WEIGHTS), order, axis=1)
    if output == "probability":
        scores = expit(scores) if model is Calibrated else 2.0**scores
        if model is Calibrated:
            # The order is that of probabilities before calibration.
            std, scores = model.calibration.calibrated_std(scores, std), model.calibration(scores)
    return order[:, :k], scores[:, :k], std[:, :k]


@each_value(
    model=[Linear, Calibrated], k=[1, 64, 65, None, 1000], limits=[(64, 1024), (64, 7), (0, 7)], output=list(OUTPUTS)
)
def test_scores_of_top_labels_and_of_all_agree_with_a_stable_sort(monkeypatch, model, k, limits, output):
    for name, limit in zip(("predictor.MAX_STREAMED", "top_k.LABELS"), limits, strict=True):
        monkeypatch.setattr(f"xmlgp.prediction.{name}", limit)
    (found,) = model().top(NEW, k, output, with_std=True)
    k = min(k or K, K)
    expected = ranked(model, output, k)
    assert (found.N, found.K) == (N, K)
    np.testing.assert_array_equal(found.indptr, np.arange(N + 1) * k)
    np.testing.assert_array_equal(found.labels, expected[0].ravel())
    np.testing.assert_allclose(found.scores, expected[1].ravel(), rtol=1e-5)
    np.testing.assert_allclose(found.std, expected[2].ravel(), rtol=1e-5)
    assert (found.labels.dtype, found.scores.dtype, found.std.dtype) == (np.int32, np.float32, np.float32)
    of_all = model().score(NEW, output, with_std=True)
    for values, best in zip(of_all, (found.scores, found.std), strict=True):
        np.testing.assert_array_equal(np.take_along_axis(values, expected[0], axis=1).ravel(), best)
    assert model().score(NEW[:1])[1] is None


class Knowing(Linear):
    """The same, and it knows the best label of each point, count − 1 others, and none after them."""

    def best_labels(self, points, count, output):
        best = np.argmax(points @ self.weights, axis=1)[:, None]
        labels = (best + np.arange(0, 2 * count, 2)) % K
        return np.pad(labels, ((0, 0), (1, 1)), constant_values=-1).astype(np.int32)

    def scores(self, points, labels, output):
        if isinstance(labels, slice):
            return super().scores(points, labels, output)
        return np.take_along_axis(super().scores(points, slice(0, K), output), labels, axis=1)


@each_value(k=[1, 4, 65], output=list(OUTPUTS), with_std=[True, False])
def test_only_the_labels_that_a_predictor_knows_are_scored_unless_all_are_sorted(k, output, with_std):
    (found,) = Knowing().top(NEW, k, output, with_std)
    (expected,) = Linear().top(NEW, k, output)
    utilities = NEW.sparse.toarray() @ WEIGHTS
    labels = expected.labels.reshape(N, k).copy()
    if k < 65:
        for row, among in enumerate(np.sort(Knowing().best_labels(NEW.sparse.toarray(), k, output)[:, 1:-1])):
            labels[row] = among[np.argsort(-utilities[row, among], kind="stable")]
    np.testing.assert_array_equal(found.labels.reshape(N, k), labels)
    scores = np.take_along_axis(utilities, labels, axis=1)
    np.testing.assert_array_equal(found.scores.reshape(N, k), scores if output == "utility" else 2.0**scores)
    assert (found.std is not None) == with_std


@pytest.mark.parametrize(("k", "least"), [(1, (4 + 2 * K) * 8), (None, (8 * K + 2 * K) * 8)])
def test_chunks_fit_into_memory(monkeypatch, k, least):
    for points in N, 7, 1:
        monkeypatch.setattr("xmlgp.prediction.predictor.MEMORY", points * least)
        counts = [piece.N for piece in Linear().top(NEW, k)]
        assert sum(counts) == N
        assert counts[0] == max(counts) == min(points, N)
        assert len(counts) == -(-N // points)


def test_no_points():
    assert list(Linear().top(NEW[:0], 3)) == []
    assert Linear().score(NEW[:0])[0].shape == (0, K)


@pytest.mark.parametrize("wrong", [D - 1, D + 1])
def test_points_with_another_number_of_features_raise(wrong):
    with pytest.raises(SettingsError, match=f"^the points have {wrong} features, but the model was trained on {D}$"):
        list(Linear().top(Features(sp.csr_array((1, wrong), dtype=np.float32)), 3))


def test_scores_that_are_not_finite_raise():
    weights = np.ones((1, 2))
    points = Features(sp.csr_array(np.array([[0], [200]]), dtype=np.float32))
    # There is no warning either: tests turn warnings into errors.
    with pytest.raises(NumericalError, match=r"^the score of label 0 for point 1 is not finite$"):
        Linear(parameters=weights, feature_count=1).score(points, "probability")
    assert np.isfinite(Linear(parameters=weights, feature_count=1).score(points)[0]).all()

    class Uncertain(Linear):
        def std(self, points, labels, output):
            return np.where(labels == 1, np.nan, super().std(points, labels, output))

    assert np.isfinite(Uncertain(parameters=weights, feature_count=1).score(points)[0]).all()
    with pytest.raises(NumericalError, match=r"^the score of label 1 for point 0 is not finite$"):
        Uncertain(parameters=weights, feature_count=1).score(points, with_std=True)


def raising(error):
    def settings():
        raise error

    return settings


@pytest.mark.parametrize(
    ("settings", "parameters", "labels"),
    [
        (lambda: False, WEIGHTS, K),
        *((raising(error), WEIGHTS, K) for error in (KeyError("bias"), ValueError("shapes"))),
        (None, WEIGHTS, K + 1),
        (None, WEIGHTS[:-1], K),
        (None, WEIGHTS[:, :, None], K),
    ],
    ids=["False", "KeyError", "ValueError", "K", "D", "shape"],
)
def test_from_arrays_returns_none_if_parameters_do_not_fit(settings, parameters, labels):
    preprocessed = Preprocessed(Weighting.named("none"), None, None)
    assert type(Linear.from_arrays(None, preprocessed, WEIGHTS, D, K)) is Linear
    assert Linear.from_arrays(settings, preprocessed, parameters, D, labels) is None
