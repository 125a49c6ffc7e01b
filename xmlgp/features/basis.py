"""The fixed basis X̃ of the subspace: the right singular vectors of X with the largest singular values.

For few features XᵀX is computed and decomposed exactly. For more, powers of XᵀX are applied to a random block of
vectors, each followed by a QR decomposition (Halko, Martinsson, Tropp: Finding structure with randomness, SIAM Review
53, 2011), and shifted, so that unwanted singular values decay faster (Feng, Yu: Algorithm 1050, ACM Transactions on
Mathematical Software 50, 2024). `sklearn.utils.extmath.randomized_svd` has arrays of the size N×R, takes two to three
times as long, and explains less of X.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import consecutive_rows
from xmlgp.features.weighting import largest_magnitude, row_chunks
from xmlgp.linear_algebra import dense, sparse
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.threads import one_blas_thread

__all__ = ["truncated_svd_basis"]

#: Features up to which XᵀX is computed and decomposed exactly.
GRAM_LIMIT = 3000

#: Powers of XᵀX. With five, the vectors explain more of texts than those of scikit-learn with n_iter=4.
POWERS = 5

#: Additional vectors, the number that Halko, Martinsson, Tropp recommend.
OVERSAMPLING = 10

#: Stored elements of a row shard, a block of work: some tenths of a second, little memory. The result is a sum for each
#: feature, so there are some elements for each: then adding the sums takes little time.
SHARD = 1 << 22
SHARE = 64

#: Vectors that are multiplied at a time, so that a worker of a cluster needs little memory.
PANEL = 256


def truncated_svd_basis(
    features: csr_array, size: int, seed: int, executor: Executor = LOCAL_EXECUTOR
) -> NDArray[np.float32]:
    """Return the top min(R, N, D) right singular vectors of weighted X, N×D, as the rows of X̃, R×D ([S] section 2.2).

    They are orthonormal, in descending order of singular values, in float32, and the transpose of a C-contiguous array,
    as products with rows of X need it. The randomised method uses the seed. `executor` computes products with XᵀX, by
    row shards that are chosen by X alone, so that results do not depend on where they are computed.
    """
    size = min(size, *features.shape)
    # Features are divided by the largest, because products with XᵀX could overflow; their scale changes no vector.
    shared = features, 1 / (largest_magnitude(features) or 1)
    with one_blas_thread():
        exact = features.shape[1] <= GRAM_LIMIT
        vectors = _exact(shared, executor) if exact else _randomised(shared, size, seed, executor)
    basis: NDArray[np.float32] = np.ascontiguousarray(vectors[:, :size], np.float32).T
    return basis


def _shards(features: csr_array) -> list[slice]:
    """Return the rows of X that are multiplied at a time."""
    return row_chunks(features, max(SHARD, SHARE * features.shape[1]))


def _exact(shared: tuple[csr_array, float], executor: Executor) -> NDArray[np.float64]:
    """Return all right singular vectors, D×D, the eigenvectors of XᵀX."""
    features, _ = shared
    gram = np.zeros((features.shape[1],) * 2)
    for part in executor.map(_gram, ((rows,) for rows in _shards(features)), shared):
        gram += part
    # Computing all eigenvectors by divide and conquer is faster than half of them by bisection.
    return np.linalg.eigh(gram)[1][:, ::-1]


def _gram(shared: tuple[csr_array, float], rows: slice) -> NDArray[np.float64]:
    """Return the part of some rows in XᵀX, D×D."""
    features, scale = shared
    # In single precision, squares would hide singular values below 1/3000 of the largest.
    X = consecutive_rows(features, rows).astype(np.float64) * scale
    gram: NDArray[np.float64] = (X.T @ X).toarray()
    return gram


def _randomised(shared: tuple[csr_array, float], size: int, seed: int, executor: Executor) -> NDArray[np.float32]:
    """Return at least `size` approximate right singular vectors, by powers of XᵀX."""
    import scipy.linalg

    features, _ = shared
    D = features.shape[1]
    width = min(size + OVERSAMPLING, D)
    block = np.random.default_rng(seed).standard_normal((D, width), np.float32) / np.float32(np.sqrt(D))
    shift = np.float32(0)
    shards = _shards(features)
    panels = [slice(start, start + PANEL) for start in range(0, width, PANEL)]
    for _ in range(POWERS):
        image = np.multiply(block, -shift, order="F")
        for columns in panels:
            vectors = np.ascontiguousarray(block[:, columns])
            for part in executor.map(_product, ((rows, vectors) for rows in shards), shared):
                image[:, columns] += part
        block, triangle = scipy.linalg.qr(image, overwrite_a=True, mode="economic", check_finite=False)
        # At most half of the least eigenvalue that is wanted, so that unwanted ones do not grow.
        shift = max(shift, (shift + np.linalg.svd(triangle, compute_uv=False)[-1]) / 2)
    # The left singular vectors of the last image, whose first ones converge to the eigenvectors of XᵀX.
    rotation, _, _ = np.linalg.svd(triangle)
    return dense.product(block, rotation)


def _product(shared: tuple[csr_array, float], rows: slice, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of the part of some rows in XᵀX with some vectors, D×L."""
    features, scale = shared
    X = consecutive_rows(features, rows) * np.float32(scale)
    product: NDArray[np.float32] = sparse.product(X.T.tocsr(), sparse.product(X, vectors))
    return product
