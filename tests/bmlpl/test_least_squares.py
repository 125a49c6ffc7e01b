"""Weighted least squares for all topics at once against dense NumPy, one topic at a time, and against moments."""

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from tests.bmlpl.reference import random_quadratic, z_score
from tests.problems import small_features
from xmlgp.bmlpl import least_squares as module
from xmlgp.bmlpl.least_squares import (
    Design,
    LeastSquares,
    cg_sample,
    cg_solve,
    cholesky_solve,
    log_prior,
    normal_matrix,
    polya_gamma_means,
    with_intercept,
)
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra.lapack import factorise_lower
from xmlgp.runtime import threads
from xmlgp.runtime.interrupts import Interrupted, defer_signals, handle_signals

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SIZES = pytest.mark.parametrize("size", [(12, 5, 3), (1, 1, 1), (4, 9, 2), (30, 1, 4)])

#: What ω and the residuals have of double precision: as many digits as single precision.
DIGITS = 2e-6


def twice_kappa(problem):
    return (problem.counts - problem.shapes).astype(problem.system.omega.dtype)


def test_an_intercept_is_a_last_column_of_ones():
    features = small_features(6, 5, seed=1)[:, [3, 1, 0, 4, 2]]
    dense = features.toarray()
    dense[2] = 0
    for matrix in (features, sp.csr_array(dense), sp.csr_array((3, 4), dtype=np.float32)):
        found = with_intercept(matrix)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found.toarray(), np.hstack([matrix.toarray(), np.ones((matrix.shape[0], 1))]))


def test_a_design_is_in_both_orders():
    # Columns of a row in an order of their own.
    features = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3, 3])), shape=(3, 3))
    design = Design(features)
    dense = np.hstack([features.toarray(), np.ones((3, 1))])
    assert design.rows.has_sorted_indices
    np.testing.assert_array_equal(design.rows.toarray(), dense)
    np.testing.assert_array_equal(design.columns.toarray(), dense.T)
    np.testing.assert_array_equal(design.squares.toarray(), dense.T**2)


@BOTH
@SIZES
def test_responses_are_those_of_the_log_odds(size, dtype):
    problem = random_quadratic(*size, seed=sum(size), dtype=dtype)
    arrays = (array.astype(dtype) for array in (problem.weights, problem.counts, problem.shapes))
    log_odds, omega, residuals = (np.empty(problem.counts.shape, dtype) for _ in range(3))
    polya_gamma_means(problem.system.design.rows, *arrays, log_odds, omega, residuals)
    np.testing.assert_allclose(log_odds, problem.log_odds, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(omega, problem.omega, rtol=1e-5)
    expected = (problem.counts - problem.shapes) / 2 - problem.omega * problem.log_odds
    np.testing.assert_allclose(residuals, expected, rtol=1e-5, atol=1e-5)


@SIZES
def test_the_quadratic_function_has_the_gradient_of_the_likelihood(size):
    problem = random_quadratic(*size, seed=sum(size))

    def objective(weights):
        psi = problem.features @ weights
        # SciPy's probability is that of a failure.
        value = stats.nbinom.logpmf(problem.counts, problem.shapes, 1 / (1 + np.exp(psi))).sum()
        return value + stats.norm.logpdf(weights, 0, problem.precisions[:, None] ** -0.5).sum()

    np.testing.assert_allclose(problem.system.log_odds, problem.log_odds, rtol=1e-12)
    gradient = problem.system.design.columns @ problem.system.residuals
    gradient -= problem.precisions[:, None] * problem.weights
    for place in np.ndindex(problem.weights.shape):
        step = np.zeros(problem.weights.shape)
        step[place] = 1e-5
        slope = (objective(problem.weights + step) - objective(problem.weights - step)) / 2e-5
        assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-4)


