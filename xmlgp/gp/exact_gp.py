"""Exact Gaussian process regression on the labels, without inducing inputs.

Labels are treated as real numbers with Gaussian noise: least-squares classification. All labels share the kernel and
the noise, so there is one linear system. The centred label matrix is replaced by its best approximation of rank P, so
there are P right-hand sides, solved for by conjugate gradients. The kernel is the squared exponential of weighted
features, with unit variance. Features may be scaled by relevances (`scaled_features`): learning them here would take a
solution for every step.

Source: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 6.5.
"""

import functools
import threading
from typing import NamedTuple

import numpy as np
from scipy.special import logit

from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import conjugate_gradients, dense, sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = [
    "LENGTHSCALE",
    "NOISE",
    "POOL_WEIGHT",
    "PROBABILITY_MARGIN",
    "ExactGP",
    "ExactGPFit",
    "add_points",
    "are_valid",
    "fit_exact_gp",
    "logarithmic_pool",
    "scaled_features",
]

#: ℓ, for points of unit length.
LENGTHSCALE = 0.7

#: Variance of the noise; that of the kernel is one.
NOISE = 0.5

#: Distance of pooled predictions from 0 and 1, which least squares exceed. From 0.001 to 0.01 this value has the least
#: log loss on validation points of Bibtex and Delicious.
PROBABILITY_MARGIN = 0.003

#: Weight of the utilities in the logarithmic pool, and of the log odds of the predictions.
POOL_WEIGHT = 0.5

#: Most labels for which the eigenvectors of their Gram matrix are computed; for more the randomised method is faster.
GRAM_LIMIT = 2000

#: Power iterations and additional vectors of the randomised method. On Delicious, 100 to 300 vectors capture at least
#: 1 − 1e-4 of the variance that the exact ones do.
POWERS, OVERSAMPLING = 10, 50

#: Points per block of covariances with the training points.
ROWS = 128

#: Earlier points whose weights change, beside those of new points, where a fitted regression gets more points.
ACTIVE = 4096


class ExactGPFit(NamedTuple):
    """The fitted arrays: the prediction at a point x is π + k(x, X) α Vᵀ.

    α is N×P, the weights; V is K×P, the loadings, with orthonormal columns; π is K, the mean, the frequency of each
    label.
    """

    weights: np.ndarray
    loadings: np.ndarray
    mean: np.ndarray


def fit_exact_gp(features, labels, rank, progress=silent, leading=None):
    """Return the `ExactGPFit` with α = (K_XX + noise I)⁻¹ (Y − 1πᵀ) V, in single precision.

    X is N×D and weighted, Y is N×K; P is min(rank, K, N). V are the first P right singular vectors of Y − 1πᵀ. The
    solutions are those of `conjugate_gradients.solve`; they take memory for K_XX, N×N. If `leading` is given, return a
    pair: that of all points, and one fitted to so many of the first points, with the same π and V; the weights of all
    points start from its weights. If there is no solution, or squares of features overflow single precision, raise
    NumericalError.
    """
    labels = labels.astype(np.float32)
    mean = labels.sum(axis=0, dtype=np.float64) / max(1, labels.shape[0])
    with one_blas_thread():
        loadings = _singular_vectors(labels, mean, min(rank, *labels.shape))
        mean = mean.astype(np.float32)
        weights = _project(labels, mean, loadings)
        covariance = _noisy_covariance(features, progress)
        first = start = None
        if leading:
            first = _solve(covariance[:leading, :leading], weights[:leading], progress)
            start = np.zeros_like(weights)
            start[:leading] = first
        weights = _solve(covariance, weights, progress, start)
    fit = ExactGPFit(weights, loadings, mean)
    return (fit, fit._replace(weights=first)) if leading else fit


def _project(labels, mean, loadings):
    """Return (Y − 1πᵀ) V."""
    projected = sparse.product(labels, loadings)
    projected -= mean @ loadings
    return projected


