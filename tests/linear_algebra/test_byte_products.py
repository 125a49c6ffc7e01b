"""Products of 8-bit integers against those of large ones, with the processor's instruction and without."""

import numba
import numpy as np
import pytest

from xmlgp.linear_algebra import byte_products as module
from xmlgp.linear_algebra.byte_products import GROUP, HIGHEST, OFFSET, POINTS, QUAD, place_in_row


@pytest.fixture(params=[True, False])
def compiled(request, monkeypatch):
    """Compile a function again, with the instruction if the processor has it, or without."""
    if not request.param:
        monkeypatch.setattr(module, "has_instruction", lambda: False)
    return lambda function: numba.njit(function.py_func)


def integers(random, *shape):
    return random.integers(-HIGHEST, HIGHEST + 1, shape)


def test_products_of_a_tile_are_exact(compiled):
    random = np.random.default_rng(0)
    rows, points = integers(random, GROUP, 3 * QUAD), integers(random, POINTS, 3 * QUAD)
    # The largest sums there are.
    rows[:2], points[0] = [[HIGHEST], [-HIGHEST]], HIGHEST
    tile = (rows + OFFSET).astype(np.uint8).reshape(GROUP, 3, QUAD).transpose(1, 0, 2).copy()
    sums = np.arange(POINTS * 2 * GROUP, dtype=np.int32).reshape(POINTS, 2 * GROUP)
    expected = sums.copy()
    expected[:, GROUP:] += points @ (rows + OFFSET).T
    compiled(module.add_byte_tile)(tile, points.astype(np.int8), sums[:, GROUP:])
    np.testing.assert_array_equal(sums, expected)


def test_products_of_rows_are_exact(compiled):
    random = np.random.default_rng(0)
    rows, values = integers(random, 5, 2 * GROUP), integers(random, 2 * QUAD)
    numbers = random.integers(0, 5, 2 * QUAD)
    stored = np.zeros(rows.shape, np.uint8)
    for j in range(GROUP):
        stored[:, GROUP + place_in_row(j)] = rows[:, GROUP + j] + OFFSET
    sums = np.arange(GROUP, dtype=np.int32)
    expected = sums + values @ (rows[numbers, GROUP:] + OFFSET)
    compiled(module.add_byte_rows)(stored, GROUP, numbers.astype(np.int32), values.astype(np.int8), sums)
    np.testing.assert_array_equal(sums, expected)
