"""Training of GPC by every inference method: parameters, early stopping, divergence."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp

from tests.gpc.dense_gpc import random_problem
from tests.training.interrupting import assert_same_result, train_with_interruptions
from xmlgp.errors import NumericalError
from xmlgp.gpc import inference as module
from xmlgp.gpc.model import PARAMETER_NAMES, GPCPredictor
from xmlgp.gpc.record import run_inference
from xmlgp.gpc.settings import INFERENCES, GPCSettings

N, D, M = 40, 3, 8
ITERATIONS = 5

any_inference = pytest.mark.parametrize("inference", INFERENCES)


def prepared(inference, seed=0, sparse=False, **chosen):
    """Return the arguments of `run_inference`."""
    problem = random_problem(3, N, M, D, absent=0.5 * sparse)
    options = {"batch_size": 15} if inference == "svi-adadelta" else {}
    settings = GPCSettings(inference=inference, **{"iterations": ITERATIONS, "seed": seed} | options | chosen)
    return problem.inputs(sparse), sp.csr_array(problem.positive[:, None]), problem.inducing, settings


@pytest.fixture(autouse=True)
def _no_early_stopping(monkeypatch):
    """Disable early stopping, except in tests that use `early_stopping`."""
    monkeypatch.setattr(module, "TOLERANCE", -math.inf)
    monkeypatch.setattr(module, "PATIENCE", 10**6)


@pytest.fixture
def early_stopping(monkeypatch):
    """Stop training when its gain is small."""
    monkeypatch.setattr(module, "TOLERANCE", 1e-3)
    monkeypatch.setattr(module, "PATIENCE", 2)


@any_inference
def test_parameters_are_valid_and_arguments_stay(inference):
    problem = prepared(inference, sparse=inference in ("vi-jj", "svi-adadelta"))
    before = [problem[0].all().copy(), problem[1].copy(), problem[2].copy()]
    parameters, history = run_inference(*problem)
    assert len(history) == ITERATIONS
    assert all(epoch["bound"] < 0 for epoch in history)
    assert list(parameters) == PARAMETER_NAMES
    assert GPCPredictor.parameters_fit(problem[3], parameters, D, 1)
    np.testing.assert_array_equal(parameters["inducing"], problem[2])
    # Training does not change its arguments.
    for array, copy in zip((problem[0].all(), *problem[1:3]), before, strict=True):
        assert not (array != copy).sum()
    assert not np.triu(parameters["posterior.factor"][0], 1).any()


@pytest.mark.usefixtures("early_stopping")
def test_resuming_with_early_stopping_gives_the_same_result(tmp_path):
    problem = prepared("vi-taylor", iterations=60)
    expected = run_inference(*problem)
    assert len(expected[1]) < 60
    assert_same_result(
        train_with_interruptions(run_inference, problem, tmp_path / "checkpoint", itertools.repeat(1))[0], expected
    )


@any_inference
def test_initial_lengthscale_out_of_range_raises(inference):
    coordinates, labels, inducing, settings = prepared(inference)
    with pytest.raises(NumericalError, match="^training diverged before the first step: the lengthscale is 1"):
        run_inference(coordinates, labels, 1e100 * inducing, settings)


def test_divergence_with_a_high_learning_rate_raises_an_error_with_advice():
    with pytest.raises(NumericalError, match="; try a lower learning_rate$"):
        run_inference(*prepared("svi-adadelta", learning_rate=1e300))
