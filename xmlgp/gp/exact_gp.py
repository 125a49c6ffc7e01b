"""Gaussian process regression on the labels, with every training point an inducing input.

Labels are taken for real numbers with Gaussian noise: least-squares classification (Rasmussen and Williams: Gaussian
Processes for Machine Learning, MIT Press 2006, section 6.5). All labels share the kernel and the noise, so one
factorisation does for all, and what the labels have in common takes few right-hand sides: the centred label matrix is
replaced by its best approximation of rank P. The kernel is a squared exponential on weighted features.
"""

import functools
import threading
from typing import NamedTuple

import numpy as np
from scipy.special import logit

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import dense, sparse
from xmlgp.linear_algebra.blocked_cholesky import solve_positive
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = ["LENGTHSCALE", "NOISE", "Regressed", "Regression", "fits", "pool", "regress"]

#: ℓ, for points of unit length.
LENGTHSCALE = 0.7

#: Variance of the noise, where that of the kernel is one.
NOISE = 0.5

#: What predictions are moved away from 0 and 1 by: least squares know of neither, and of labels hardly possible
#: nothing at all. Of 0.001 to 0.01 the one of least log loss on validation points of Bibtex and Delicious.
DOUBT = 0.003

#: Labels up to which their Gram matrix is formed: eigenvectors of more take longer than the randomised method.
GRAM_LIMIT = 2000

#: Powers of the Gram matrix in the randomised method, and vectors beyond those wanted. On Delicious, 100 to 300 vectors
#: miss less than 1e-4 of what the exact ones capture of the label matrix.
POWERS, OVERSAMPLING = 10, 50

#: Points whose covariances with the training points are computed at a time.
ROWS = 128


class Regressed(NamedTuple):
    """What regression on the labels found: at a point x it predicts π + k(x, X) α Vᵀ.

    Attributes
    ----------
    weights : ndarray, N×P
        α.
    loadings : ndarray, K×P
        V, with orthonormal columns.
    mean : ndarray, K
        π, each label's mean.
    """

    weights: np.ndarray
    loadings: np.ndarray
    mean: np.ndarray


def regress(features, labels, rank, lengthscale=LENGTHSCALE, noise=NOISE, progress=silent):
    """Return the weights α = (K_XX + noise I)⁻¹ (Y − 1πᵀ) V, with the V and π they are for, in float32.

    V are the top right singular vectors of Y − 1πᵀ. Memory is that of K_XX, N×N, of which half is touched.

    Parameters
    ----------
    features : csr_array, N×D
        X, weighted.
    labels : csr_array, N×K
        Y.
    rank : int
        Vectors; P = min(rank, K, N).
    lengthscale : float
        ℓ.
    noise : float
        Variance.
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    Regressed

    Raises
    ------
    NumericalError
        Where K_XX + noise I has no Cholesky factor, or squares of features are beyond single precision.
    """
    labels = labels.astype(np.float32)
    mean = labels.sum(axis=0, dtype=np.float64) / max(1, labels.shape[0])
    with one_blas_thread():
        loadings = _singular_vectors(labels, mean, min(rank, *labels.shape))
        mean = mean.astype(np.float32)
        weights = sparse.product(labels, loadings)
        weights -= mean @ loadings
        covariance = _between_points(features, lengthscale, noise, progress)
        if not solve_positive(covariance, weights, progress):
            raise NumericalError(
                "the covariances of the training points cannot be factorised: "
                f"features are not finite, or the noise variance {noise:g} is too small"
            )
    return Regressed(weights, loadings, mean)


def fits(parameters, feature_count, label_count):
    """Return whether the arrays of a regression, as a file has them, fit each other and the model: loops trust them.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        `regression.indptr`, `regression.indices` and `regression.values` of X, and `Regressed` by its names; nothing
        of it may be there as well.
    feature_count, label_count : int
        D and K.
    """
    arrays = {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith("regression.")}
    if not arrays:
        return True
    if arrays.keys() != {"indptr", "indices", "values", *Regressed._fields}:
        return False
    indptr, indices, values = (arrays[name] for name in ("indptr", "indices", "values"))
    weights, loadings, mean = (arrays[name] for name in Regressed._fields)
    return bool(
        all(array.dtype in (np.float32, np.float64) for array in (values, weights, loadings, mean))
        and weights.ndim == 2
        and sparse.is_pattern(indptr, indices, len(weights), feature_count)
        and values.shape == indices.shape
        and loadings.shape == (label_count, weights.shape[1])
        and mean.shape == (label_count,)
    )


class Regression:
    """Regression on the labels, ready to predict.

    Parameters
    ----------
    features : csr_array, N×D
        X, as `regress` got them.
    weights : ndarray, N×P
        α.
    lengthscale : float
        ℓ.
    """

    def __init__(self, features, weights, lengthscale=LENGTHSCALE):
        self._kernel = _Kernel(features, lengthscale)
        self._weights = np.ascontiguousarray(weights)

    def latent(self, points):
        """Return k(points, X) α, B×P; memory beside it is `ROWS`×N numbers for each core.

        Parameters
        ----------
        points : csr_array, B×D
            Weighted.
        """
        if points.shape[1] != self._kernel.dimension:
            raise ValueError(f"points of {points.shape[1]} features for {self._kernel.dimension}")
        count = points.shape[0]
        out = np.empty((count, self._weights.shape[1]), np.float32)

        # Of equal size whatever the cores: neither are results different.
        def chunk(start):
            stop = min(start + ROWS, count)
            covariance = np.empty((stop - start, len(self._weights)), np.float32)
            self._kernel.fill(points, start, stop, covariance)
            np.matmul(covariance, self._weights, out=out[start:stop])

        with one_blas_thread():
            run_parallel(functools.partial(chunk, start) for start in range(0, count, ROWS))
        return out


