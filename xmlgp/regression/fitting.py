"""Fitting the regression to all points, and adding points to it."""

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from xmlgp.data.blocks import dense_of, stacked
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import conjugate_gradients, dense, sparse
from xmlgp.regression.kernel import Kernel, noise_of, noisy_covariance
from xmlgp.regression.lengthscales import learned_lengthscales
from xmlgp.regression.regression import DENSE_POOL_WEIGHTS, Regression, scaled_features
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import one_blas_thread

__all__ = ["RANK", "add_points", "bytes_of_adding", "fit_regression"]

#: Most latent functions: 100 to 400 rank the validation points of Delicious equally well.
RANK = 300

#: Most labels for which the eigenvectors of their Gram matrix are computed; for more the randomised method is faster.
GRAM_LIMIT = 2000

#: Power iterations and additional vectors of the randomised method. On Delicious, 100 to 300 vectors capture at least
#: 1 − 1e-4 of the variance that the exact ones do.
POWERS = 10
OVERSAMPLING = 50

#: Earlier points whose weights change where a fitted regression gets more points: for each of these, and at most; and
#: at least, with those that balance. After a document of 20,738, unrelated ones change by 0.0011 at the median with
#: 512, by 0.0043 with 64, and by 0.0003 where all change.
EACH = 64
ACTIVE = 4096
LEAST = 512

#: V and π are computed again if a batch has more than this share of the earlier points.
RENEWED = 0.01

#: V lacks a label if less than this share of the square of its unit vector is in the span, as with most labels of fewer
#: than 16 of 20,738 documents. Shorter columns than the second number are not added.
SPANNED = 0.5
SHORTEST = 0.1

#: Points per block of covariances of a small batch, so that few points occupy all cores.
FEW = 32

#: Most unknowns for which a system is solved exactly, by its Cholesky factor; so few points are all active.
DIRECT = 1024

UNSOLVED = "the regression cannot be solved: features are not finite, or the noise variance is too small"


def fit_regression(features, labels, scales, leading, progress=silent):
    """Return the `Regression` with α = (K_XX + noise I)⁻¹ (Y − 1πᵀ) V, and one of the first points (`leading`).

    Both have the same π and V, the first P right singular vectors of Y − 1πᵀ, P = min(`RANK`, K, N). The features, N×D,
    are weighted, and scaled here. The weights of all points start from those of the first ones. The solutions are those
    of `conjugate_gradients.solve`, in single precision; they take memory for K_XX, N×N. If there is no solution, or
    squares of features overflow single precision, raise NumericalError. If there are dense features (`Blocks`), the
    lengthscales are learned, from some of the first points.
    """
    N = labels.shape[0]
    lengthscales = None
    with one_blas_thread():
        loadings, mean = _loadings_and_mean(labels)
        right = _project(labels.astype(np.float32), mean, loadings)
        if dense_of(features):
            lengthscales = learned_lengthscales(scaled_features(features[:leading], scales), right[:leading])
        features = scaled_features(features, scales, lengthscales)
        covariance = noisy_covariance(features, progress)
        first = start = None
        if leading < N:
            first = _solve(covariance[:leading, :leading], right[:leading], progress)
            start = np.zeros_like(right)
            start[:leading] = first
        weights = _solve(covariance, right, progress, start)
    weight = None if lengthscales is None else np.array(DENSE_POOL_WEIGHTS[0])
    whole = Regression(features, labels, scales, lengthscales, weights, loadings, mean, weight)
    if first is None:
        return whole, whole
    return whole, whole._replace(features=features[:leading], labels=labels[:leading], weights=first)


def add_points(regression, features, labels, seed):
    """Return the `Regression` with more points, given their weighted features, n×D, and labels, n×K.

    With A, the new points and some earlier ones (`_active`), the rows of α of A change by the solution of

        (K_AA + noise I) Δ = [(Y − 1πᵀ) V − (K_XX + noise I) α]_A,

    a step of block coordinate descent on the squared error, which has the exact regression as its minimum. If A are all
    points, it reaches that. For small batches, A has further points that balance what changes everywhere; their right
    sides, which take most of the time, are not computed but zero, as they nearly are where the regression fits.

    V and π stay, but V gets columns for labels that it lacks (`_with_columns_for`). If the batch has more than
    `RENEWED` times as many points as came before, V and π become those of all points, and α V_oldᵀ V is where α starts.
    V_old has rows of zeros for new labels, α has rows of zeros for new points. The seed, a sequence of int, determines
    the draws. Otherwise as in `fit_regression`.
    """
    count = len(regression.weights)
    added = labels.shape[0]
    scaling = regression.scales, regression.lengthscales
    features = stacked([regression.features, scaled_features(features, *scaling)])
    every = sp.csr_array(sp.vstack([regression.labels, labels], "csr"))
    loadings = _with_columns_for(labels, regression.loadings)
    mean = regression.mean
    start = regression.weights
    with one_blas_thread():
        if added > RENEWED * count or loadings.shape[1] > 2 * RANK:
            loadings, mean = _loadings_and_mean(every)
            start = dense.product(start, dense.product(regression.loadings.T, loadings))
        weights = np.zeros((count + added, loadings.shape[1]), np.float32)
        weights[:count, : start.shape[1]] = start
        kernel = Kernel(features)
        active, balancing = _active(kernel, features[count:], every, regression.loadings, seed)
        known = np.concatenate([active, np.arange(count, len(weights))])
        rows = np.concatenate([known, balancing])
        change = np.zeros((len(rows), weights.shape[1]), np.float32)
        residual = change[: len(known)]
        residual += _project(every[known].astype(np.float32), mean, loadings)
        residual -= kernel.product(features[known], weights, FEW if len(known) < LEAST else None)
        residual -= noise_of(features) * weights[known]
        covariance = noisy_covariance(features[rows], silent)
        weights[rows] += _solve_few(covariance, change) if len(rows) <= DIRECT else _solve(covariance, change, silent)
    return regression._replace(features=features, labels=every, weights=weights, loadings=loadings, mean=mean)


