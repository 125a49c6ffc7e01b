"""The search for nearest rows against SciPy's product and NumPy's sorting."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.grids import grid
from xmlgp.neighbours import search
from xmlgp.neighbours.search import build_index, nearest
from xmlgp.runtime.threads import limit_threads


def drawn_rows(random, count, words, length, negative=False):
    """Return rows of unit length with words of power-law frequencies, some of them empty and some equal."""
    frequency = 1 / np.arange(1, words + 1)
    rows = np.zeros((count, words), np.float32)
    for row in rows:
        chosen = random.choice(words, random.integers(0, length + 1), False, frequency / frequency.sum())
        row[chosen] = random.integers(1, 4, len(chosen)) * (random.choice([-1, 1], len(chosen)) if negative else 1)
    rows[count // 2 :: 3] = rows[: len(rows[count // 2 :: 3])]
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return sp.csr_array(rows.astype(np.float32))


def assert_nearest(found, products, rows, queries, count):
    """Check rows and products against all products in double precision."""
    exact = queries.toarray().astype(float) @ rows.toarray().T.astype(float)
    shared = abs(queries).sign().toarray() @ abs(rows).sign().toarray().T > 0
    assert found.dtype == np.int32
    assert products.dtype == np.float32
    assert found.shape == products.shape == (queries.shape[0], count)
    for b in range(queries.shape[0]):
        size = min(count, shared[b].sum())
        assert (found[b, size:] == -1).all()
        assert (products[b, size:] == 0).all()
        ours = found[b, :size]
        assert len(set(ours)) == size
        assert shared[b, ours].all()
        np.testing.assert_allclose(products[b, :size], exact[b, ours], atol=2e-6)
        np.testing.assert_allclose(products[b, :size], -np.sort(-exact[b, shared[b]])[:size], atol=2e-6)
        # Ties by row number.
        assert (np.lexsort((ours, -products[b, :size])) == np.arange(size)).all()


@grid(count=[1, 5, 300], negative=[False, True], cores=[1, 2])
def test_nearest_rows_are_those_of_largest_product(count, negative, cores):
    random = np.random.default_rng(count)
    rows, queries = (drawn_rows(random, size, 60, 8, negative) for size in (200, 150))
    with limit_threads(cores):
        found, products = nearest(build_index(rows), queries, count, exact=True)
    assert_nearest(found, products, rows, queries, count)


def test_equal_rows_come_by_number():
    rows = sp.csr_array(np.tile(np.array([[0.6, 0.8, 0]], np.float32), (50, 1)))
    found, _ = nearest(build_index(rows), sp.csr_array(np.array([[1, 0, 1]], np.float32)), 7)
    np.testing.assert_array_equal(found, [np.arange(7)])


@pytest.mark.parametrize("exact", [False, True])
def test_answers_depend_neither_on_threads_nor_on_other_queries(exact):
    random = np.random.default_rng(0)
    rows, queries = (drawn_rows(random, size, 300, 20) for size in (400, 3 * search.BLOCK + 5))
    index = build_index(rows)
    answers = []
    for cores in (1, 2):
        with limit_threads(cores):
            answers.append(nearest(index, queries, 10, exact))
    for chosen in (slice(7, 8), slice(60, 75)):
        part = nearest(index, queries[chosen], 10, exact)
        for ours, one, two in zip(part, *answers, strict=True):
            np.testing.assert_array_equal(one, two)
            np.testing.assert_array_equal(ours, one[chosen])


@pytest.mark.parametrize("shape", [(0, 5), (4, 5)])
def test_nothing_is_found_in_no_rows_and_for_no_words(shape):
    index = build_index(sp.csr_array(shape, dtype=np.float32))
    for queries in (sp.csr_array(np.eye(2, 5, dtype=np.float32)), sp.csr_array((0, 5), dtype=np.float32)):
        found, products = nearest(index, queries, 3)
        np.testing.assert_array_equal(found, np.full((queries.shape[0], 3), -1))
        np.testing.assert_array_equal(products, np.zeros((queries.shape[0], 3)))