def pool(regressed, mean, variance=None):
    """Replace the moments of utilities f by those of ½ f + ½ log(g/(1 − g)), the logarithmic pool of f and regression.

    Parameters
    ----------
    regressed : ndarray
        Predictions of the regression; overwritten by g, which they are within [0, 1], moved inwards by `DOUBT`.
    mean, variance : ndarray of the same shape
        Of q(f); changed in place. Variances may be left out.
    """
    np.clip(regressed, 0, 1, out=regressed)
    regressed += DOUBT
    regressed /= 1 + 2 * DOUBT
    mean += logit(regressed)
    mean *= 0.5
    if variance is not None:
        variance *= 0.25


class _Kernel:
    """Covariances exp(−‖x − x′‖² / 2ℓ²) of points and training points x′."""

    def __init__(self, features, lengthscale):
        self.dimension = features.shape[1]
        # Its rows are sorted by point.
        self._transposed = features.T.tocsr().astype(np.float32, copy=False)
        with np.errstate(over="ignore"):
            self._halves = 0.5 * features.multiply(features).sum(axis=1, dtype=np.float64).astype(np.float32)
        if np.isinf(self._halves).any():
            raise NumericalError(
                "regression needs features whose squares are within single precision; "
                "try another --weighting, or --regression-points 0"
            )
        self._precision = np.float32(1 / lengthscale**2)

    def fill(self, points, start, stop, out):
        """Put the covariances of some points and the first training points, as many as `out` has columns, there."""
        arrays = [(matrix.indptr, matrix.indices, matrix.data) for matrix in (points, self._transposed)]
        _exponents(*arrays[0], *arrays[1], self._halves, self._precision, start, stop, out)
        np.exp(out, out=out)


@compiled
def _exponents(indptr, indices, data, by_feature, holders, values, halves, precision, start, stop, out):
    """Fill in −‖x − x′‖² / 2ℓ² by way of inner products; `halves` are the training points' ½‖x′‖²."""
    real = out.dtype.type
    width = out.shape[1]
    for i in range(start, stop):
        row, half = out[i - start], real(0)
        row[:] = 0
        for e in range(indptr[i], indptr[i + 1]):
            feature, value = indices[e], real(data[e])
            half += real(0.5) * value * value
            for h in range(by_feature[feature], by_feature[feature + 1]):
                if holders[h] >= width:
                    break
                row[holders[h]] += value * values[h]
        for j in range(width):
            exponent = (row[j] - half - halves[j]) * precision
            # A squared distance below zero is rounding.
            row[j] = real(0) if exponent > real(0) else exponent


def _between_points(features, lengthscale, noise, progress):
    """Return K_XX + noise I, N×N; its upper triangle is not filled in."""
    count = features.shape[0]
    kernel = _Kernel(features, lengthscale)
    covariance = np.empty((count, count), np.float32)
    starts = range(0, count, ROWS)
    reporting = threading.Lock()

    def chunk(start):
        stop = min(start + ROWS, count)
        kernel.fill(features, start, stop, covariance[start:stop, :stop])
        with reporting:
            bar.update()

    with progress("covariances", total=len(starts), unit="block") as bar:
        # The larger tasks first.
        run_parallel(functools.partial(chunk, start) for start in reversed(starts))
    covariance.flat[:: count + 1] += np.float32(noise)
    return covariance


def _singular_vectors(labels, mean, size):
    """Return the top right singular vectors of Y − 1πᵀ, K×P."""
    if labels.shape[1] > GRAM_LIMIT:
        return _randomised(labels, mean.astype(np.float32), size)
    # In single precision the products are whole numbers still, and exact.
    gram = (labels.T @ labels).toarray() - labels.shape[0] * np.outer(mean, mean)
    _, vectors = np.linalg.eigh(gram)
    return np.ascontiguousarray(vectors[:, ::-1][:, :size], np.float32)


def _randomised(labels, mean, size):
    """Return the vectors by powers of the Gram matrix applied to a random block (Halko, Martinsson, Tropp 2011)."""
    count = labels.shape[1]
    by_label = labels.T.tocsr()

    def image(block):
        projected = sparse.product(labels, block)
        projected -= mean @ block
        # Centred on the other side it is by itself: 1ᵀ(Y − 1πᵀ) = 0.
        return sparse.product(by_label, projected)

    width = min(size + OVERSAMPLING, count)
    block = np.random.default_rng(0).standard_normal((count, width), np.float32)
    for _ in range(POWERS):
        block, _ = np.linalg.qr(image(block))
        block = np.ascontiguousarray(block)
    square = dense.product(block.T, image(block))
    _, vectors = np.linalg.eigh((square + square.T) / 2)
    return dense.product(block, np.ascontiguousarray(vectors[:, ::-1][:, :size]))
