"""Weighted least squares against dense NumPy, one topic at a time, and samples against their moments."""

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from tests.grids import each_value
from tests.models.bmlpl.reference import random_quadratic, z_score
from xmlgp.linear_algebra.cholesky import try_cholesky
from xmlgp.models.bmlpl import least_squares as module
from xmlgp.models.bmlpl.least_squares import Design, cg_sample, cg_solve, cholesky_solve
from xmlgp.runtime import threads
from xmlgp.runtime.errors import NumericalError
from xmlgp.runtime.interrupts import Interrupted, defer_signals, handle_signals

SIZES = [(12, 5, 3), (1, 1, 1), (4, 9, 2)]
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])
EVERY_SIZE = pytest.mark.parametrize("size", SIZES)
SIZE_AND_TYPE = each_value(size=SIZES, dtype=[np.float32, np.float64])

#: ω and the residuals are accurate to single precision only.
OMEGA_ERROR = 2e-6


def twice_kappa(problem):
    return (problem.counts - problem.shapes).astype(problem.system.omega.dtype)


def test_design_has_rows_columns_and_squares():
    # The columns of the first row are not sorted.
    features = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3, 3])), shape=(3, 3))
    design = Design(features)
    dense = np.hstack([features.toarray(), np.ones((3, 1))])
    assert design.rows.has_sorted_indices
    np.testing.assert_array_equal(design.rows.toarray(), dense)
    np.testing.assert_array_equal(design.columns.toarray(), dense.T)
    np.testing.assert_array_equal(design.squares.toarray(), dense.T**2)


@EVERY_SIZE
def test_gradient_is_that_of_the_negative_binomial_likelihood(size):
    problem = random_quadratic(*size, seed=sum(size))

    def objective(weights):
        psi = problem.features @ weights
        # SciPy's probability is 1 − σ(ψ).
        value = stats.nbinom.logpmf(problem.counts, problem.shapes, 1 / (1 + np.exp(psi))).sum()
        return value + stats.norm.logpdf(weights, 0, problem.precisions[:, None] ** -0.5).sum()

    np.testing.assert_allclose(problem.system.log_odds, problem.log_odds, rtol=1e-12)
    gradient = problem.system.design.columns @ problem.system.residuals
    gradient -= problem.precisions[:, None] * problem.weights
    for index in np.ndindex(problem.weights.shape):
        step = np.zeros(problem.weights.shape)
        step[index] = 1e-5
        slope = (objective(problem.weights + step) - objective(problem.weights - step)) / 2e-5
        assert gradient[index] == pytest.approx(slope, rel=1e-5, abs=1e-4)


@SIZE_AND_TYPE
def test_cholesky_solution_agrees_with_numpy(size, dtype):
    problem = random_quadratic(*size, seed=sum(size), dtype=dtype)
    weights = np.full(problem.weights.shape, np.nan, dtype)
    cholesky_solve(problem.system, twice_kappa(problem), weights)
    np.testing.assert_allclose(weights, problem.solution, rtol=1e-4, atol=1e-4 if dtype == np.float32 else OMEGA_ERROR)
    if dtype == np.float64:
        cholesky_solve(random_quadratic(*size, seed=sum(size), exact=True).system, twice_kappa(problem), weights)
        np.testing.assert_allclose(weights, problem.solution, rtol=1e-9, atol=1e-11)


@EVERY_SIZE
def test_cg_steps_converge_to_the_solution(size):
    problem = random_quadratic(*size, seed=sum(size), exact=True)
    weights = problem.weights.copy()
    cg_solve(problem.system, weights, 60)
    np.testing.assert_allclose(weights, problem.solution, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("shifted", [False, True])
def test_cg_samples_have_the_moments_of_the_gaussian(shifted):
    problem = random_quadratic(6, 2, 2, exact=True)
    random = np.random.default_rng(0)
    right = problem.system.design.columns @ twice_kappa(problem) / 2 if shifted else 0
    right_before = np.copy(right)
    samples = np.array([cg_sample(problem.system, random, 30, right) for _ in range(600)])
    means = problem.solution if shifted else np.zeros((3, 2))
    for t in range(2):
        weights = samples[:, :, t]
        mean = means[:, t]
        assert (z_score(weights, mean) < 4.5).all()
        products = weights[:, :, None] * weights[:, None, :]
        assert (z_score(products, np.linalg.inv(problem.matrix(t)) + np.outer(mean, mean)) < 4.5).all()
    np.testing.assert_array_equal(right, right_before)


def test_second_signal_interrupts_between_topics(monkeypatch):
    problem = random_quadratic(12, 5, 40)
    factorised = []

    def factorise(matrix):
        factorised.append(len(matrix))
        if len(factorised) == 1:
            # Two signals of the same kind could be merged while the main thread is busy.
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(os.getpid(), number)
        return try_cholesky(matrix)

    def work():
        with handle_signals(), defer_signals():
            cholesky_solve(problem.system, twice_kappa(problem), problem.weights)

    monkeypatch.setattr(module, "try_cholesky", factorise)
    monkeypatch.setattr(module, "ELEMENTS_AT_ONCE", 1)
    with pytest.raises(Interrupted):
        work()
    assert len(factorised) <= 2 * threads.core_count()


def test_matrix_without_factor_raises_an_error_that_names_the_topic():
    problem = random_quadratic()
    problem.system.omega[3, 1] = np.nan
    with pytest.raises(NumericalError, match="topic 1 have no Cholesky factor"):
        cholesky_solve(problem.system, twice_kappa(problem), problem.weights)
