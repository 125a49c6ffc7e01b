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
    exact = (queries.astype(float) @ rows.astype(float).T).toarray()
    shared = (abs(queries).sign() @ abs(rows).sign().T).toarray() > 0
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
        found, products = nearest(build_index(rows), queries, count)
    assert_nearest(found, products, rows, queries, count)


def drawn_pattern(random, words, counts):
    """Return rows of unit length with so many words each, whose values are equal."""
    rows = np.zeros((len(counts), words), np.float32)
    for row, count in zip(rows, counts, strict=True):
        row[random.choice(words, count, False)] = 1 / np.sqrt(count)
    return sp.csr_array(rows)


@pytest.mark.parametrize("frequent", [False, True])
def test_rounding_errors_of_equal_values_do_not_hide_rows(frequent):
    random = np.random.default_rng(0)
    # The products of 966 words are rounded up, those of 968, which are nearer, down.
    near = drawn_pattern(random, 1000, [966] * 40 + [968] * 5)
    others = sp.csr_array((20 if frequent else 600, 1000), dtype=np.float32)
    rows = sp.csr_array(sp.vstack([near, others, drawn_pattern(random, 1000, random.integers(400, 900, 20))]))
    queries = sp.csr_array(sp.vstack([drawn_pattern(random, 1000, [1000]), rows[-20:]]))
    index = build_index(rows)
    assert (index.column_of >= 0).all() == frequent
    found, products = nearest(index, queries, 5)
    assert_nearest(found, products, rows, queries, 5)


def test_equal_rows_come_by_number():
    rows = sp.csr_array(np.tile(np.array([[0.6, 0.8, 0]], np.float32), (50, 1)))
    found, _ = nearest(build_index(rows), sp.csr_array(np.array([[1, 0, 1]], np.float32)), 7)
    np.testing.assert_array_equal(found, [np.arange(7)])


def test_answers_depend_neither_on_threads_nor_on_other_queries():
    random = np.random.default_rng(0)
    rows, queries = (drawn_rows(random, size, 300, 20) for size in (400, 3 * search.QUERIES + 5))
    index = build_index(rows)
    answers = []
    for cores in (1, 2):
        with limit_threads(cores):
            answers.append(nearest(index, queries, 10))
    for chosen in (slice(7, 8), slice(60, 75)):
        part = nearest(index, queries[chosen], 10)
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


@pytest.mark.parametrize("sign", [1, -1])
def test_rows_of_several_blocks_and_long_queries_are_compared(sign):
    random = np.random.default_rng(0)
    N, D, words = 2 * search.BLOCK + 1000, 3000, 6
    drawn = random.power(0.3, (N, words)) * D
    # Without negative values, light words are left out.
    values = random.choice([1, 1, 2, 3 * sign], (N, words)) / 10
    rows = sp.csr_array((values.ravel(), drawn.astype(int).ravel(), np.arange(0, N * words + 1, words)), (N, D))
    rows.sum_duplicates()
    rows = rows.astype(np.float32)
    long = sp.csr_array(random.random((3, D)) * (random.random((3, D)) < [[0.02], [0.3], [1]]), dtype=np.float32)
    queries = sp.vstack([rows[[0, search.BLOCK - 1, search.BLOCK, N - 1]], long], format="csr")
    index = build_index(rows)
    assert 0 < len(index.columns) < D
    found, products = nearest(index, queries, 40)
    assert_nearest(found, products, rows, queries, 40)


def test_index_takes_less_memory_than_the_rows():
    rows = drawn_rows(np.random.default_rng(0), 3000, 300, 20)
    index = build_index(rows)
    assert sum(array.nbytes for array in index[1:]) < rows.data.nbytes + rows.indices.nbytes
