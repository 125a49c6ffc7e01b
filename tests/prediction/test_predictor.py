"""What all predictors share, with a model of closed form whose scores are known exactly."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from xmlgp.errors import ModelFolderError, NumericalError, SettingsError
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.prediction import predictor as module
from xmlgp.prediction.predictor import OUTPUTS, Predictor, predictors
from xmlgp.runs.preprocess import preprocess_model
from xmlgp.runs.train import train_model

N, D, K = 600, 4, 90
RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.integers(-3, 4, (D, K))
NEW = sp.csr_array(RANDOM.integers(0, 3, (N, D)), dtype=np.float32)


class Linear(Predictor):
    """Utilities x W of whole numbers, many of them equal; probabilities 2^(x W), and deviations |x| |W|, of both."""

    def __init__(self, weights=WEIGHTS, size=8):
        super().__init__(*weights.shape, "float32")
        self.weights, self.size = weights.astype(np.float32), size
        self.seen, self.blocks = [], []

    @classmethod
    def from_folder(cls, folder):
        return folder.make()

    def prepare(self, features, output, with_std):
        self.seen.append(features.shape[0])
        return features.toarray()

    def scores(self, points, labels, output):
        self.blocks.append((labels.start, labels.stop))
        utilities = points @ self.weights[:, labels]
        return utilities if output == "utility" else np.exp2(utilities)

    def deviations(self, points, labels, output):
        spread = np.abs(self.weights).T[labels]
        return np.einsum("ikd,id->ik", spread, np.abs(points))

    def all_scores(self, features, output, with_std):
        points = self.prepare(features, output, with_std)
        every = np.tile(np.arange(self.label_count), (len(points), 1))
        scores = self.scores(points, slice(0, self.label_count), output)
        return scores, self.deviations(points, every, output) if with_std else None

    def bytes_a_point(self, output, with_std):
        return self.size


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(("few", "width"), [(64, 1024), (64, 7), (0, 7)])
@pytest.mark.parametrize("k", [1, 5, 64, 65, K, None, 1000])
def test_top_labels_are_those_of_a_stable_sort(monkeypatch, k, few, width, output):
    monkeypatch.setattr(module, "FEW", few)
    monkeypatch.setattr(module, "LABELS", width)
    (found,) = Linear().top(NEW, k, output, with_std=True)
    utilities, spread = NEW.toarray() @ WEIGHTS, NEW.toarray() @ np.abs(WEIGHTS)
    kept = min(k or K, K)
    order = np.argsort(-utilities, axis=1, kind="stable")[:, :kept]
    best = np.take_along_axis(utilities, order, axis=1)
    assert (found.N, found.K) == (N, K)
    np.testing.assert_array_equal(found.indptr, np.arange(N + 1) * kept)
    np.testing.assert_array_equal(found.labels, order.ravel())
    np.testing.assert_array_equal(found.scores, (best if output == "utility" else 2.0**best).ravel())
    np.testing.assert_array_equal(found.std, np.take_along_axis(spread, order, axis=1).ravel())
    assert found.labels.dtype == np.int32
    assert found.scores.dtype == found.std.dtype == np.float32


@pytest.mark.parametrize("with_std", [True, False])
def test_all_scores_are_those_of_the_top(with_std):
    values, std = Linear().score(NEW, "probability", with_std)
    (found,) = Linear().top(NEW, None, "probability", with_std)
    np.testing.assert_array_equal(found.matrix.toarray(), values)
    if with_std:
        np.testing.assert_array_equal(found.std.reshape(N, K), np.take_along_axis(std, found.labels.reshape(N, K), 1))
    else:
        assert std is found.std is None


@pytest.mark.parametrize("rows", [1, 50, 256])
def test_points_are_prepared_once_and_labels_taken_in_blocks(monkeypatch, rows):
    monkeypatch.setattr(module, "ROWS", rows)
    monkeypatch.setattr(module, "LABELS", 40)
    predictor = Linear()
    assert sum(piece.N for piece in predictor.top(NEW, 3)) == sum(predictor.seen) == N
    assert max(predictor.seen) <= rows
    assert sorted(predictor.blocks) == sorted([(0, 40), (40, 80), (80, 120)] * len(predictor.seen))
    # A sort needs all at once.
    predictor = Linear()
    list(predictor.top(NEW, 65))
    assert set(predictor.blocks) == {(0, K)}


@pytest.mark.parametrize(("k", "least"), [(1, (4 + 2 * K) * 8), (None, (8 * K + 2 * K) * 8)])
def test_a_chunk_is_what_fits_into_memory(k, least):
    for size, memory, points in [(8, 1, (1 << 20) // (least + 8)), (1 << 20, 3, 2), (1 << 20, 0, 1)]:
        counts = [piece.N for piece in Linear(size=size).top(NEW, k, memory=memory)]
        assert sum(counts) == N
        assert counts[0] == max(counts) == min(points, N)
        assert len(counts) == -(-N // points)


def test_no_points_at_all():
    assert list(Linear().top(NEW[:0], 3)) == []
    assert Linear().score(NEW[:0])[0].shape == (0, K)


@pytest.mark.parametrize("wrong", [0, D - 1, D + 1])
def test_points_with_another_number_of_features_are_refused(wrong):
    expected = f"^the points have {wrong} features, but the model was trained on {D}$"
    with pytest.raises(SettingsError, match=expected):
        Linear().check(wrong)
    with pytest.raises(SettingsError, match=expected):
        list(Linear().top(sp.csr_array((1, wrong), dtype=np.float32), 3))


def test_scores_and_deviations_that_are_not_finite_are_refused():
    weights = np.ones((1, 2))
    points = sp.csr_array(np.array([[0], [200]]), dtype=np.float32)
    # No warning beside it: here warnings are errors.
    with pytest.raises(NumericalError, match=r"^the score of label 0 for point 1 is not finite$"):
        Linear(weights).score(points, "probability")
    assert np.isfinite(Linear(weights).score(points)[0]).all()

    class Uncertain(Linear):
        def deviations(self, points, labels, output):
            return np.where(labels == 1, np.nan, super().deviations(points, labels, output))

    assert np.isfinite(Uncertain(weights).score(points)[0]).all()
    with pytest.raises(NumericalError, match=r"^the score of label 1 for point 0 is not finite$"):
        Uncertain(weights).score(points, with_std=True)


def test_every_kind_of_model_says_all_that_is_its_own():
    assert predictors()["mlgpf"] is MLGPFPredictor
    for kind in predictors().values():
        assert issubclass(kind, Predictor)
        assert not inspect.isabstract(kind)


SMALL = {"inducing_count": 3, "basis_size": 4, "factors": 2, "epochs": 1}


def test_a_folder_is_opened_by_the_class_for_its_model(tmp_path):
    folder = train_model(small_dataset(), tmp_path, MLGPFSettings(**SMALL))
    assert type(Predictor.open(folder)) is MLGPFPredictor


def test_a_model_not_trained_yet_is_refused(tmp_path):
    folder = preprocess_model(small_dataset(), tmp_path / "mine", MLGPFSettings(**SMALL))
    with pytest.raises(ModelFolderError, match="mine: the model is preprocessed, but not trained yet$"):
        Predictor.open(folder)


def stored(make, labels=K):
    """A stand-in for the folder of a linear model, of which `make` makes a predictor."""
    return SimpleNamespace(
        path="mine", stage="trained", description={"model": "linear", "data": {"D": D, "K": labels}}, make=make
    )


def failing(error):
    def make():
        raise error

    return make


@pytest.mark.parametrize(
    "folder",
    [
        stored(lambda: None),
        *(stored(failing(error)) for error in (KeyError("bias"), IndexError(), TypeError(), ValueError("shapes"))),
        stored(Linear, K + 1),
        stored(lambda: Linear(WEIGHTS[:-1])),
        stored(lambda: Linear(WEIGHTS[:, :, None])),
    ],
    ids=["None", "KeyError", "IndexError", "TypeError", "ValueError", "K", "D", "shape"],
)
def test_arrays_that_do_not_fit_are_told_of_in_one_way(monkeypatch, folder):
    monkeypatch.setattr(module, "predictors", lambda: {"linear": Linear})
    assert type(Predictor.open(stored(Linear))) is Linear
    with pytest.raises(ModelFolderError, match="^mine: the model is damaged, its arrays do not fit each other$"):
        Predictor.open(folder)


def test_what_a_kind_of_model_says_of_damage_is_passed_on(monkeypatch):
    monkeypatch.setattr(module, "predictors", lambda: {"linear": Linear})
    with pytest.raises(ModelFolderError, match="^mine: the weights are missing$"):
        Predictor.open(stored(failing(ModelFolderError("mine: the weights are missing"))))
