"""The blocked solution of positive definite systems against SciPy's."""

import numpy as np
import pytest
import scipy.linalg

from tests.grids import each_value, grid
from xmlgp.linear_algebra import blocked_cholesky
from xmlgp.linear_algebra.blocked_cholesky import solve_positive
from xmlgp.runtime import threads


@pytest.fixture(autouse=True)
def _single_threaded():
    """Limit BLAS to one thread, as `run_parallel` requires."""
    with threads.one_blas_thread():
        yield


@pytest.fixture(params=[1, 3])
def cores(request, monkeypatch):
    """Pretend that the machine has this many cores."""
    monkeypatch.setattr(threads, "core_count", lambda: request.param)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocked_cholesky, "BLOCK", 4)
    monkeypatch.setattr(blocked_cholesky, "COLUMNS", 2)


def problem(size, columns=3, dtype=np.float64):
    random = np.random.default_rng(size)
    root = random.normal(size=(size, size + 2))
    matrix = (root @ root.T / (size + 2) + 0.1 * np.eye(size)).astype(dtype)
    return matrix, random.normal(size=(size, columns)).astype(dtype)


def lower_only(matrix):
    """Return a copy with NaN above the diagonal, which must not be read."""
    matrix = matrix.copy()
    matrix[np.triu_indices(len(matrix), 1)] = np.nan
    return matrix


@pytest.mark.usefixtures("cores", "small_blocks")
@pytest.mark.parametrize(("size", "columns"), [(0, 0), (1, 2), (3, 1), (4, 5), (5, 3), (7, 1), (8, 2), (9, 3), (30, 5)])
def test_solution_agrees_with_scipy(size, columns):
    matrix, right = problem(size, columns)
    solution = right.copy()
    assert solve_positive(lower_only(matrix), solution)
    if size:
        expected = scipy.linalg.solve(matrix, right, assume_a="pos")
        np.testing.assert_allclose(solution, expected, rtol=1e-10, atol=1e-10)


@grid(
    size=[
        blocked_cholesky.BLOCK - 1,
        blocked_cholesky.BLOCK,
        blocked_cholesky.BLOCK + 1,
        2 * blocked_cholesky.BLOCK + 70,
    ],
    dtype=[np.float32, np.float64],
    order=["C", "F"],
)
def test_solution_with_the_real_block_size_agrees_with_scipy(size, dtype, order):
    matrix, right = problem(size, blocked_cholesky.COLUMNS + 1, dtype)
    solution = np.array(right, order=order)
    assert solve_positive(lower_only(matrix), solution)
    assert solution.dtype == dtype
    tolerance = 1e-3 if dtype == np.float32 else 1e-11
    expected = scipy.linalg.solve(matrix.astype(float), right.astype(float), assume_a="pos")
    np.testing.assert_allclose(solution, expected, rtol=tolerance, atol=tolerance)


def test_result_does_not_depend_on_the_number_of_cores(monkeypatch):
    matrix, right = problem(700, 150, np.float32)
    solutions = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(threads, "core_count", lambda cores=cores: cores)
        solutions.append(right.copy())
        solve_positive(matrix.copy(), solutions[-1])
    np.testing.assert_array_equal(solutions[0], solutions[1])
    np.testing.assert_array_equal(solutions[0], solutions[2])


@pytest.mark.usefixtures("cores", "small_blocks")
@each_value(place=[0, 3, 4, 9], invalid=[-1.0, 0.0, np.nan])
def test_matrix_without_factor_is_reported_and_right_side_kept(place, invalid):
    matrix, right = problem(10)
    matrix[place, place] = invalid
    kept = right.copy()
    assert not solve_positive(matrix, kept)
    np.testing.assert_array_equal(kept, right)
