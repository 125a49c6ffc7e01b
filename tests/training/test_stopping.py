"""Early stopping: held-out points, nDCG computed in blocks, and the best epoch."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import ndcg_score

from tests.grids import each_value
from tests.problems import small_dataset
from xmlgp.errors import SettingsError
from xmlgp.gp.inner_products import Points
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf.model import MLGPF
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import run_inference
from xmlgp.preprocess.pipeline import find_inducing_inputs
from xmlgp.training import stopping as module
from xmlgp.training.stopping import WINDOW, EarlyStopping, hold_out, ndcg_of_blocks


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("count", "share", "held"),
    [
        (100, 0.1, 10),
        (7, 0.4, 3),
        (30, 0.001, 1),
        (2, 0.1, 1),
        (2, 0.9, 1),
        (5, 1.0, 4),
        (5, 0.99, 4),
        (100, 0.0, 0),
        (1, 0.5, 0),
        (1, 1.0, 0),
        (0, 0.5, 0),
    ],
)
def test_hold_out_splits_all_points_in_the_given_ratio(count, share, held):
    training, validation = hold_out(count, share, rng())
    assert len(validation) == held
    for rows in (training, validation):
        assert rows.dtype.kind == "i"
        assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(np.sort(np.concatenate([training, validation])), np.arange(count))


def test_hold_out_is_reproducible_given_the_generator():
    first, again, other = (hold_out(50, 0.3, rng(seed))[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_point_is_equally_likely_to_be_held_out():
    random, draws = rng(), 2000
    times = sum(np.bincount(hold_out(10, 0.3, random)[1], minlength=10) for _ in range(draws))
    # Five standard deviations of the binomial distribution.
    np.testing.assert_allclose(times, 0.3 * draws, atol=5 * math.sqrt(draws * 0.3 * 0.7))


def test_holding_out_no_points_draws_no_random_numbers():
    random = rng()
    hold_out(50, 0.0, random)
    assert random.random() == rng().random()


def random_scores(scores_of, N=60, K=30, seed=0):
    """Return scores, N×K, and labels; some points have no positives."""
    random = rng(seed)
    labels = random.random((N, K)) < 0.1
    labels[::7] = False
    return scores_of(random, (N, K)), sp.csr_array(labels)


def partly_non_finite(random, shape):
    scores = random.normal(size=shape)
    scores[random.random(shape) < 0.3] = np.nan
    scores[random.random(shape) < 0.2] = -np.inf
    scores[:, :2][random.random((shape[0], 2)) < 0.3] = np.inf
    scores[3], scores[4] = np.nan, -np.inf
    return scores


SCORES = {
    "all different": lambda random, shape: random.normal(size=shape),
    "single precision": lambda random, shape: random.normal(size=shape).astype(np.float32),
    "many ties": lambda random, shape: random.integers(-2, 2, shape).astype(float),
    "all equal": lambda random, shape: np.zeros(shape),
    "zeros of both signs": lambda random, shape: np.where(random.random(shape) < 0.5, 0.0, -0.0),
    "not all finite": partly_non_finite,
    "Fortran order": lambda random, shape: random.normal(size=shape[::-1]).T,
}


def stored(scores):
    """Return scores as a csr_array, N×K, with stored zeros."""
    N, K = scores.shape
    return sp.csr_array((scores.ravel(), np.tile(np.arange(K), N), np.arange(N + 1) * K), scores.shape)


@each_value(name=list(SCORES), k=[1, 3, 5, 30, 100], block=[1, 7, 60, 100])
def test_ndcg_of_blocks_equals_ndcg_of_all_scores(name, k, block):
    scores, labels = random_scores(SCORES[name])
    before = scores.copy()
    found = ndcg_of_blocks(labels, (scores[i : i + block] for i in range(0, 60, block)), k)
    assert found == evaluate_ranking(stored(scores), labels, (k,))[f"nDCG@{k}"]
    np.testing.assert_array_equal(scores, before)


def test_ndcg_agrees_with_scikit_learn():
    scores, labels = random_scores(SCORES["all different"])
    some = labels.toarray()[labels.sum(axis=1) > 0]
    expected = 100 * ndcg_score(some, scores[labels.sum(axis=1) > 0], k=5)
    assert ndcg_of_blocks(labels, [scores[:25], scores[25:25], scores[25:]]) == pytest.approx(expected, rel=1e-12)


def test_labels_with_equal_scores_are_ranked_by_index():
    # Label 3 is first; 0, 1 and 2 have equal scores. The true label has rank 2 for the first point, 4 for the second.
    scores = np.array([[1.0, 1.0, 1.0, 2.0]] * 2)
    labels = sp.csr_array(np.array([[1, 0, 0, 0], [0, 0, 1, 0]], bool))
    assert ndcg_of_blocks(labels, [scores], 2) == pytest.approx(100 * (1 / math.log2(3) + 0) / 2)
    assert ndcg_of_blocks(labels, [scores], 4) == pytest.approx(100 * (1 / math.log2(3) + 1 / math.log2(5)) / 2)


def test_scores_of_another_shape_or_without_true_labels_are_refused():
    scores, labels = random_scores(SCORES["all different"])
    with pytest.raises(SettingsError, match="have 59 points"):
        ndcg_of_blocks(labels, [scores[:-1]])
    with pytest.raises(SettingsError, match="have 60 points and 29 labels"):
        ndcg_of_blocks(labels, [scores[:, 1:]])
    with pytest.raises(SettingsError, match="no point has a true label"):
        ndcg_of_blocks(labels[::7], [scores[::7]])


def watch(scores, patience):
    """Pass scores to `EarlyStopping` until it stops; return it."""
    remaining = iter(scores)
    stopping = EarlyStopping(lambda parameters: next(remaining), patience)
    for epoch, score in enumerate(scores, 1):
        verdict = stopping(epoch, lambda epoch=epoch: {"x": np.array([float(epoch)])})
        np.testing.assert_equal(verdict.measures, {"ndcg@5": score})
        if verdict.stop:
            break
    return stopping


NAN = math.nan


@pytest.mark.parametrize(
    ("scores", "patience", "done", "best"),
    [
        ([1, 2, 3, 4], 2, 4, 4),
        ([5, 4, 3, 6], 2, 3, 1),
        ([5, 4, 6, 5, 5, 9], 2, 5, 3),
        ([5, 4, 9], 1, 2, 1),
        ([5, 5, 5, 5], 2, 4, 4),
        ([1, 2, 2, 3, 3, 3, 3], 3, 7, 7),
        ([NAN, 3, NAN, 4, NAN, NAN, 9], 2, 6, 4),
        ([0, -1], 5, 2, 1),
        ([-2, -1], 5, 2, 2),
    ],
)
def test_training_ends_after_patience_epochs_without_improvement(monkeypatch, scores, patience, done, best):
    monkeypatch.setattr(module, "WINDOW", 1)
    stopping = watch(scores, patience)
    np.testing.assert_equal(stopping.scores, scores[:done])
    assert (stopping.best_epoch, stopping.best_score) == (best, scores[best - 1])
    assert stopping.best_parameters == {"x": [best]}


@pytest.mark.parametrize(
    ("scores", "patience", "done", "best", "mean"),
    [
        ([1, 2, 3, 4], 2, 4, 4, 3),
        # A single high score does not decide; means of several epochs are compared.
        ([3, 3, 3, 9, 0, 0, 0], 3, 7, 4, 5),
        ([6, 3, 3, 5, 5, 5, 5], 4, 5, 1, 6),
        ([6, 3, 3, 5, 7, 9, 9], 5, 7, 7, 25 / 3),
        ([5, 5, 5, 5], 2, 4, 4, 5),
        # Means leave NaN out.
        ([2, 4, NAN, 9, 9, 9, 9], 9, 7, 7, 9),
        ([3, NAN, NAN, NAN, 2], 9, 5, 1, 3),
        # An epoch without a score cannot be the best.
        ([1, 5, 9, NAN, 0], 9, 5, 3, 5),
    ],
)
def test_epochs_are_compared_by_the_mean_of_recent_scores(monkeypatch, scores, patience, done, best, mean):
    monkeypatch.setattr(module, "WINDOW", 3)
    stopping = watch(scores, patience)
    np.testing.assert_equal(stopping.scores, scores[:done])
    assert (stopping.best_epoch, stopping.best_score) == (best, pytest.approx(mean))
    assert stopping.best_parameters == {"x": [best]}


@pytest.mark.parametrize("score", [NAN, -math.inf])
def test_non_finite_scores_are_never_the_best(score):
    stopping = watch([score] * 5, 3)
    assert len(stopping.scores) == 3
    assert (stopping.best_epoch, stopping.best_score, stopping.best_parameters) == (None, None, None)


def test_best_parameters_keep_their_memory_order_and_reuse_memory():
    scores = iter([1.0, 2.0, 0.0])
    stopping = EarlyStopping(lambda parameters: next(scores), patience=9, name="P@1")
    parameters = {
        "c": np.arange(6.0).reshape(2, 3),
        "f": np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3)),
        "scalar": np.array(4.0),
    }
    assert stopping(1, lambda: parameters) == ({"P@1": 1.0}, False)
    first = dict(stopping.best_parameters)
    for name, value in parameters.items():
        assert first[name].flags.f_contiguous == value.flags.f_contiguous
        assert first[name].flags.c_contiguous == value.flags.c_contiguous
        assert first[name].dtype == value.dtype
        assert not np.shares_memory(first[name], value)
        value += 1
    best = {name: value.copy() for name, value in parameters.items()}
    for epoch in (2, 3):
        stopping(epoch, lambda: parameters)
        for name, value in parameters.items():
            assert stopping.best_parameters[name] is first[name]
            np.testing.assert_array_equal(first[name], best[name])
            value += 1


def test_overfitting_training_returns_the_parameters_of_the_best_epoch():
    dataset = small_dataset(N=60, K=12)
    sizes = {"inducing_count": 20, "basis_size": 20, "factors": 8, "epochs": 60, "batch_size": 16}
    settings = MLGPFSettings(inducing_start="rows", learning_rate=0.1, **sizes)
    training, validation = hold_out(60, 0.4, rng())
    preprocessed = find_inducing_inputs(dataset.features[training], settings)
    coordinates = preprocessed.coordinates(dataset.features[training], settings.dtype)
    held = Points(*preprocessed.coordinates(dataset.features[validation], settings.dtype).rows(slice(None)))

    def score(parameters):
        latent = MLGPF(settings).predictive(parameters).latent_mean(held)
        blocks = [latent @ parameters["loadings"].T + parameters["bias"]]
        return ndcg_of_blocks(dataset.labels[validation], blocks)

    def run(after_epoch):
        labels = dataset.labels[training]
        return run_inference(coordinates, labels, preprocessed.inducing, settings, after_epoch=after_epoch)

    stopping = EarlyStopping(score, patience=5)
    last, history = run(stopping)
    assert len(history) == stopping.best_epoch + 5 < settings.epochs
    assert [entry["ndcg@5"] for entry in history] == stopping.scores
    means = [np.mean(stopping.scores[max(0, end - WINDOW) : end]) for end in range(1, len(history) + 1)]
    assert stopping.best_score == max(means) == means[stopping.best_epoch - 1]
    assert score(stopping.best_parameters) == stopping.scores[stopping.best_epoch - 1]

    seen = {}

    def look(epoch, parameters):
        if epoch == stopping.best_epoch:
            seen.update({name: value.copy() for name, value in parameters().items()})

    run(look)
    assert seen.keys() == last.keys() == stopping.best_parameters.keys()
    for name, value in stopping.best_parameters.items():
        assert value.tobytes() == seen[name].tobytes(), name
    assert not np.array_equal(seen["loadings"], last["loadings"])
