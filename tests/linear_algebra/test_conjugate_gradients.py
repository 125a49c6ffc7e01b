"""Block conjugate gradients against dense solutions of NumPy."""

import contextlib

import numpy as np
import pytest

from tests.grids import each_value
from xmlgp.linear_algebra import conjugate_gradients
from xmlgp.linear_algebra.conjugate_gradients import Solution, solve
from xmlgp.runtime import threads


def problem(size, columns=5, dtype=np.float64, smallest=0.5):
    """Return a positive definite matrix with a few large eigenvalues, and right-hand sides."""
    random = np.random.default_rng(size)
    points = random.normal(size=(size, 3))
    matrix = np.exp(-0.5 * np.square(points[:, None] - points).sum(axis=2)) + smallest * np.eye(size)
    return matrix.astype(dtype), random.normal(size=(size, columns)).astype(dtype)


def residual(matrix, right, solution):
    """Return the norm of the residual relative to that of the right-hand sides, after a check of the one returned."""
    atol = 1e-5 * np.linalg.norm(right)
    np.testing.assert_allclose(solution.residual, right - matrix @ solution.values, atol=atol)
    return np.linalg.norm(right - matrix @ solution.values) / np.linalg.norm(right)


@each_value(
    size=[1, 2, 3, 10, 127, 300],
    columns=[1, 5, 40],
    landmarks=[1, 20, 500],
    dtype=[np.float32, np.float64],
    tolerance=[1e-3, 1e-5, 0.3],
    cores=[1, 3],
)
def test_solutions_have_the_residual_that_is_allowed(monkeypatch, size, columns, landmarks, dtype, tolerance, cores):
    monkeypatch.setattr(threads, "_all_cores", lambda: cores)
    monkeypatch.setattr(conjugate_gradients, "LANDMARKS", landmarks)
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", tolerance)
    matrix, right = problem(size, columns, dtype)
    copies = matrix.copy(), right.copy()
    result = solve(matrix, right)
    assert result.values.dtype == dtype
    assert residual(matrix, right, result) <= 1.05 * tolerance
    np.testing.assert_array_equal(matrix, copies[0])
    np.testing.assert_array_equal(right, copies[1])


def test_solutions_agree_with_a_dense_solver(monkeypatch):
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-12)
    matrix, right = problem(200)
    np.testing.assert_allclose(solve(matrix, right).values, np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_right_hand_sides_may_depend_on_each_other_or_be_zero(monkeypatch, dtype):
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-5)
    matrix, right = problem(120, 3, dtype)
    right = np.hstack([right, right[:, :1] * 2, right @ np.ones((3, 1), dtype), np.zeros((120, 2), dtype)])
    result = solve(matrix, right)
    assert residual(matrix, right, result) <= 1.05e-5
    assert np.abs(result.values[:, -2:]).max() < 1e-5
    np.testing.assert_array_equal(solve(matrix, np.zeros((120, 4), dtype)).values, np.zeros((120, 4)))


def iterations(matrix, right, start=None):
    """Return the number of iterations, which progress reports completely."""
    parts = []

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        class Bar:
            def update(self, part=1, **facts):
                parts.append(part)

        yield Bar()
        assert sum(parts) == pytest.approx(total)

    solve(matrix, right, start, progress)
    return len(parts)


def test_a_common_krylov_space_and_landmarks_save_iterations(monkeypatch):
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-3)
    monkeypatch.setattr(conjugate_gradients, "ITERATIONS", 500)
    matrix, right = problem(600, 30, smallest=0.1)
    alone = iterations(matrix, right[:, :1])
    assert iterations(matrix, right) < alone / 2
    monkeypatch.setattr(conjugate_gradients, "LANDMARKS", 1)
    assert alone < iterations(matrix, right[:, :1]) / 2


def test_iterations_begin_at_the_start(monkeypatch):
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-3)
    matrix, right = problem(300)
    exact = np.linalg.solve(matrix, right)
    values = exact * (1 + 1e-2 * np.random.default_rng(0).normal(size=exact.shape))
    start = Solution(values, right - matrix @ values)
    copy = values.copy()
    assert 0 < iterations(matrix, right, start) < iterations(matrix, right)
    assert residual(matrix, right, solve(matrix, right, start)) <= 1.05e-3
    np.testing.assert_array_equal(values, copy)
    unchanged = solve(matrix, right, Solution(exact, right - matrix @ exact))
    np.testing.assert_array_equal(unchanged.values, exact)


def test_a_solution_is_the_start_for_more_points():
    matrix, right = problem(300)
    first = solve(matrix[:200, :200], right[:200])
    longer = first.extended(matrix, right)
    np.testing.assert_array_equal(longer.values[200:], 0)
    residual(matrix, right, longer)


def test_result_does_not_depend_on_the_number_of_cores(monkeypatch):
    matrix, right = problem(700, 150, np.float32)
    results = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(threads, "_all_cores", lambda cores=cores: cores)
        results.append(solve(matrix, right).values)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@each_value(place=[0, 3, 59], invalid=[np.nan, np.inf, -1e6])
def test_a_matrix_that_is_not_finite_or_positive_definite_raises_an_error(place, invalid):
    matrix, right = problem(60)
    matrix[place, place] = invalid
    with np.errstate(all="ignore"), pytest.raises(np.linalg.LinAlgError, match="not (positive definite|finite)"):
        solve(matrix, right)


def test_a_solution_that_is_not_reached_raises_an_error(monkeypatch):
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-6)
    monkeypatch.setattr(conjugate_gradients, "ITERATIONS", 2)
    with pytest.raises(np.linalg.LinAlgError, match="^the residual is .* times too large after 2 iterations$"):
        solve(*problem(300, 1))
