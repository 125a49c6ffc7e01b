"""Training on extreme problems and on a part of the labels, and its memory with many points and labels."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from tests.grids import each_value
from tests.models.bmlpl.problems import UNWEIGHTED, unrelated
from tests.problems import small_dataset
from tests.training.interrupting import assert_same_result
from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs
from xmlgp.features.pipeline import weight_features
from xmlgp.linear_algebra.array_groups import arrays_fit
from xmlgp.models.bmlpl.counts import reveal_labels
from xmlgp.models.bmlpl.parameters import ARRAYS
from xmlgp.models.bmlpl.predictor import BMLPLPredictor
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.bmlpl.train import run_inference
from xmlgp.runtime.errors import NumericalError

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
    coordinates = Inputs(Features(sp.csr_array(features.astype(np.float32))), None, settings.dtype)
    return *run_inference(coordinates, sp.csr_array(labels), settings), settings


#: Choices outside the range of single precision.
OUTSIDE = ["below-float32", "above-float32"]


@each_value(name=list(PROBLEMS), choice=list(CHOICES), inference=INFERENCES, dtype=["float32", "float64"])
def test_extreme_problems_give_finite_results(name, choice, inference, dtype):
    chosen = {} if (inference, choice) == ("online-em", "learned-precision") else CHOICES[choice]
    features, labels = PROBLEMS[name]
    dtype = "float64" if choice in OUTSIDE else dtype
    parameters, history, settings = trained(features, labels, dtype=dtype, inference=inference, **chosen)
    assert len(history) == PASSES
    numbers = [epoch["log_posterior"] for epoch in history]
    assert all(np.isfinite(value).all() for value in (*parameters.values(), numbers))
    predictor = BMLPLPredictor(settings, UNWEIGHTED, parameters, features.shape[1])
    for output in ("utility", "probability"):
        scores, std = predictor.score(Features(sp.csr_array(features.astype(np.float32))), output, with_std=True)
        assert (scores >= 0).all()
        assert (std >= 0).all()


@pytest.mark.parametrize("choice", OUTSIDE)
@pytest.mark.parametrize("inference", INFERENCES)
def test_settings_outside_the_range_of_the_dtype_are_an_error(choice, inference):
    with pytest.raises(NumericalError, match="^training diverged before the first step: "):
        trained(FEATURES, LABELS, dtype="float32", inference=inference, **CHOICES[choice])


def test_peak_memory_is_below_n_times_k():
    N = K = 10_000
    D = 50
    labels = 3
    random = np.random.default_rng(0)
    features = sp.random_array((N, D), density=0.08, rng=random, dtype=np.float32).tocsr()
    # Each positive of a point is from another third of the labels, so no point has the same label twice.
    chosen = random.integers(K // 3, size=(N, labels)) + K // 3 * np.arange(labels)
    positives = sp.csr_array((np.ones(3 * N, bool), chosen.ravel(), np.arange(0, 3 * N + 1, 3)), shape=(N, K))
    settings = BMLPLSettings(topics=5, iterations=2)
    coordinates = Inputs(Features(features), None, settings.dtype)
    # Compile first, with the same types: compilation takes memory too.
    parameters, _ = run_inference(Inputs(Features(features[:9]), None, settings.dtype), positives[:9], settings)
    list(BMLPLPredictor(settings, UNWEIGHTED, parameters, D).top(Features(features[:9]), 5))
    tracemalloc.start()
    try:
        parameters, _ = run_inference(coordinates, positives, settings)
        training_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        for scores in BMLPLPredictor(settings, UNWEIGHTED, parameters, D).top(Features(features[:2000]), 5):
            assert len(scores.labels) == 5 * (len(scores.indptr) - 1)
        prediction_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert max(training_peak, prediction_peak) < N * K / 10


@pytest.mark.parametrize("inference", INFERENCES)
def test_hidden_labels_are_treated_as_negatives(inference):
    data = small_dataset(40, 25, 7)
    chosen = {"topics": 4, "iterations": 5, "batch_size": 16}
    settings = BMLPLSettings(inference=inference, revealed=0.5, burn_in=1, thinning=2, **chosen)
    coordinates = weight_features(data.features, settings).inputs(data.features, settings.dtype)
    seen = reveal_labels(data.labels, 0.5, np.random.default_rng([0, 1]))
    assert 0.3 * data.labels.nnz < seen.nnz < 0.7 * data.labels.nnz
    before = data.labels.copy()
    result = run_inference(coordinates, data.labels, settings)
    assert (before != data.labels).nnz == 0
    assert arrays_fit(result[0], {ARRAYS: True}, {"D": 25, "K": 7, "T": 4})
    assert {value.dtype for value in result[0].values()} == {np.dtype(np.float32)}
    assert_same_result(result, run_inference(coordinates, seen, dataclasses.replace(settings, revealed=1.0)))
