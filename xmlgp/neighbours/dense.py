"""Search for the nearest training points of points that have words and dense features, such as embeddings."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import array_blocks
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.neighbours.regression import Kernel, NearestPoints
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = ["StandardisedDense", "DenseSearch", "standardise"]

#: The largest number of covariances that a core computes at once, which limits its memory.
MAX_COVARIANCES = 1 << 22

#: The largest number of points whose covariances with the training points a core computes at once.
MAX_ROWS = 64

#: The divisor of columns that are constant over the training points; the quotient is too small to have an effect.
CONSTANT_WIDTH = 1e30


class StandardisedDense(NamedTuple):
    """Standardised dense features of the training points.

    `values` are (e − `center`)/`width`, N×E. `center` and `width` are the mean and the divisor of each column, E.
    """

    values: NDArray[np.floating]
    center: NDArray[np.float64]
    width: NDArray[np.float64]

    def standardised(self, dense: NDArray[Any], dtype: type[np.floating] = np.float32) -> NDArray[np.floating]:
        """Return dense features of other points, B×E, standardised the same way and clipped to the range of `dtype`."""
        result: NDArray[np.floating] = np.empty(dense.shape, dtype)
        limit = float(np.finfo(dtype).max)
        for rows in array_blocks(dense):
            values = (dense[rows] - self.center) / self.width
            result[rows] = np.clip(values, -limit, limit)
        return result

    def extended(self, dense: NDArray[Any], rows: NDArray[np.integer]) -> StandardisedDense:
        """Return the features of `rows` of these training points and others after them, given as read, B×E."""
        return self._replace(values=np.concatenate([self.values, self.standardised(dense, np.float16)])[rows])


def standardise(dense: NDArray[Any]) -> StandardisedDense:
    """Return the standardised dense features of training points, N×E, in half precision.

    Each column is divided by √E times its standard deviation, so the mean of ½‖e − e′‖² over pairs of points is one,
    and every column contributes the same.
    """
    # Sums of deviations from the first point, so that features like 1.6e9 ± 1 keep their precision.
    start = dense[0].astype(np.float64)
    sums = np.zeros((2, dense.shape[1]))
    for rows in array_blocks(dense):
        deviations = dense[rows] - start
        sums += deviations.sum(axis=0), np.square(deviations).sum(axis=0)
    mean, square = sums / len(dense)
    variance = np.maximum(square - np.square(mean), 0)
    width = np.where(variance > 0, np.sqrt(variance * dense.shape[1]), CONSTANT_WIDTH)
    features = StandardisedDense(np.empty((0, dense.shape[1]), np.float16), start + mean, width)
    return features._replace(values=features.standardised(dense, np.float16))


class DenseSearch:
    """An exhaustive search of the training points, given their words, scaled to unit length, and dense features."""

    def __init__(self, rows: csr_array, dense: StandardisedDense) -> None:
        self._rows = rows
        self._dense = dense
        #: The standardised dense features of the training points, N×E, in single precision.
        self.values = dense.values.astype(np.float32)
        self._half_norms = 0.5 * np.einsum("ne,ne->n", self.values, self.values)

    def search(self, words: csr_array, dense: NDArray[Any], count: int, kernel: Kernel) -> NearestPoints:
        """Return the `count` training points of largest covariance with each of B points.

        `words` are scaled to unit length, B×D; `dense` features are as read, B×E.
        """
        N = len(self.values)
        count = min(count, N)
        standardised = self._dense.standardised(dense)
        step = max(1, min(MAX_ROWS, MAX_COVARIANCES // max(1, *self._rows.shape)))
        # The size of blocks, and so the result, does not depend on the number of cores.
        with one_blas_thread():
            blocks = run_parallel(
                functools.partial(self._search, words[rows], standardised[rows], count, kernel)
                for rows in row_blocks(len(standardised), step) or [slice(0)]
            )
        return NearestPoints(*map(np.concatenate, zip(*blocks, strict=True)))

    def _search(self, words: csr_array, dense: NDArray[np.floating], count: int, kernel: Kernel) -> NearestPoints:
        """Return the `count` nearest training points of a block of points, given standardised dense features."""
        products = np.ascontiguousarray(sparse.product(self._rows, words.T.toarray(order="C")).T)
        # −½‖e − e′‖² = eᵀe′ − ½‖e′‖² − ½‖e‖², in place; a value above zero is a rounding error.
        half_distances = product_by_rows(dense, self.values.T)
        half_distances -= self._half_norms
        half_distances -= 0.5 * np.einsum("be,be->b", dense, dense)[:, None]
        np.minimum(half_distances, 0, out=half_distances)
        half_distances *= -1
        # `exponents` does not use the rows.
        no_rows = np.broadcast_to(np.int32(0), products.shape)
        has_words = np.diff(words.indptr) > 0
        # Exponents are the logarithms of covariances, so both have the same order.
        exponents = NearestPoints(no_rows, products, has_words, half_distances).exponents(kernel)
        nearest = np.argpartition(-exponents, count - 1, axis=1)[:, :count].astype(np.int32)
        # Equal points stay in the order of their rows.
        nearest.sort(axis=1)
        order = np.argsort(-np.take_along_axis(exponents, nearest, axis=1), axis=1, kind="stable")
        nearest = np.take_along_axis(nearest, order, axis=1)
        products, half_distances = (np.take_along_axis(array, nearest, axis=1) for array in (products, half_distances))
        return NearestPoints(nearest, products, has_words, half_distances)