@BOTH
@SIZES
def test_normal_matrices_are_dense_products(size, dtype):
    problem = random_quadratic(*size, seed=sum(size), dtype=dtype)
    for t in range(size[2]):
        found = normal_matrix(problem.system.design, problem.system.omega[:, t], problem.system.precisions)
        assert found.dtype == np.float64
        np.testing.assert_allclose(np.tril(found), np.tril(problem.matrix(t)), rtol=1e-5, atol=1e-6)
        assert not np.triu(found, 1).any()


@BOTH
@SIZES
def test_the_exact_solution(size, dtype):
    problem = random_quadratic(*size, seed=sum(size), dtype=dtype)
    weights = np.full(problem.weights.shape, np.nan, dtype)
    cholesky_solve(problem.system, twice_kappa(problem), weights)
    np.testing.assert_allclose(weights, problem.solution, rtol=1e-4, atol=1e-4 if dtype == np.float32 else DIGITS)
    if dtype == np.float64:
        cholesky_solve(random_quadratic(*size, seed=sum(size), exact=True).system, twice_kappa(problem), weights)
        np.testing.assert_allclose(weights, problem.solution, rtol=1e-9, atol=1e-11)


@SIZES
def test_many_steps_are_the_exact_solution(size):
    problem = random_quadratic(*size, seed=sum(size), exact=True)
    weights = problem.weights.copy()
    cg_solve(problem.system, weights, 60)
    np.testing.assert_allclose(weights, problem.solution, rtol=1e-8, atol=1e-9)


@BOTH
@SIZES
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_every_step_raises_the_function_and_log_odds_go_along(size, steps, dtype):
    problem = random_quadratic(*size, seed=sum(size), dtype=dtype)
    weights, best = problem.weights.astype(dtype), problem.value(problem.solution)
    value = problem.value(weights.astype(float))
    cg_solve(problem.system, weights, steps)
    raised = problem.value(weights.astype(float))
    assert (raised > value).all()
    np.testing.assert_allclose(
        problem.system.log_odds, problem.features @ weights, atol=1e-4 if dtype == np.float32 else 1e-12
    )
    problem.system.set_log_odds(weights)
    np.testing.assert_allclose(problem.system.log_odds, problem.features @ weights, atol=1e-4)
    # More steps come nearer.
    weights = problem.weights.astype(dtype)
    cg_solve(random_quadratic(*size, seed=sum(size), dtype=dtype).system, weights, steps + 1)
    slack = 1e-5 if dtype == np.float32 else 1e-9
    assert (problem.value(weights.astype(float)) >= raised - slack * (1 + np.abs(best))).all()


def test_one_step_is_along_the_preconditioned_gradient_to_where_it_ends():
    problem = random_quadratic(exact=True)
    weights = problem.weights.copy()
    cg_solve(problem.system, weights, 1)
    for t in range(3):
        matrix = problem.matrix(t)
        gradient = matrix @ (problem.solution - problem.weights)[:, t]
        direction = gradient / np.diag(matrix)
        length = (gradient @ direction) / (direction @ matrix @ direction)
        np.testing.assert_allclose(weights[:, t], problem.weights[:, t] + length * direction, rtol=1e-9)


def test_topics_do_not_depend_on_each_other():
    problem = random_quadratic(exact=True)
    weights = problem.weights.copy()
    cg_solve(problem.system, weights, 4)
    problem = random_quadratic(exact=True)
    alone, system = problem.weights[:, 1:2].copy(), LeastSquares(problem.system.design, 1, np.float64)
    system.precisions = problem.precisions
    for name in ("log_odds", "omega", "residuals"):
        getattr(system, name)[:] = getattr(problem.system, name)[:, 1:2]
    cg_solve(system, alone, 4)
    np.testing.assert_allclose(alone, weights[:, 1:2], rtol=1e-9)


DRAWS = 4000


def moments_agree(draws, means, covariances):
    """Compare means, and all products of two, of draws of W, DRAWS×(D+1)×T."""
    for t, covariance in enumerate(covariances):
        own = draws[:, :, t]
        assert (z_score(own, means[:, t]) < 4.5).all()
        products = own[:, :, None] * own[:, None, :]
        assert (z_score(products, covariance + np.outer(means[:, t], means[:, t])) < 4.5).all()


