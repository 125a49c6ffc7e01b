"""Training of BMLPL by every inference method with a part of the labels."""

import numpy as np
import pytest

from tests.problems import small_dataset
from tests.training.interrupting import assert_same_result
from xmlgp.bmlpl.counts import reveal_labels
from xmlgp.bmlpl.parameters import are_valid_parameters
from xmlgp.bmlpl.record import run_inference
from xmlgp.bmlpl.settings import INFERENCES, BMLPLSettings
from xmlgp.preprocess.pipeline import weight_features

N, D, K, T = 40, 25, 7, 4
DATASET = small_dataset(N, D, K)


def prepared(**chosen):
    """Return coordinates, labels and settings: the arguments of `run_inference`."""
    settings = BMLPLSettings(topics=T, iterations=5, batch_size=16, burn_in=1, thinning=2, **chosen)
    coordinates = weight_features(DATASET.features, settings).inputs(DATASET.features, settings.dtype)
    return coordinates, DATASET.labels, settings


@pytest.mark.parametrize("inference", INFERENCES)
def test_hidden_labels_are_treated_as_negatives(inference):
    coordinates, labels, settings = prepared(inference=inference, revealed=0.5)
    seen = reveal_labels(labels, 0.5, np.random.default_rng([0, 1]))
    assert 0.3 * labels.nnz < seen.nnz < 0.7 * labels.nnz
    before = labels.copy()
    found = run_inference(coordinates, labels, settings)
    assert (before != labels).nnz == 0
    assert are_valid_parameters(found[0], D, K, T)
    assert {value.dtype for value in found[0].values()} == {np.dtype(np.float32)}
    assert_same_result(found, run_inference(coordinates, seen, prepared(inference=inference)[2]))
