"""The fixed basis X̃ of the subspace: the right singular vectors of X of largest singular value."""

import numpy as np
from sklearn.utils.extmath import randomized_svd

__all__ = ["truncated_svd_basis"]

#: Features up to which XᵀX is formed and its eigenvectors are computed exactly.
GRAM_LIMIT = 3000

#: Power iterations of the randomised method beyond it.
POWER_ITERATIONS = 2


def truncated_svd_basis(features, size, seed):
    """Return the top right singular vectors of X as the rows of X̃ ([S] section 2.2).

    Parameters
    ----------
    features : csr_array, N×D
        X, weighted.
    size : int
        R; at most min(N, D) vectors are returned.
    seed : int
        Of the randomised method.

    Returns
    -------
    ndarray, R×D
        float32, orthonormal rows, in descending order of singular value.
    """
    size = min(size, *features.shape)
    # Scale does not change singular vectors, but its high powers, as they occur here, can leave single precision.
    scaled = features.astype(np.float64) / (np.abs(features.data).max(initial=0) or 1)
    if features.shape[1] <= GRAM_LIMIT:
        # Squares in single precision would hide what is below the 3000th part of the largest singular value.
        gram = (scaled.T @ scaled).toarray()
        # All eigenvectors by divide and conquer take less time than half of them by bisection.
        _, vectors = np.linalg.eigh(gram)
        basis = vectors[:, ::-1][:, :size].T
    else:
        _, _, basis = randomized_svd(scaled.astype(np.float32), size, n_iter=POWER_ITERATIONS, random_state=seed)
    return np.ascontiguousarray(basis, dtype=np.float32)
