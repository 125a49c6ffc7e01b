"""Fitting the regression to all points, and adding points to it."""

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from xmlgp.data.features import Features
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import conjugate_gradients, dense, sparse
from xmlgp.linear_algebra.conjugate_gradients import Solution
from xmlgp.regression.kernel import ROWS, CrossCovariance, noise_of, noisy_covariance
from xmlgp.regression.lengthscales import learned_lengthscales
from xmlgp.regression.regression import DENSE_POOL_WEIGHTS, Regression, scaled_features
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.threads import one_blas_thread

__all__ = ["RANK", "add_points", "bytes_of_adding", "fit_regression"]

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

#: For each new point, the number of earlier points whose right sides are computed and whose weights change.
EACH = 64

#: Most such points.
ACTIVE = 4096

#: Fewest earlier points whose weights change. After a document is added to 20,738, unrelated documents change by 0.0011
#: at the median with 512, by 0.0043 with 64, and by 0.0003 if the weights of all points change.
LEAST = 512

#: V and π are computed anew if a batch has more than this share of the earlier points.
RENEWED = 0.01

#: V lacks a label if less than this share of the square of its unit vector is in the span, as for most labels of fewer
#: than 16 of 20,738 documents.
SPANNED = 0.5

#: Least length of a column that is added to V.
SHORTEST = 0.1

#: Points per block of covariances of a small batch, so that few points occupy all cores.
FEW = 32

#: Most unknowns for which a system is solved exactly, by its Cholesky factor. With at most as many points, all weights
#: change.
DIRECT = 1024

#: Residuals of systems that change an earlier solution, as `conjugate_gradients.TOLERANCE`: changes of unrelated points
#: are to be small.
FINE = 0.05

#: Fewest points whose systems are solved to `conjugate_gradients.TOLERANCE`. Those of fewer points take little time,
#: and are solved to `FINE`: on Delicious, test points lose 0.2 of P@1 otherwise, on larger sets nothing.
ROUGH_FROM = 15_000

UNSOLVED = "the regression cannot be solved: features are not finite, or the noise variance is too small"


def fit_regression(
    features: Features,
    labels: sp.csr_array,
    scales: NDArray[np.floating] | None,
    leading: int,
    progress: Progress = silent,
) -> tuple[Regression, Regression]:
    """Return the regression on all points, α = (K_XX + noise I)⁻¹ (Y − 1πᵀ) V, and that on the first `leading` ones.

    Both have the same π and V, the first P right singular vectors of Y − 1πᵀ, P = min(`RANK`, K, N). The features, N×D,
    are weighted, and scaled here. The weights of all points start from those of the first ones. The solutions are those
    of `conjugate_gradients.solve`, in single precision; they take memory for K_XX, N×N. If there are dense features,
    the lengthscales are learned from some of the first points. If there is no solution, or squares of features overflow
    single precision, raise NumericalError.
    """
    N = labels.shape[0]
    tolerance = FINE if N < ROUGH_FROM else None
    lengthscales = None
    with one_blas_thread():
        targets = labels.astype(np.float32)
        loadings, mean = _loadings_and_mean(targets)
        right = _project(targets, mean, loadings)
        if features.dense:
            words = scaled_features(features[:leading], scales).sparse
            lengthscales = learned_lengthscales(words, features.dense[:leading], right[:leading])
        features = scaled_features(features, scales, lengthscales)
        covariance = noisy_covariance(features, progress)
        first = start = None
        if leading < N:
            first = _solve(covariance[:leading, :leading], right[:leading], progress, None, tolerance)
            start = first.extended(covariance, right)
        solution = _solve(covariance, right, progress, start, tolerance)
        weights = solution.values
    pool_weight = None if lengthscales is None else np.array(DENSE_POOL_WEIGHTS[0])
    fit = Regression(features, labels, scales, lengthscales, weights, loadings, mean, pool_weight)
    if first is None:
        return fit, fit
    return fit, fit._replace(features=features[:leading], labels=labels[:leading], weights=first.values)


