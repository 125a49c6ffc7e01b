"""Pairs of points and labels, and the sum of the terms of utilities."""

import numpy as np
import scipy.sparse as sp

from xmlgp.prediction.terms import Pairs, Prepared, Utilities

B, K = 7, 9
BIAS = np.arange(K, dtype=np.float32)


class Constant:
    """A term that doubles the utilities so far, and adds a number."""

    def block(self, number, labels, mean, variance):
        mean *= 2
        mean += number
        if variance is not None:
            variance += number

    def pairs(self, number, pairs, mean, variance):
        self.block(number, None, mean, variance)


def test_elements_of_pairs_are_those_of_the_matrix():
    random = np.random.default_rng(0)
    dense = random.integers(1, 9, (B, K)) * (random.random((B, K)) < 0.4)
    matrix = sp.csr_array(dense)
    matrix.sort_indices()
    # In any order, of the third point none.
    chosen = [random.permutation(K)[: i % 5] if i != 2 else [] for i in range(B)]
    indptr = np.concatenate([[0], np.cumsum([len(labels) for labels in chosen])])
    pairs = Pairs(indptr, np.concatenate(chosen).astype(np.int32))
    np.testing.assert_array_equal(pairs.elements(matrix), dense[pairs.repeat(np.arange(B)), pairs.labels])


def test_terms_change_blocks_and_tables_of_labels_in_turn():
    utilities = Utilities(BIAS, [Constant(), Constant()])
    points = Prepared(B, [3, 1])
    expected = np.tile(4 * BIAS + 7, (B, 1))
    table = np.random.default_rng(1).integers(0, K, (B, 4))
    for labels, wanted in (slice(2, 6), expected[:, 2:6]), (table, np.take_along_axis(expected, table, axis=1)):
        mean, variance = utilities.moments(points, labels)
        np.testing.assert_array_equal(mean, wanted)
        np.testing.assert_array_equal(variance, np.full(wanted.shape, 4))
        np.testing.assert_array_equal(utilities.means(points, labels), wanted)
    np.testing.assert_array_equal(BIAS, np.arange(K))