@pytest.mark.parametrize("shifted", [False, True])
def test_spread_draws_from_the_gaussian(shifted):
    problem, random = random_quadratic(6, 2, 2, exact=True), np.random.default_rng(0)
    right = problem.system.design.columns @ twice_kappa(problem) / 2 if shifted else 0
    given = np.copy(right)
    draws = np.array([cg_sample(problem.system, random, 30, right) for _ in range(DRAWS)])
    covariances = [np.linalg.inv(problem.matrix(t)) for t in range(2)]
    moments_agree(draws, problem.solution if shifted else np.zeros((3, 2)), covariances)
    np.testing.assert_array_equal(right, given)


def test_exact_draws_are_from_the_gaussian():
    problem, random = random_quadratic(6, 2, 2, exact=True), np.random.default_rng(1)
    draws = np.empty((DRAWS, 3, 2))
    for draw in draws:
        cholesky_solve(problem.system, twice_kappa(problem), draw, random)
    moments_agree(draws, problem.solution, [np.linalg.inv(problem.matrix(t)) for t in range(2)])


def test_draws_of_single_precision_are_of_the_same_spread():
    problem = random_quadratic(6, 2, 2, dtype=np.float32)
    one = cg_sample(problem.system, np.random.default_rng(0), 30)
    assert one.dtype == np.float32
    assert np.isfinite(one).all()
    # Where there is nothing but the prior, a draw is that of the prior.
    problem.system.omega[:] = 0
    random = np.random.default_rng(2)
    draws = np.array([cg_sample(problem.system, random, 5) for _ in range(2000)])
    assert (z_score(draws**2, 1 / problem.precisions[:, None]) < 4.5).all()


def test_a_second_signal_does_not_wait_for_all_topics(monkeypatch):
    problem, factorised = random_quadratic(12, 5, 40), []

    def factorise(matrix):
        factorised.append(len(matrix))
        if len(factorised) == 1:
            # Two alike would count as one where the main thread is busy.
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(os.getpid(), number)
        return factorise_lower(matrix)

    def work():
        with handle_signals(), defer_signals():
            cholesky_solve(problem.system, twice_kappa(problem), problem.weights)

    monkeypatch.setattr(module, "factorise_lower", factorise)
    monkeypatch.setattr(module, "TOGETHER", 1)
    with pytest.raises(Interrupted):
        work()
    assert len(factorised) <= 2 * threads.core_count()


def test_a_matrix_without_factor_is_told():
    problem = random_quadratic()
    problem.system.omega[3, 1] = np.nan
    with pytest.raises(NumericalError, match="topic 1 have no Cholesky factor"):
        cholesky_solve(problem.system, twice_kappa(problem), problem.weights)


@BOTH
def test_the_prior_is_that_of_gaussian_weights(dtype):
    random = np.random.default_rng(0)
    weights, precisions = random.normal(size=(2, 700, 3)), random.gamma(1.0, size=(2, 700))

    def density(weights, precisions):
        return stats.norm.logpdf(weights, 0, precisions[:, None] ** -0.5).sum()

    one, other = (
        log_prior(weights[i].astype(dtype), precisions[i].astype(dtype)) - density(weights[i], precisions[i])
        for i in range(2)
    )
    assert one == pytest.approx(other, rel=1e-5 if dtype == np.float32 else 1e-10)


def test_parts_of_threads_change_nothing(monkeypatch):
    whole, parts = (random_quadratic(300, 7, 3) for _ in range(2))
    cg_solve(whole.system, whole.weights, 3)
    monkeypatch.setattr(module, "GRAIN", 1)
    monkeypatch.setattr(module.sparse, "GRAIN", 1)
    monkeypatch.setattr(threads, "core_count", lambda: 4)
    cg_solve(parts.system, parts.weights, 3)
    np.testing.assert_array_equal(parts.weights, whole.weights)
    np.testing.assert_array_equal(parts.system.log_odds, whole.system.log_odds)
