"""Feature weighting: inverse document frequencies and rows of unit length."""

import numpy as np
import scipy.sparse as sp

__all__ = ["inverse_document_frequency", "weigh"]


def inverse_document_frequency(features):
    """Return log((1 + N)/(1 + n_d)) + 1 for each feature d that n_d of the N points have.

    Parameters
    ----------
    features : csr_array, N×D

    Returns
    -------
    ndarray, D
    """
    counts = np.bincount(features.indices, minlength=features.shape[1])
    return (np.log((1 + features.shape[0]) / (1 + counts)) + 1).astype(np.float32)


def weigh(features, idf, unit):
    """Return weighted features.

    Parameters
    ----------
    features : csr_array, N×D
    idf : ndarray, D, or None
        Weight of each feature.
    unit : bool
        Scale each row to unit length; rows of zeros stay.

    Returns
    -------
    csr_array, N×D
        float32, sharing the index arrays of `features`.
    """
    # In double precision, where neither weights nor squares of single precision numbers overflow.
    values = features.data.astype(np.float64)
    if idf is not None:
        values *= idf[features.indices]
    if unit:
        rows = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
        norms = np.sqrt(np.bincount(rows, np.square(values), features.shape[0]))
        norms[norms == 0] = 1
        values /= norms[rows]
    return sp.csr_array((values.astype(np.float32), features.indices, features.indptr), shape=features.shape)
