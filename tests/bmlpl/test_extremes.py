"""Training on extreme problems, and the memory of training on many points and labels."""

import tracemalloc

import numpy as np
import scipy.sparse as sp

from tests.bmlpl.problems import UNWEIGHTED, unrelated
from tests.grids import each_value
from xmlgp.bmlpl.predictor import BMLPLPredictor
from xmlgp.bmlpl.record import run_inference
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.errors import NumericalError
from xmlgp.preprocess.inputs import Inputs

INFERENCES = ["em", "em-cg", "online-em", "gibbs"]
PASSES = 15


FEATURES, LABELS = unrelated()

PROBLEMS = {
    "unrelated": (FEATURES, LABELS),
    "huge": (FEATURES * 1e6, LABELS),
    "enormous": (FEATURES * 1e18, LABELS),
    "tiny": (FEATURES * 1e-20, LABELS),
    "negative": (-1e3 * np.abs(FEATURES), LABELS),
    "one-label-always-positive": (FEATURES, LABELS | (np.arange(LABELS.shape[1]) == 1)),
    "all-positive": (FEATURES, np.ones_like(LABELS)),
    "no-positives": (FEATURES, np.zeros_like(LABELS)),
    "one-point-one-label": (np.ones((1, 1)), np.ones((1, 1), bool)),
    "one-point-without-label": (np.zeros((1, 1)), np.zeros((1, 1), bool)),
}

CHOICES = {
    "default": {},
    "many-topics": {"topics": 11},
    "one-topic": {"topics": 1},
    "weak-priors": {"concentration": 1e6, "precision": 1e-6},
    "strong-priors": {"concentration": 1e-12, "precision": 1e6},
    "below-float32": {"concentration": 1e-300, "precision": 1e-300},
    "above-float32": {"concentration": 1e300, "precision": 1e300},
    "learned-precision": {"learn_precision": True},
}


def trained(features, labels, **chosen):
    settings = BMLPLSettings(**{"iterations": PASSES, "batch_size": 5} | chosen)
    coordinates = Inputs(sp.csr_array(features.astype(np.float32)), None, settings.dtype)
    return *run_inference(coordinates, sp.csr_array(labels), settings), settings


#: Cases that may diverge: products of features and weights overflow, or settings are outside the range of the dtype.
MAY_DIVERGE = {"huge", "enormous", "below-float32", "above-float32"}


@each_value(name=list(PROBLEMS), choice=list(CHOICES), inference=INFERENCES, dtype=["float32", "float64"])
def test_extreme_problems_give_finite_results_or_an_error(name, choice, inference, dtype):
    chosen = {} if (inference, choice) == ("online-em", "learned-precision") else CHOICES[choice]
    features, labels = PROBLEMS[name]
    try:
        parameters, history, settings = trained(features, labels, dtype=dtype, inference=inference, **chosen)
    except NumericalError:
        assert {name, choice} & MAY_DIVERGE
        return
    assert len(history) == PASSES
    numbers = [epoch["log_posterior"] for epoch in history]
    assert all(np.isfinite(value).all() for value in (*parameters.values(), numbers))
    predictor = BMLPLPredictor(settings, UNWEIGHTED, parameters, features.shape[1])
    for output in ("utility", "probability"):
        scores, std = predictor.score(sp.csr_array(features.astype(np.float32)), output, with_std=True)
        assert (scores >= 0).all()
        assert (std >= 0).all()


def test_peak_memory_is_below_n_times_k():
    N = K = 10_000
    D, labels, random = 50, 3, np.random.default_rng(0)
    features = sp.random_array((N, D), density=0.08, rng=random, dtype=np.float32).tocsr()
    # Each positive of a point is from another third of the labels, so no point has the same label twice.
    chosen = random.integers(K // 3, size=(N, labels)) + K // 3 * np.arange(labels)
    positives = sp.csr_array((np.ones(3 * N, bool), chosen.ravel(), np.arange(0, 3 * N + 1, 3)), shape=(N, K))
    settings = BMLPLSettings(topics=5, iterations=2)
    coordinates = Inputs(features, None, settings.dtype)
    # Compile first, with the same types: compilation takes memory too.
    parameters, _ = run_inference(Inputs(features[:9], None, settings.dtype), positives[:9], settings)
    list(BMLPLPredictor(settings, UNWEIGHTED, parameters, D).top(features[:9], 5, memory=16))
    tracemalloc.start()
    try:
        parameters, _ = run_inference(coordinates, positives, settings)
        training_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        for scores in BMLPLPredictor(settings, UNWEIGHTED, parameters, D).top(features[:2000], 5, memory=16):
            assert len(scores.labels) == 5 * (len(scores.indptr) - 1)
        prediction_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert max(training_peak, prediction_peak) < N * K / 10
