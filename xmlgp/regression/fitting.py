"""Fitting the regression to all points, and adding points to it."""

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import conjugate_gradients, dense, sparse
from xmlgp.regression.kernel import NOISE, Kernel, noisy_covariance
from xmlgp.regression.regression import Regression, scaled_features
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import one_blas_thread

__all__ = ["RANK", "add_points", "bytes_of_adding", "fit_regression"]

#: Most latent functions: 100 to 400 rank the validation points of Delicious equally well.
RANK = 300

#: Most labels for which the eigenvectors of their Gram matrix are computed; for more the randomised method is faster.
GRAM_LIMIT = 2000

#: Power iterations and additional vectors of the randomised method. On Delicious, 100 to 300 vectors capture at least
#: 1 − 1e-4 of the variance that the exact ones do.
POWERS, OVERSAMPLING = 10, 50

#: Earlier points whose weights change, beside those of new points, where a fitted regression gets more points.
ACTIVE = 4096


def fit_regression(features, labels, scales, leading, progress=silent):
    """Return the `Regression` with α = (K_XX + noise I)⁻¹ (Y − 1πᵀ) V, and one of the first points (`leading`).

    Both have the same π and V, the first P right singular vectors of Y − 1πᵀ, P = min(`RANK`, K, N). The features, N×D,
    are weighted, and scaled here. The weights of all points start from those of the first ones. The solutions are those
    of `conjugate_gradients.solve`, in single precision; they take memory for K_XX, N×N. If there is no solution, or
    squares of features overflow single precision, raise NumericalError.
    """
    features, N = scaled_features(features, scales), labels.shape[0]
    with one_blas_thread():
        right, loadings, mean = _right_sides(labels)
        covariance = noisy_covariance(features, progress)
        first = start = None
        if leading < N:
            first = _solve(covariance[:leading, :leading], right[:leading], progress)
            start = np.zeros_like(right)
            start[:leading] = first
        weights = _solve(covariance, right, progress, start)
    whole = Regression(features, labels, scales, weights, loadings, mean)
    if first is None:
        return whole, whole
    return whole, whole._replace(features=features[:leading], labels=labels[:leading], weights=first)


def add_points(regression, features, labels, seed):
    """Return the `Regression` with more points, given their weighted features, n×D, and labels, n×K.

    V and π become those of all N points, and α V_oldᵀ V is where α starts, with zeros for the new points. With A, the
    new points and at most `ACTIVE` of the others drawn at random, the rows of α of A then change by the solution of

        (K_AA + noise I) Δ = [(Y − 1πᵀ) V − (K_XX + noise I) α]_A,

    a step of block coordinate descent on the squared error, which has the exact regression as its minimum. With no
    more than `ACTIVE` earlier points it reaches that. Time and memory grow with the new points and `ACTIVE`, and not
    with N³. V_old has rows of zeros for new labels; the seed, a sequence of int, determines the draw. Otherwise as in
    `fit_regression`.
    """
    count = len(regression.weights)
    features = sp.csr_array(sp.vstack([regression.features, scaled_features(features, regression.scales)], "csr"))
    labels = sp.csr_array(sp.vstack([regression.labels, labels], "csr"))
    N = labels.shape[0]
    with one_blas_thread():
        right, loadings, mean = _right_sides(labels)
        weights = np.zeros_like(right)
        weights[:count] = dense.product(regression.weights, dense.product(regression.loadings.T, loadings))
        earlier = np.arange(count)
        if count > ACTIVE:
            earlier = np.sort(np.random.default_rng(seed).choice(count, ACTIVE, replace=False))
        rows = np.concatenate([earlier, np.arange(count, N)])
        chosen, change = features[rows], right[rows]
        change -= Kernel(features).product(chosen, weights)
        change -= np.float32(NOISE) * weights[rows]
        weights[rows] += _solve(noisy_covariance(chosen, silent), change, silent)
    return Regression(features, labels, regression.scales, weights, loadings, mean)


def bytes_of_adding(N, n, K):
    """Return the memory of the largest arrays of `add_points`: K_AA, and α and (Y − 1πᵀ) V of all N + n points."""
    return 4 * (min(N, ACTIVE) + n) ** 2 + 8 * (N + n) * min(RANK, K, N + n)


def _solve(covariance, right, progress, start=None):
    try:
        return conjugate_gradients.solve(covariance, right, start, progress)
    except np.linalg.LinAlgError as error:
        raise NumericalError(
            "the regression cannot be solved: features are not finite, or the noise variance is too small"
        ) from error


def _right_sides(labels):
    """Return (Y − 1πᵀ) V, N×P, V, K×P, and π, K."""
    labels = labels.astype(np.float32)
    mean = labels.sum(axis=0, dtype=np.float64) / max(1, labels.shape[0])
    loadings = _singular_vectors(labels, mean, min(RANK, *labels.shape))
    mean = mean.astype(np.float32)
    return _project(labels, mean, loadings), loadings, mean


def _project(labels, mean, loadings):
    """Return (Y − 1πᵀ) V."""
    projected = sparse.product(labels, loadings)
    projected -= mean @ loadings
    return projected


def _singular_vectors(labels, mean, size):
    """Return the first right singular vectors of Y − 1πᵀ, K×P."""
    if labels.shape[1] > GRAM_LIMIT:
        return _randomised_singular_vectors(labels, mean.astype(np.float32), size)
    # The products are integers, which single precision represents exactly.
    gram = (labels.T @ labels).toarray() - labels.shape[0] * np.outer(mean, mean)
    _, vectors = np.linalg.eigh(gram)
    return np.ascontiguousarray(vectors[:, ::-1][:, :size], np.float32)


def _randomised_singular_vectors(labels, mean, size):
    """Return the vectors by randomised power iterations.

    Source: N. Halko, P. G. Martinsson, J. A. Tropp, Finding structure with randomness, SIAM Review 53, 2011,
    algorithm 4.4.
    """
    count = labels.shape[1]
    by_label = labels.T.tocsr()

    def multiply(block):
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
