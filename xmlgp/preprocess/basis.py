"""The fixed basis X̃ of the subspace: the right singular vectors of X of largest singular value.

With few features XᵀX is formed and decomposed exactly. Beyond that its powers are applied to a random block of
vectors (Halko, Martinsson, Tropp: Finding structure with randomness, SIAM Review 53, 2011), in single precision and
of large products alone: XᵀX is never formed and nothing has the size N×R. Each power is shifted so that unwanted
singular values fall off faster, as in Feng, Yu: Algorithm 1050 (dashSVD), ACM Transactions on Mathematical
Software 50, 2024. The vectors are those of the Nyström approximation of XᵀX from the last block and its image (Tropp,
Yurtsever, Udell, Cevher: Fixed-rank approximation of a positive-semidefinite matrix, NIPS 2017), which costs one
product less than projecting onto the image.
"""

import functools
import threading

import numpy as np
from scipy.linalg.lapack import dtrtri

from xmlgp.linear_algebra import dense
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = ["truncated_svd_basis"]

#: Features up to which XᵀX is formed and its eigenvectors are computed exactly.
GRAM_LIMIT = 3000

#: Stored elements whose part of XᵀX is formed at a time.
GRAM_CHUNK = 1 << 20

#: Powers of XᵀX: with as many, scikit-learn's randomised SVD in double precision captures no more of X.
POWER_ITERATIONS = 4

#: Vectors beyond those wanted, the number of Halko, Martinsson, Tropp.
OVERSAMPLING = 10

#: Vectors that are multiplied together: their elements of the most frequent features stay in a core's cache.
PANEL = 128

#: Columns of a triangular matrix that are multiplied together.
TRIANGLE_BLOCK = 256

#: Power iterations for the norm of a small matrix, of which the order of magnitude matters.
NORM_ITERATIONS = 20

#: Part of the norm of a matrix that is rounding, in units of its precision.
ROUNDING = 10

#: Elements that are taken in double precision at a time.
PRECISE_CHUNK = 1 << 23

#: Part of the largest eigenvalue of XᵀX below which vectors are noise.
RANK_TOLERANCE = 1e-6

#: Inner products of different basis vectors are smaller than this.
ORTHOGONALITY = 5e-6

#: Rounds of orthogonalisation: the first reduces any condition to one that the second can mend, and one to be sure.
ORTHOGONALISATIONS = 4


def truncated_svd_basis(features, size, seed, progress=silent):
    """Return the top right singular vectors of X as the rows of X̃ ([S] section 2.2).

    Beyond `GRAM_LIMIT` features memory is twice that of the result and a little for each core.

    Parameters
    ----------
    features : csr_array, N×D
        X, weighted, in float32.
    size : int
        R; at most min(N, D) vectors are returned.
    seed : int
        Of the randomised method.
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    ndarray, R×D
        float32, orthonormal rows, in descending order of singular value; the transpose of a C-contiguous array, for
        products with rows of X.
    """
    size = min(size, *features.shape)
    # Scale does not change singular vectors, but its high powers, as they occur here, can leave single precision.
    scale = 1 / float(max(features.data.max(initial=0), -features.data.min(initial=0)) or 1)
    if features.shape[1] <= GRAM_LIMIT:
        return _exact(features, scale, size).T
    with one_blas_thread():
        return _randomised(features, scale, size, seed, progress).T