def _active(kernel, new, labels, loadings, seed):
    """Return the earlier points that change where some are new: those whose right sides are computed, and the others.

    The first are `EACH` for each new point, at most `ACTIVE`: half of them those with the largest covariance with a new
    point, before them those with a label that V, K×P, lacks, and half drawn at random. The others are drawn as well, so
    that there are `LEAST` together: unrelated points have a covariance, so what is new would change them all.
    """
    count = labels.shape[0] - new.shape[0]
    size = min(ACTIVE, EACH * new.shape[0])
    if size >= count or labels.shape[0] <= DIRECT:
        return np.arange(count), np.arange(0)
    lacking = np.zeros(labels.shape[1], np.float32)
    lacking[_lacking(labels[count:], loadings)] = 1
    closeness = _largest_covariances(kernel, new, count)
    closeness += (labels[:count].astype(np.float32) @ lacking) > 0
    chosen = np.argpartition(-closeness, size // 2)[: size // 2]
    others = np.delete(np.arange(count), chosen)
    drawn = np.random.default_rng(seed).choice(others, min(max(size, LEAST), count) - len(chosen), replace=False)
    known = size - len(chosen)
    return np.sort(np.concatenate([chosen, drawn[:known]])), drawn[known:]


def _largest_covariances(kernel, points, count):
    """Return the largest covariance of each of the first `count` points of the kernel with any of some points."""
    largest = np.zeros(count, np.float32)
    block = np.empty((min(FEW, points.shape[0]), count), np.float32)
    for start in range(0, points.shape[0], FEW):
        part = block[: points.shape[0] - start]
        kernel.fill(points, start, start + len(part), part)
        np.maximum(largest, part.max(axis=0), out=largest)
    return largest


def _lacking(labels, loadings):
    """Return the labels of points that V, K×P, lacks: less than `SPANNED` of their unit vector is in its span."""
    present = np.unique(labels.indices)
    return present[np.square(loadings[present]).sum(axis=1) < SPANNED]


def _with_columns_for(labels, loadings):
    """Return V, K×P, with orthonormal columns for the unit vectors of the labels of points that it lacks."""
    lacking = _lacking(labels, loadings)
    if not len(lacking):
        return loadings
    beside = -loadings @ loadings[lacking].T
    beside[lacking, np.arange(len(lacking))] += 1
    vectors, lengths, _ = np.linalg.svd(beside, full_matrices=False)
    # Two labels that always come together can need the same column.
    return np.hstack([loadings, vectors[:, lengths > SHORTEST]])


def _solve_few(covariance, right):
    try:
        return cho_solve(cho_factor(covariance, lower=True, check_finite=False), right, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise NumericalError(UNSOLVED) from error


def bytes_of_adding(N, n, K, E=0):
    """Return the memory of the largest arrays of `add_points`.

    These are K_AA, and α, (Y − 1πᵀ) V and dense features of all N + n points.
    """
    return 4 * (min(N, ACTIVE) + n) ** 2 + 8 * (N + n) * min(RANK, K, N + n) + 4 * (N + n) * E


def _solve(covariance, right, progress, start=None):
    try:
        return conjugate_gradients.solve(covariance, right, start, progress)
    except np.linalg.LinAlgError as error:
        raise NumericalError(UNSOLVED) from error


def _loadings_and_mean(labels):
    """Return V, K×P, and π, K."""
    labels = labels.astype(np.float32)
    mean = labels.sum(axis=0, dtype=np.float64) / max(1, labels.shape[0])
    return _singular_vectors(labels, mean, min(RANK, *labels.shape)), mean.astype(np.float32)


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