def _solve(covariance, right, progress, start=None):
    try:
        return conjugate_gradients.solve(covariance, right, start, progress)
    except np.linalg.LinAlgError as error:
        raise NumericalError(
            "the regression cannot be solved: features are not finite, or the noise variance is too small"
        ) from error


def add_points(features, labels, weights, loadings, count, rank, seed):
    """Return the regression with more points (`ExactGPFit`).

    The first `count` of the N points are those it was fitted to. V and π become those of all points, and α V_oldᵀ V is
    where α starts, with zeros for the new points. With A, the new points and at most `ACTIVE` of the others drawn at
    random, the rows of α of A then change by the solution of

        (K_AA + noise I) Δ = [(Y − 1πᵀ) V − (K_XX + noise I) α]_A,

    a step of block coordinate descent on the squared error, which has the exact regression as its minimum. With no
    more than `ACTIVE` earlier points it reaches that. Time and memory grow with the new points and `ACTIVE`, and not
    with N³. V_old has rows of zeros for new labels; the seed, a sequence of int, determines the draw. Otherwise as in
    `fit_exact_gp`.
    """
    N, labels = labels.shape[0], labels.astype(np.float32)
    mean = labels.sum(axis=0, dtype=np.float64) / max(1, N)
    with one_blas_thread():
        vectors = _singular_vectors(labels, mean, min(rank, *labels.shape))
        mean = mean.astype(np.float32)
        alpha = np.zeros((N, vectors.shape[1]), np.float32)
        alpha[:count] = dense.product(weights, dense.product(loadings.T, vectors))
        earlier = np.arange(count)
        if count > ACTIVE:
            earlier = np.sort(np.random.default_rng(seed).choice(count, ACTIVE, replace=False))
        rows = np.concatenate([earlier, np.arange(count, N)])
        chosen = features[rows]
        change = _project(labels[rows], mean, vectors)
        change -= ExactGP(features, alpha).latent(chosen)
        change -= np.float32(NOISE) * alpha[rows]
        alpha[rows] += _solve(_noisy_covariance(chosen, silent), change, silent)
    return ExactGPFit(alpha, vectors, mean)


def scaled_features(features, scales):
    """Return x_id s_d with every point as long as before, N×D; s, D, are the square roots of relevances."""
    scaled = features.astype(np.float32)
    scaled.data *= scales[scaled.indices]
    lengths, before = (np.sqrt(matrix.multiply(matrix).sum(axis=1, dtype=np.float64)) for matrix in (scaled, features))
    ratio = np.divide(before, lengths, out=np.ones_like(lengths), where=lengths > 0).astype(np.float32)
    scaled.data *= np.repeat(ratio, np.diff(scaled.indptr))
    return scaled


def are_valid(parameters, D, K):
    """Return whether the regression among the parameters of an untrusted file fits itself and the model.

    Compiled loops do not check indices. A model may have none. It has `indptr`, `indices` and `values` of X, the fields
    of `ExactGPFit`, and perhaps `scales`, and `label_indptr` and `labels` of Y.
    """
    arrays = {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith("regression.")}
    if not arrays:
        return True
    scales = arrays.pop("scales", np.zeros(D, np.float32))
    pattern = [arrays.pop(name) for name in ("label_indptr", "labels") if name in arrays]
    if arrays.keys() != {"indptr", "indices", "values", *ExactGPFit._fields}:
        return False
    indptr, indices, values = (arrays[name] for name in ("indptr", "indices", "values"))
    weights, loadings, mean = (arrays[name] for name in ExactGPFit._fields)
    return bool(
        all(array.dtype in (np.float32, np.float64) for array in (values, weights, loadings, mean, scales))
        and scales.shape == (D,)
        and weights.ndim == 2
        and sparse.is_pattern(indptr, indices, len(weights), D)
        and values.shape == indices.shape
        and loadings.shape == (K, weights.shape[1])
        and mean.shape == (K,)
        and (not pattern or (len(pattern) == 2 and sparse.is_pattern(*pattern, len(weights), K)))
    )