def _exact(features, scale, size):
    """Return the vectors, D×R, from all eigenvectors of XᵀX."""
    N, D = features.shape
    gram = np.zeros((D, D))
    rows = max(1, N * GRAM_CHUNK // max(1, features.nnz))
    for start in range(0, N, rows):
        # Squares in single precision would hide what is below the 3000th part of the largest singular value.
        chunk = features[start : start + rows].astype(np.float64) * scale
        gram += (chunk.T @ chunk).toarray()
    # All eigenvectors by divide and conquer take less time than half of them by bisection.
    _, vectors = np.linalg.eigh(gram)
    return np.ascontiguousarray(vectors[:, ::-1][:, :size], dtype=np.float32)


def _randomised(features, scale, size, seed, progress):
    """Return the vectors, D×R, by shifted powers of XᵀX."""
    D = features.shape[1]
    random = np.random.default_rng(seed)
    width = min(size + OVERSAMPLING, D)
    block = random.standard_normal((D, width), np.float32)
    image = np.empty_like(block)
    total = (POWER_ITERATIONS + 1) * -(-width // PANEL)
    with progress("truncated SVD", total=total, unit="panel") as bar:
        shift = 0.0
        for iteration in range(POWER_ITERATIONS):
            _shifted_gram(features, scale, block, shift, image, bar)
            inverse, least = _inverse_root(_precise_gram(image))
            if iteration:
                # The block was orthonormal, so its least image tells of the least eigenvalue in reach.
                shift = max(shift, (shift + least) / 2)
            _triangular_product(image, inverse, out=block)
        _shifted_gram(features, scale, block, 0.0, image, bar)
    square = dense.product(block.T, image)
    root, _ = _inverse_root((square + square.T) / 2)
    eigenvalues, vectors = np.linalg.eigh(root.T @ _precise_gram(image) @ root)
    eigenvalues, vectors = eigenvalues[::-1][:size], vectors[:, ::-1][:, :size]
    rank = np.count_nonzero(eigenvalues > RANK_TOLERANCE * eigenvalues[0])
    basis, spare = (buffer.ravel()[: D * size].reshape(D, size) for buffer in (block, image))
    rotation = root @ (vectors / np.sqrt(np.where(np.arange(size) < rank, eigenvalues, 1)))
    basis = dense.product(image, rotation.astype(np.float32), out=basis)
    # Beyond the rank of X any vectors orthogonal to the others will do.
    basis[:, rank:] = random.standard_normal((D, size - rank), np.float32) / np.sqrt(D)
    return _orthonormal(basis, spare)


def _shifted_gram(features, scale, matrix, shift, out, bar):
    """Put (scale² XᵀX − shift I) times a matrix, D×L, into `out`."""
    reporting = threading.Lock()

    def panel(columns):
        right = np.ascontiguousarray(matrix[:, columns])
        total = right * np.float32(-shift)
        _add_gram(features.indptr, features.indices, features.data, scale, right, total)
        out[:, columns] = total
        with reporting:
            bar.update()

    run_parallel(functools.partial(panel, slice(i, i + PANEL)) for i in range(0, matrix.shape[1], PANEL))


@compiled
def _add_gram(indptr, indices, data, scale, right, total):
    width = right.shape[1]
    point = np.empty(width, right.dtype)
    for i in range(len(indptr) - 1):
        start, end = indptr[i], indptr[i + 1]
        point[:] = 0
        e = start
        # Four features at a time: the point is read and written a quarter as often.
        while e + 4 <= end:
            d0, d1 = right.dtype.type(data[e] * scale), right.dtype.type(data[e + 1] * scale)
            d2, d3 = right.dtype.type(data[e + 2] * scale), right.dtype.type(data[e + 3] * scale)
            r0, r1, r2, r3 = right[indices[e]], right[indices[e + 1]], right[indices[e + 2]], right[indices[e + 3]]
            for j in range(width):
                point[j] += d0 * r0[j] + d1 * r1[j] + d2 * r2[j] + d3 * r3[j]
            e += 4
        while e < end:
            d, r = right.dtype.type(data[e] * scale), right[indices[e]]
            for j in range(width):
                point[j] += d * r[j]
            e += 1
        for e in range(start, end):
            d, t = right.dtype.type(data[e] * scale), total[indices[e]]
            for j in range(width):
                t[j] += d * point[j]


def _inverse_root(gram):
    """Return T such that the columns of BT are close to orthonormal, where `gram` is BᵀB; and B's least singular value.

    T is upper triangular, so that BT spans what B does, column by column.
    """
    # Whatever rounding hides is taken for so large: the factorisation exists for any B.
    hidden = ROUNDING * float(np.finfo(gram.dtype).eps) * np.linalg.norm(gram) or 1.0
    lifted = gram.astype(np.float64)
    lifted.flat[:: len(gram) + 1] += hidden
    inverse, _ = dtrtri(np.linalg.cholesky(lifted), lower=1)
    vector = np.ones(len(gram))
    for _ in range(NORM_ITERATIONS):
        vector = inverse.T @ (inverse @ (vector / np.linalg.norm(vector)))
    least = 1 / np.linalg.norm(vector) - 2 * hidden
    return inverse.T.astype(np.float32), max(least, 0.0) ** 0.5


def _precise_gram(matrix):
    """Return BᵀB in double precision: a large singular value would hide small ones, the squares of both more so."""
    rows = max(1, PRECISE_CHUNK // matrix.shape[1])
    return sum(dense.gram(matrix[i : i + rows].astype(np.float64)) for i in range(0, len(matrix), rows))


def _orthonormal(basis, spare):
    """Return orthonormal columns that span the same, column by column, in one of two arrays."""
    for _ in range(ORTHOGONALISATIONS):
        gram = dense.gram(basis)
        if np.abs(gram - np.eye(len(gram), dtype=gram.dtype)).max() < ORTHOGONALITY:
            break
        inverse, _ = _inverse_root(gram)
        _triangular_product(basis, inverse, out=spare)
        basis, spare = spare, basis
    return basis


def _triangular_product(left, right, out):
    """Put the product of a matrix, D×L, and an upper triangular one, L×L, into `out`, sparing most of the zeros."""
    for start in range(0, len(right), TRIANGLE_BLOCK):
        stop = start + TRIANGLE_BLOCK
        dense.product(left[:, :stop], right[:stop, start:stop], out=out[:, start:stop])
