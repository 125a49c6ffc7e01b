"""Fitting the regression to all points."""

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.data.features import Features
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import conjugate_gradients, dense, sparse
from xmlgp.linear_algebra.conjugate_gradients import Solution
from xmlgp.regression.kernel import noisy_covariance
from xmlgp.regression.regression import Regression, scaled
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.threads import one_blas_thread

__all__ = ["RANK", "fit_regression"]

#: Most latent functions: 100 to 400 rank the validation points of Delicious equally well.
RANK = 300

#: Most labels for which the eigenvectors of their Gram matrix are computed. For more, the randomised method is faster.
GRAM_LIMIT = 2000

#: Share of nonzero labels from which on dense products of so many rows are faster than sparse ones.
DENSE_SHARE = 0.05
GRAM_ROWS = 2048

#: Power iterations of the randomised method.
POWERS = 10

#: Additional vectors of the randomised method. On Delicious, 100 to 300 vectors capture at least 1 − 1e-4 of the
#: variance that the exact ones do.
OVERSAMPLING = 50

#: Residuals of systems that change an earlier solution, as `conjugate_gradients.TOLERANCE`: changes of unrelated points
#: are to be small.
FINE = 0.05

#: Fewest points whose systems are solved to `conjugate_gradients.TOLERANCE`. Those of fewer points take little time,
#: and are solved to `FINE`: on Delicious, test points lose 0.2 of P@1 otherwise, on larger sets nothing.
ROUGH_FROM = 15_000

UNSOLVED = "the regression cannot be solved: features are not finite, or the noise variance is too small"


def fit_regression(
    features: sp.csr_array,
    labels: sp.csr_array,
    scales: NDArray[np.floating] | None,
    leading: int,
    progress: Progress = silent,
) -> tuple[Regression, Regression]:
    """Return the regression on all points, α = (K_XX + noise I)⁻¹ (Y − 1πᵀ) V, and that on the first `leading` ones.

    Both have the same π and V, the first P right singular vectors of Y − 1πᵀ, P = min(`RANK`, K, N). The features, N×D,
    are weighted, and scaled here. The weights of all points start from those of the first ones. The solutions are those
    of `conjugate_gradients.solve`, in single precision; they take memory for K_XX, N×N. If there is no
    solution, or squares of features overflow single precision, raise NumericalError.
    """
    N = labels.shape[0]
    tolerance = FINE if N < ROUGH_FROM else None
    with one_blas_thread():
        targets = labels.astype(np.float32)
        loadings, mean = _loadings_and_mean(targets)
        right = _project(targets, mean, loadings)
        points = Features(scaled(features, scales))
        covariance = noisy_covariance(points, progress)
        first = start = None
        if leading < N:
            first = _solve(covariance[:leading, :leading], right[:leading], progress, None, tolerance)
            start = first.extended(covariance, right)
        solution = _solve(covariance, right, progress, start, tolerance)
        weights = solution.values
    fit = Regression(points, scales, weights, loadings, mean)
    if first is None:
        return fit, fit
    return fit, fit._replace(features=points[:leading], weights=first.values)


def _solve(
    covariance: NDArray[np.float32],
    right: NDArray[np.float32],
    progress: Progress,
    start: Solution | None = None,
    tolerance: float | None = None,
) -> Solution:
    try:
        return conjugate_gradients.solve(covariance, right, start, progress, tolerance)
    except np.linalg.LinAlgError as error:
        raise NumericalError(UNSOLVED) from error


def _loadings_and_mean(labels: sp.csr_array) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return V, K×P, and π, K."""
    labels = labels.astype(np.float32)
    mean = labels.sum(axis=0, dtype=np.float64) / max(1, labels.shape[0])
    return _singular_vectors(labels, mean, min(RANK, *labels.shape)), mean.astype(np.float32)


def _project(labels: sp.csr_array, mean: NDArray[np.float32], loadings: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return (Y − 1πᵀ) V."""
    projected = sparse.product(labels, loadings)
    projected -= mean @ loadings
    return projected


def _singular_vectors(labels: sp.csr_array, mean: NDArray[np.float64], size: int) -> NDArray[np.float32]:
    """Return the first right singular vectors of Y − 1πᵀ, K×P."""
    if labels.shape[1] > GRAM_LIMIT:
        return _randomised_singular_vectors(labels, mean.astype(np.float32), size)
    gram = _gram(labels) - labels.shape[0] * np.outer(mean, mean)
    _, vectors = np.linalg.eigh(gram)
    return np.ascontiguousarray(vectors[:, ::-1][:, :size], np.float32)


def _gram(labels: sp.csr_array) -> NDArray[np.floating]:
    """Return Yᵀ Y, K×K."""
    if labels.nnz < DENSE_SHARE * math.prod(labels.shape):
        # The products are integers, which single precision represents exactly.
        product: NDArray[np.float32] = (labels.T @ labels).toarray()
        return product
    gram = np.zeros((labels.shape[1], labels.shape[1]))
    for start in range(0, labels.shape[0], GRAM_ROWS):
        block = labels[start : start + GRAM_ROWS].toarray()
        gram += block.T @ block
    return gram


def _randomised_singular_vectors(labels: sp.csr_array, mean: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """Return the vectors by randomised power iterations.

    Source: N. Halko, P. G. Martinsson, J. A. Tropp, Finding structure with randomness, SIAM Review 53, 2011,
    algorithm 4.4.
    """
    count = labels.shape[1]
    by_label = labels.T.tocsr()

    def multiply(block: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the Gram matrix of Y − 1πᵀ times a block."""
        # No second centring is needed, because 1ᵀ(Y − 1πᵀ) = 0.
        return sparse.product(by_label, _project(labels, mean, block))

    width = min(size + OVERSAMPLING, count)
    block = np.random.default_rng(0).standard_normal((count, width), np.float32)
    for _ in range(POWERS):
        block, _ = np.linalg.qr(multiply(block))
        block = np.ascontiguousarray(block)
    projected_gram = dense.product(block.T, multiply(block))
    _, vectors = np.linalg.eigh((projected_gram + projected_gram.T) / 2)
    return dense.product(block, np.ascontiguousarray(vectors[:, ::-1][:, :size]))
