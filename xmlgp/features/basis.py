"""The fixed basis X̃ of the subspace: the right singular vectors of X with the largest singular values.

For few features XᵀX is computed and decomposed exactly. For more, powers of XᵀX are applied to a random block of
vectors (Halko, Martinsson, Tropp: Finding structure with randomness, SIAM Review 53, 2011), in single precision;
neither XᵀX nor any array of the size N×R is computed. Each power is shifted so that unwanted singular values decay
faster, as in Feng, Yu: Algorithm 1050 (dashSVD), ACM Transactions on Mathematical Software 50, 2024. The vectors are
those of the Nyström approximation of XᵀX from the last block and its image (Tropp, Yurtsever, Udell, Cevher: Fixed-rank
approximation of a positive-semidefinite matrix, NIPS 2017), which needs one product less than a projection onto the
image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri
from scipy.sparse import csr_array

from xmlgp.features.gram import Gram
from xmlgp.linear_algebra import dense
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.runtime.work import THIS_MACHINE, Work

__all__ = ["truncated_svd_basis"]

#: Features up to which XᵀX is computed and decomposed exactly.
GRAM_LIMIT = 3000

#: Powers of XᵀX. With as many, scikit-learn's randomised SVD in double precision explains no more of X.
POWER_ITERATIONS = 4

#: Additional vectors, the number that Halko, Martinsson, Tropp recommend.
OVERSAMPLING = 10

#: Columns of a triangular matrix that are multiplied at a time.
TRIANGLE_BLOCK = 256

#: Power iterations for the norm of a small matrix, whose order of magnitude is enough.
NORM_ITERATIONS = 20

#: Rounding errors of a matrix relative to its norm, in units of its precision.
ROUNDING = 10

#: Elements that are converted to double precision at a time.
PRECISE_CHUNK = 1 << 23

#: Eigenvalues of XᵀX below this share of the largest one are noise.
RANK_TOLERANCE = 1e-6

#: Largest inner product of different basis vectors.
ORTHOGONALITY = 5e-6

#: Rounds of orthogonalisation. Two are enough for any condition number; further ones are a safeguard.
ORTHOGONALISATIONS = 4


def truncated_svd_basis(
    features: csr_array, size: int, seed: int, progress: Progress = silent, work: Work = THIS_MACHINE
) -> NDArray[np.float32]:
    """Return the top min(R, N, D) right singular vectors of weighted X, N×D, as the rows of X̃, R×D ([S] section 2.2).

    They are orthonormal, in descending order of singular values, in float32, and the transpose of a C-contiguous array,
    as products with rows of X need it. The randomised method uses the seed. With more than `GRAM_LIMIT` features the
    memory is twice that of the result, and a little for each core. `work` computes the products with XᵀX.
    """
    size = min(size, *features.shape)
    # The scale of XᵀX does not change its eigenvectors.
    gram = Gram(features, work)
    if features.shape[1] <= GRAM_LIMIT:
        vectors = _exact(gram, size)
    else:
        with one_blas_thread():
            vectors = _randomised(gram, features.shape[1], size, seed, progress)
    basis: NDArray[np.float32] = vectors.T
    return basis


def _exact(gram: Gram, size: int) -> NDArray[np.float32]:
    """Return the vectors, D×R, from the eigenvectors of XᵀX."""
    # Computing all eigenvectors by divide and conquer is faster than half of them by bisection.
    _, vectors = np.linalg.eigh(gram.matrix())
    return np.ascontiguousarray(vectors[:, ::-1][:, :size], dtype=np.float32)


def _randomised(gram: Gram, D: int, size: int, seed: int, progress: Progress) -> NDArray[np.float32]:
    """Return the vectors, D×R, by shifted powers of XᵀX."""
    random = np.random.default_rng(seed)
    width = min(size + OVERSAMPLING, D)
    block = random.standard_normal((D, width), np.float32)
    image = np.empty_like(block)
    total = (POWER_ITERATIONS + 1) * gram.panel_count(width)
    with progress("truncated SVD", total=total, unit=" panels") as bar:
        shift = 0.0
        for iteration in range(POWER_ITERATIONS):
            gram.product(block, shift, image, bar)
            inverse, least = _inverse_root(_precise_gram(image))
            if iteration:
                # The block was orthonormal, so its smallest image bounds the smallest eigenvalue in its span.
                shift = max(shift, (shift + least) / 2)
            _triangular_product(image, inverse, out=block)
        gram.product(block, 0.0, image, bar)
    square = dense.product(block.T, image)
    root, _ = _inverse_root((square + square.T) / 2)
    eigenvalues, vectors = np.linalg.eigh(root.T @ _precise_gram(image) @ root)
    eigenvalues = eigenvalues[::-1][:size]
    vectors = vectors[:, ::-1][:, :size]
    rank = np.count_nonzero(eigenvalues > RANK_TOLERANCE * eigenvalues[0])
    basis, spare = (buffer.ravel()[: D * size].reshape(D, size) for buffer in (block, image))
    rotation = root @ (vectors / np.sqrt(np.where(np.arange(size) < rank, eigenvalues, 1)))
    basis = dense.product(image, rotation.astype(np.float32), out=basis)
    # Beyond the rank of X, any vectors that are orthogonal to the others are singular vectors.
    basis[:, rank:] = random.standard_normal((D, size - rank), np.float32) / np.sqrt(D)
    return _orthonormal(basis, spare)


def _inverse_root(gram: NDArray[Any]) -> tuple[NDArray[np.float32], float]:
    """Return T for which the columns of BT are almost orthonormal, with `gram` = BᵀB, and B's least singular value.

    T is upper triangular, so the first columns of BT span the same space as those of B.
    """
    # The size of what rounding hides; with it added, the factorisation exists for any B.
    hidden = ROUNDING * float(np.finfo(gram.dtype).eps) * np.linalg.norm(gram) or 1.0
    lifted = gram.astype(np.float64)
    lifted.flat[:: len(gram) + 1] += hidden
    inverse, _ = dtrtri(np.linalg.cholesky(lifted), lower=1)
    vector = np.ones(len(gram))
    for _ in range(NORM_ITERATIONS):
        vector = inverse.T @ (inverse @ (vector / np.linalg.norm(vector)))
    least = 1 / np.linalg.norm(vector) - 2 * hidden
    return inverse.T.astype(np.float32), max(least, 0.0) ** 0.5


def _precise_gram(matrix: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return BᵀB in double precision, so that a large singular value does not hide small ones."""
    rows = max(1, PRECISE_CHUNK // matrix.shape[1])
    blocks = (matrix[i : i + rows].astype(np.float64) for i in range(0, len(matrix), rows))
    total = np.zeros(())
    for block in blocks:
        total = total + dense.gram(block)
    return total


def _orthonormal(basis: NDArray[np.float32], spare: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return orthonormal columns, of which the first span the same space as those of `basis`, in one of two arrays."""
    for _ in range(ORTHOGONALISATIONS):
        gram = dense.gram(basis)
        if np.abs(gram - np.eye(len(gram), dtype=gram.dtype)).max() < ORTHOGONALITY:
            break
        inverse, _ = _inverse_root(gram)
        _triangular_product(basis, inverse, out=spare)
        basis, spare = spare, basis
    return basis


def _triangular_product(left: NDArray[np.float32], right: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the product of a matrix, D×L, and an upper triangular one, L×L, to `out`, without most of the zeros."""
    for start in range(0, len(right), TRIANGLE_BLOCK):
        stop = start + TRIANGLE_BLOCK
        dense.product(left[:, :stop], right[:stop, start:stop], out=out[:, start:stop])
