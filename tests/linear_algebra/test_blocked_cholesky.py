"""The blocked solution of positive definite systems against SciPy's."""

import contextlib

import numpy as np
import pytest
import scipy.linalg

from tests.grids import each_value, grid
from xmlgp.linear_algebra import blocked_cholesky
from xmlgp.linear_algebra.blocked_cholesky import BlockedCholesky
from xmlgp.runtime import threads


@pytest.fixture(autouse=True)
def _single_threaded():
    """Limit BLAS to one thread, as `run_parallel` requires."""
    with threads.one_blas_thread():
        yield


@pytest.fixture(params=[1, 3])
def cores(request, monkeypatch):
    """Pretend that the machine has this many cores."""
    monkeypatch.setattr(threads, "_all_cores", lambda: request.param)


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
    BlockedCholesky(lower_only(matrix)).solve(solution)
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
    BlockedCholesky(lower_only(matrix)).solve(solution)
    assert solution.dtype == dtype
    tolerance = 1e-3 if dtype == np.float32 else 1e-11
    expected = scipy.linalg.solve(matrix.astype(float), right.astype(float), assume_a="pos")
    np.testing.assert_allclose(solution, expected, rtol=tolerance, atol=tolerance)


def solutions_of(matrix, leading, right):
    """Return the solutions of the whole system and of that of its leading part, from one factor."""
    factor = BlockedCholesky(lower_only(matrix), leading)
    whole, part = right.copy(), right[:leading].copy()
    factor.solve(whole)
    factor.solve(part)
    return whole, part


def check_solutions(matrix, leading, right, tolerance):
    exact = [array.astype(float) for array in (matrix, right)]
    whole, part = solutions_of(matrix, leading, right)
    for found, size in ((whole, len(matrix)), (part, leading)):
        expected = scipy.linalg.solve(exact[0][:size, :size], exact[1][:size], assume_a="pos")
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        assert found.dtype == right.dtype


@pytest.mark.usefixtures("cores", "small_blocks")
@pytest.mark.parametrize("size", [1, 4, 5, 8, 11])
def test_solutions_of_every_leading_part_agree_with_scipy(size):
    matrix, right = problem(size)
    # Ends of the leading part within blocks of four and between them, from one row to all.
    for leading in range(1, size + 1):
        check_solutions(matrix, leading, right, 1e-10)


@grid(
    leading=[1, blocked_cholesky.BLOCK - 1, blocked_cholesky.BLOCK, blocked_cholesky.BLOCK + 1, 500, 512, 582],
    dtype=[np.float32, np.float64],
)
def test_solutions_of_a_leading_part_with_the_real_block_size_agree_with_scipy(leading, dtype):
    matrix, right = problem(2 * blocked_cholesky.BLOCK + 70, blocked_cholesky.COLUMNS + 1, dtype)
    check_solutions(matrix, leading, right, 1e-3 if dtype == np.float32 else 1e-11)


@pytest.mark.usefixtures("small_blocks")
def test_order_of_solutions_does_not_matter():
    matrix, right = problem(11)
    whole, part = solutions_of(matrix, 6, right)
    factor, first, then = BlockedCholesky(lower_only(matrix), 6), right[:6].copy(), right.copy()
    factor.solve(first)
    factor.solve(then)
    np.testing.assert_array_equal(first, part)
    np.testing.assert_array_equal(then, whole)


@pytest.mark.usefixtures("cores", "small_blocks")
@pytest.mark.parametrize("leading", [None, 4, 7])
def test_every_block_is_reported(leading):
    counts = []

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        class Bar:
            def update(self, count=1, **facts):
                counts.append(count)

        yield Bar()
        assert sum(counts) == total

    BlockedCholesky(lower_only(problem(11)[0]), leading, progress)
    # Seven and four rows are two blocks and one.
    assert counts == [1] * 3


@pytest.mark.parametrize("leading", [None, 300])
def test_result_does_not_depend_on_the_number_of_cores(monkeypatch, leading):
    matrix, right = problem(700, 150, np.float32)
    results = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(threads, "_all_cores", lambda cores=cores: cores)
        results.append(solutions_of(matrix, leading, right))
    for result in results[1:]:
        for found, first in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(found, first)


@pytest.mark.usefixtures("cores", "small_blocks")
@each_value(place=[0, 3, 4, 9], invalid=[-1.0, 0.0, np.nan])
def test_matrix_without_factor_is_reported_with_its_block(place, invalid):
    matrix, _ = problem(10)
    matrix[place, place] = invalid
    with pytest.raises(
        np.linalg.LinAlgError, match=f"^row {place // 4 * 4} or one of the next 4 has no positive pivot$"
    ):
        BlockedCholesky(matrix)