class ExactGP:
    """The fitted regression, for predictions, given X as it was fitted to and α, N×P."""

    def __init__(self, features, weights):
        self._kernel = _Kernel(features)
        self._weights = np.ascontiguousarray(weights)

    def latent(self, points):
        """Return the latent predictions k(points, X) α, B×P, in memory for `ROWS`×N numbers per core."""
        count = points.shape[0]
        out = np.empty((count, self._weights.shape[1]), np.float32)

        # The size of blocks, and so the result, does not depend on the number of cores.
        def chunk(start):
            stop = min(start + ROWS, count)
            covariance = np.empty((stop - start, len(self._weights)), np.float32)
            self._kernel.fill(points, start, stop, covariance)
            np.matmul(covariance, self._weights, out=out[start:stop])

        with one_blas_thread():
            run_parallel(functools.partial(chunk, start) for start in range(0, count, ROWS))
        return out


def logarithmic_pool(predictions, mean, variance=None):
    """Replace the moments of utilities f by those of ½ f + ½ logit(g), the logarithmic pool of σ(f) and g, in place.

    g are the predictions of the regression, clipped to [0, 1] and moved inwards by `PROBABILITY_MARGIN`; they overwrite
    these.
    """
    np.clip(predictions, 0, 1, out=predictions)
    predictions += PROBABILITY_MARGIN
    predictions /= 1 + 2 * PROBABILITY_MARGIN
    mean += logit(predictions)
    mean *= POOL_WEIGHT
    if variance is not None:
        variance *= POOL_WEIGHT**2


class _Kernel:
    """The covariances exp(−‖x − x′‖² / 2ℓ²) of points x and training points x′."""

    def __init__(self, features):
        # The entries of a row are sorted by point.
        self._transposed = features.T.tocsr().astype(np.float32, copy=False)
        with np.errstate(over="ignore"):
            self._half_norms = 0.5 * features.multiply(features).sum(axis=1, dtype=np.float64).astype(np.float32)
        if np.isinf(self._half_norms).any():
            raise NumericalError(
                "regression needs features whose squares are within single precision; "
                "try another weighting, or regression_points=0"
            )
        self._precision = np.float32(1 / LENGTHSCALE**2)

    def fill(self, points, start, stop, out):
        """Fill `out` with the covariances of points[start:stop] and the first out.shape[1] training points."""
        arrays = [(matrix.indptr, matrix.indices, matrix.data) for matrix in (points, self._transposed)]
        _fill_exponents(*arrays[0], *arrays[1], self._half_norms, self._precision, start, stop, out)
        np.exp(out, out=out)


@compiled
def _fill_exponents(indptr, indices, data, by_feature, holders, values, half_norms, precision, start, stop, out):
    """Fill in −‖x − x′‖² / 2ℓ² by inner products; `half_norms` are ½‖x′‖² of the training points."""
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
            exponent = (row[j] - half - half_norms[j]) * precision
            # A squared distance below zero is a rounding error.
            row[j] = real(0) if exponent > real(0) else exponent


def _noisy_covariance(features, progress):
    """Return K_XX + noise I, N×N."""
    count = features.shape[0]
    kernel = _Kernel(features)
    covariance = np.empty((count, count), np.float32)
    starts = range(0, count, ROWS)
    bar_lock = threading.Lock()

    def chunk(start):
        stop = min(start + ROWS, count)
        block = covariance[start:stop, :stop]
        kernel.fill(features, start, stop, block)
        covariance[:start, start:stop] = block[:, :start].T
        with bar_lock:
            bar.update()

    with progress("covariances", total=len(starts), unit="block") as bar:
        # Larger tasks first, for balance.
        run_parallel(functools.partial(chunk, start) for start in reversed(starts))
    covariance.flat[:: count + 1] += np.float32(NOISE)
    return covariance


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
