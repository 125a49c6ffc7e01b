"""Whole trainings of extreme problems, which end in numbers or one sentence, and of large ones, which stay small."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from tests.bmlpl.problems import ordinary
from tests.grids import grid
from xmlgp.bmlpl.predictor import BMLPLPredictor
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.bmlpl.train import run_inference
from xmlgp.errors import NumericalError
from xmlgp.preprocess.coordinates import Coordinates
from xmlgp.preprocess.pipeline import Preprocessed
from xmlgp.preprocess.weighting import Weighting

UNWEIGHTED = Preprocessed(Weighting.named("none", None), None, None)

INFERENCES = ["em", "em-cg", "online-em", "gibbs"]
PASSES = 25


def zero_rows():
    features, labels = ordinary()
    features[::2] = 0
    return features, labels


def huge():
    features, labels = ordinary()
    return features * 1e6, labels


def enormous():
    features, labels = ordinary()
    return features * 1e18, labels


def tiny():
    features, labels = ordinary()
    return features * 1e-20, labels


def negative():
    features, labels = ordinary()
    return -1e3 * np.abs(features), labels


def one_for_all():
    features, labels = ordinary()
    labels[:, 1] = True
    return features, labels


def all_for_all():
    features, labels = ordinary()
    return features, np.ones_like(labels)


def nothing():
    features, labels = ordinary()
    return features, np.zeros_like(labels)


def duplicated():
    features, labels = ordinary(3)
    return np.tile(features, (8, 1)), np.tile(labels, (8, 1))


PROBLEMS = {
    "ordinary": ordinary,
    "zero-rows": zero_rows,
    "huge": huge,
    "enormous": enormous,
    "tiny": tiny,
    "negative": negative,
    "one-for-all": one_for_all,
    "all-for-all": all_for_all,
    "nothing": nothing,
    "duplicated": duplicated,
    "one-point": lambda: (np.ones((1, 2)), np.array([[True, False]])),
    "one-label": lambda: (ordinary()[0], ordinary()[1][:, :1]),
    "one-of-each": lambda: (np.ones((1, 1)), np.ones((1, 1), bool)),
    "none-of-each": lambda: (np.zeros((1, 1)), np.zeros((1, 1), bool)),
}

CHOICES = {
    "usual": {},
    "many-topics": {"topics": 11},
    "one-topic": {"topics": 1},
    "spread-out": {"concentration": 1e6, "precision": 1e-6},
    "narrow": {"concentration": 1e-12, "precision": 1e6},
    "beyond-single": {"concentration": 1e-300, "precision": 1e-300},
    "above-single": {"concentration": 1e300, "precision": 1e300},
    "learned": {"learn_precision": True},
}


def trained(features, labels, **chosen):
    settings = BMLPLSettings(**{"iterations": PASSES, "batch_size": 5} | chosen)
    coordinates = Coordinates(sp.csr_array(features.astype(np.float32)), None, settings.dtype)
    return *run_inference(coordinates, sp.csr_array(labels), settings), settings


#: Where numbers may be lost: products of features and weights are so large, or settings are beyond the precision.
LOSING = {"huge", "enormous", "beyond-single", "above-single"}


@grid(name=list(PROBLEMS), choice=list(CHOICES), inference=INFERENCES, dtype=["float32", "float64"])
def test_extremes_train_to_finite_numbers_or_raise(name, choice, inference, dtype):
    chosen = {} if (inference, choice) == ("online-em", "learned") else CHOICES[choice]
    features, labels = PROBLEMS[name]()
    try:
        parameters, history, settings = trained(features, labels, dtype=dtype, inference=inference, **chosen)
    except NumericalError:
        assert {name, choice} & LOSING
        return
    assert len(history) == PASSES
    numbers = [epoch["log_posterior"] for epoch in history]
    assert all(np.isfinite(value).all() for value in (*parameters.values(), numbers))
    predictor = BMLPLPredictor(settings, UNWEIGHTED, parameters, features.shape[1])
    for output in ("utility", "probability"):
        scores, std = predictor.score(sp.csr_array(features.astype(np.float32)), output, with_std=True)
        assert (scores >= 0).all()
        assert (std >= 0).all()


@pytest.mark.parametrize("inference", INFERENCES)
def test_nothing_is_as_large_as_all_labels_of_all_points(inference):
    N = K = 20_000
    D, labels, random = 50, 3, np.random.default_rng(0)
    features = sp.random_array((N, D), density=0.08, rng=random, dtype=np.float32).tocsr()
    # A third of the labels each, so that no point has one twice.
    chosen = random.integers(K // 3, size=(N, labels)) + K // 3 * np.arange(labels)
    positives = sp.csr_array((np.ones(3 * N, bool), chosen.ravel(), np.arange(0, 3 * N + 1, 3)), shape=(N, K))
    settings = BMLPLSettings(inference=inference, topics=5, iterations=2)
    coordinates = Coordinates(features, None, settings.dtype)
    # What is compiled once takes memory of its own.
    trained(*ordinary(), inference=inference)
    tracemalloc.start()
    try:
        parameters, _ = run_inference(coordinates, positives, settings)
        trained_in = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        for scores in BMLPLPredictor(settings, UNWEIGHTED, parameters, D).top(features[:2000], 5, memory=16):
            assert len(scores.labels) == 5 * (len(scores.indptr) - 1)
        predicted_in = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert max(trained_in, predicted_in) < N * K / 10