def add_points(regression: Regression, features: Features, labels: sp.csr_array, seed: Sequence[int]) -> Regression:
    """Return the `Regression` with more points, given their weighted features, n×D, and labels, n×K.

    With A, the new points and some earlier ones (`_active`), the rows of α of A change by the solution of

        (K_AA + noise I) Δ = [(Y − 1πᵀ) V − (K_XX + noise I) α]_A,

    a step of block coordinate descent on the squared error, whose minimum is the exact regression. If A are all points,
    one step reaches it. For small batches, A has further points that balance changes of unrelated points. Their right
    sides would take most of the time; they are near zero if the regression fits, and are set to zero.

    V and π stay, but V gets columns for labels that it lacks (`_with_columns_for`). If the batch has more than
    `RENEWED` times as many points as came before, V and π become those of all points, and α starts from α V_oldᵀ V.
    V_old has rows of zeros for new labels, α has rows of zeros for new points. The seed determines the draws. Scaling
    and errors are as in `fit_regression`.
    """
    count = len(regression.weights)
    scaling = regression.scales, regression.lengthscales
    features = Features.stack([regression.features, scaled_features(features, *scaling)])
    all_labels = sp.csr_array(sp.vstack([regression.labels, labels], "csr"))
    N = all_labels.shape[0]
    loadings = _with_columns_for(labels, regression.loadings)
    mean = regression.mean
    start = regression.weights
    with one_blas_thread():
        if N - count > RENEWED * count or loadings.shape[1] > 2 * RANK:
            loadings, mean = _loadings_and_mean(all_labels)
            start = dense.product(start, dense.product(regression.loadings.T, loadings))
        weights = np.zeros((N, loadings.shape[1]), np.float32)
        weights[:count, : start.shape[1]] = start
        kernel = CrossCovariance(features)
        active, balancing = _active(kernel, features[count:], all_labels, regression.loadings, seed)
        computed = np.concatenate([active, np.arange(count, N)])
        rows = np.concatenate([computed, balancing])
        right = np.zeros((len(rows), weights.shape[1]), np.float32)
        residual = right[: len(computed)]
        residual += _project(all_labels[computed].astype(np.float32), mean, loadings)
        residual -= kernel.product(features[computed], weights, FEW if len(computed) < LEAST else ROWS)
        residual -= noise_of(features) * weights[computed]
        covariance = noisy_covariance(features[rows], silent)
        if len(rows) <= DIRECT:
            weights[rows] += _solve_few(covariance, right)
        else:
            weights[rows] += _solve(covariance, right, silent, None, FINE).values
    return regression._replace(features=features, labels=all_labels, weights=weights, loadings=loadings, mean=mean)


def _active(
    kernel: CrossCovariance, new: Features, labels: sp.csr_array, loadings: NDArray[np.floating], seed: Sequence[int]
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the earlier points whose right sides are computed when some are new, and those that balance changes.

    The first are `EACH` for each new point, at most `ACTIVE`. Half of them have a label that V, K×P, lacks, or else the
    largest covariances with a new point; the other half are drawn at random. Those that balance are drawn at random as
    well, so that there are `LEAST` points together: all points have some covariance with the new points, so without
    them the predictions at unrelated points would change.
    """
    count = labels.shape[0] - new.N
    size = min(ACTIVE, EACH * new.N)
    if size >= count or labels.shape[0] <= DIRECT:
        return np.arange(count), np.arange(0)
    lacking = np.zeros(labels.shape[1], np.float32)
    lacking[_lacking(labels[count:], loadings)] = 1
    closeness = _largest_covariances(kernel, new, count)
    closeness += (labels[:count].astype(np.float32) @ lacking) > 0
    chosen = np.argpartition(-closeness, size // 2)[: size // 2]
    remaining = np.delete(np.arange(count), chosen)
    drawn = np.random.default_rng(seed).choice(remaining, min(max(size, LEAST), count) - len(chosen), replace=False)
    computed, balancing = np.split(drawn, [size - len(chosen)])
    return np.sort(np.concatenate([chosen, computed])), balancing


def _largest_covariances(kernel: CrossCovariance, points: Features, count: int) -> NDArray[np.float32]:
    """Return the largest covariance of each of the first `count` points of the kernel with any of some points."""
    largest = np.zeros(count, np.float32)
    for start in range(0, points.N, FEW):
        stop = min(start + FEW, points.N)
        covariances = np.empty((stop - start, count), np.float32)
        kernel.fill(points, start, stop, covariances)
        np.maximum(largest, covariances.max(axis=0), out=largest)
    return largest


def _lacking(labels: sp.csr_array, loadings: NDArray[np.floating]) -> NDArray[np.integer]:
    """Return the labels of points that V, K×P, lacks: less than `SPANNED` of their unit vector is in its span."""
    present = np.unique(labels.indices)
    lacking: NDArray[np.integer] = present[np.square(loadings[present]).sum(axis=1) < SPANNED]
    return lacking


def _with_columns_for(labels: sp.csr_array, loadings: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return V, K×P, with orthonormal columns for the unit vectors of the labels of points that it lacks."""
    lacking = _lacking(labels, loadings)
    if not len(lacking):
        return loadings
    orthogonal = -loadings @ loadings[lacking].T
    orthogonal[lacking, np.arange(len(lacking))] += 1
    vectors, lengths, _ = np.linalg.svd(orthogonal, full_matrices=False)
    # Two labels that always occur together can need the same column.
    return np.hstack([loadings, vectors[:, lengths > SHORTEST]])


def _solve_few(covariance: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    try:
        factor = cho_factor(covariance, lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise NumericalError(UNSOLVED) from error
    solution: NDArray[np.float32] = cho_solve(factor, right, check_finite=False)
    return solution


def bytes_of_adding(N: int, n: int, K: int, E: int = 0) -> int:
    """Return the memory of the largest arrays of `add_points`: K_AA, and those of all N + n points."""
    return 4 * (min(N, ACTIVE) + n) ** 2 + 8 * (N + n) * min(RANK, K, N + n) + 4 * (N + n) * E


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
