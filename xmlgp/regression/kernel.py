"""The squared exponential kernel with unit variance, k(x, x′) = exp(−‖x − x′‖² / 2ℓ²), of sparse weighted points.

If points have dense features e as well, the kernel is multiplied by exp(−‖e − e′‖² / 2), where e are divided by
their lengthscales beforehand.
"""

import functools
import threading

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.data.features import Features
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.runtime.progress import Progress
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = [
    "DENSE_NOISE",
    "LENGTHSCALE",
    "NOISE",
    "ROWS",
    "CrossCovariance",
    "dense_array",
    "noisy_covariance",
    "squared_norms",
]

#: ℓ, for points of unit length.
LENGTHSCALE = 0.7

#: Variance of the noise; that of the kernel is one.
NOISE = 0.5

#: The same for the regression on neighbours. From 0.05 to 0.2, held-out documents are ranked about equally well, and
#: better than with 0.5.
DENSE_NOISE = 0.1

#: Points per block of covariances with the training points.
ROWS = 128


class CrossCovariance:
    """The covariances of any points with the N points of X, N×D.

    Dense features, if there are any, are one array, N×E, in single precision. NumericalError is raised if squares of
    features overflow single precision.
    """

    def __init__(self, features: Features) -> None:
        # The entries of a feature are sorted by point.
        columns = features.sparse.T.tocsr().astype(np.float32, copy=False)
        columns.indptr = columns.indptr.astype(np.int64, copy=False)
        columns.indices = columns.indices.astype(np.int32, copy=False)
        self._by_feature = columns
        self._dense = dense_array(features)
        with np.errstate(over="ignore"):
            self._half_norms = 0.5 * squared_norms(features.sparse).astype(np.float32)
            self._dense_half_norms = _half_norms(self._dense)
        if np.isinf(self._half_norms).any() or np.isinf(self._dense_half_norms).any():
            raise NumericalError(
                "regression needs features whose squares are within single precision; "
                "try another weighting, or regression_points=0"
            )

    def fill(self, points: Features, start: int, stop: int, out: NDArray[np.float32]) -> None:
        """Fill `out` with the covariances of points[start:stop] and the first out.shape[1] points of X."""
        self.fill_exponents(points, start, stop, out)
        np.exp(out, out=out)

    def fill_exponents(self, points: Features, start: int, stop: int, out: NDArray[np.float32]) -> None:
        """Fill `out` with the logarithms of the covariances, which order points that are far away as well."""
        rows = points.sparse
        columns = self._by_feature
        # The same types of indices each time, as each choice of types would be compiled by itself.
        _fill_half_distances(
            rows.indptr[start : stop + 1].astype(np.int64),
            rows.indices,
            rows.data,
            columns.indptr,
            columns.indices,
            columns.data,
            self._half_norms,
            out,
        )
        out *= np.float32(1 / LENGTHSCALE**2)
        if self._dense.shape[1]:
            dense = dense_array(points)[start:stop]
            width = out.shape[1]
            exponents = product_by_rows(dense, self._dense[:width].T)
            exponents -= _half_norms(dense)[:, None]
            exponents -= self._dense_half_norms[:width]
            # A squared distance below zero is a rounding error.
            out += np.minimum(exponents, 0, out=exponents)

    def product(self, points: Features, weights: NDArray[np.floating], rows: int = ROWS) -> NDArray[np.float32]:
        """Return k(points, X) α, B×P, given α, N×P, in memory for `rows`×N numbers per core."""
        count = points.N
        out = np.empty((count, weights.shape[1]), np.float32)

        # The size of blocks, and so the result, does not depend on the number of cores.
        def multiply(start: int) -> None:
            stop = min(start + rows, count)
            covariance = np.empty((stop - start, len(weights)), np.float32)
            self.fill(points, start, stop, covariance)
            product_by_rows(covariance, weights, out[start:stop])

        with one_blas_thread():
            run_parallel(functools.partial(multiply, start) for start in range(0, count, rows))
        return out


def noisy_covariance(features: Features, progress: Progress) -> NDArray[np.float32]:
    """Return K_XX + noise I, N×N."""
    count = features.N
    kernel = CrossCovariance(features)
    covariance = np.empty((count, count), np.float32)
    starts = range(0, count, ROWS)
    bar_lock = threading.Lock()

    def fill(start: int) -> None:
        stop = min(start + ROWS, count)
        block = np.empty((stop - start, stop), np.float32)
        kernel.fill(features, start, stop, block)
        covariance[start:stop, :stop] = block
        covariance[:start, start:stop] = block[:, :start].T
        with bar_lock:
            bar.update()

    with progress("covariances", total=len(starts), unit=" blocks") as bar:
        # Larger tasks first, for balance.
        run_parallel(functools.partial(fill, start) for start in reversed(starts))
    covariance.flat[:: count + 1] += NOISE
    return covariance


def dense_array(features: Features) -> NDArray[np.floating]:
    """Return the dense features of scaled points, N×E; E is 0 if there are none."""
    return np.empty((features.N, 0), np.float32) if features.dense is None else features.dense


def _half_norms(array: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return ½‖e‖² of the rows."""
    half_norms: NDArray[np.floating] = 0.5 * np.einsum("ne,ne->n", array, array)
    return half_norms


def squared_norms(features: sp.csr_array) -> NDArray[np.float64]:
    """Return ‖x‖², N, in double precision, of squares in the precision of the features, N×D."""
    with np.errstate(over="ignore"):
        squares = np.square(features.data)
    squares = sp.csr_array((squares, features.indices, features.indptr), features.shape)
    norms: NDArray[np.float64] = squares.sum(axis=1, dtype=np.float64)
    return norms


@compiled
def _fill_half_distances(
    indptr: NDArray[np.integer],
    features: NDArray[np.integer],
    values: NDArray[np.floating],
    feature_indptr: NDArray[np.integer],
    training_points: NDArray[np.integer],
    training_values: NDArray[np.float32],
    half_norms: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Fill in −½‖x − x′‖² by inner products.

    The first three arrays have points x by row, the next three have X by feature; `half_norms` are ½‖x′‖² of X.
    """
    real = out.dtype.type
    width = out.shape[1]
    for i in range(len(out)):
        row = out[i]
        half = real(0)
        row[:] = 0
        for e in range(indptr[i], indptr[i + 1]):
            feature = features[e]
            value = real(values[e])
            half += real(0.5) * value * value
            for h in range(feature_indptr[feature], feature_indptr[feature + 1]):
                if training_points[h] >= width:
                    break
                row[training_points[h]] += value * training_values[h]
        for j in range(width):
            value = row[j] - half - half_norms[j]
            # A squared distance below zero is a rounding error.
            row[j] = real(0) if value > real(0) else value
