"""Standardised features: mean 0 and variance 1 over the training points."""

import numpy as np

from xmlgp.preprocess.weighting import row_chunks

__all__ = ["mean_and_scale"]

#: Stored elements that are processed at a time, so that temporary arrays stay in a core's cache.
CHUNK = 1 << 16


def mean_and_scale(features):
    """Return the mean of each feature over all points, zeros included, and the inverse of its standard deviation, D.

    The variance is a sum of squared deviations from the mean, so that features like 1.6e9 ± 1 keep their precision. The
    scale of a constant feature is 0, because other values of it have no known meaning.
    """
    N, D = features.shape
    # Differences from a point are exactly zero for constant features.
    start = np.zeros(D)
    first = slice(features.indptr[0], features.indptr[1])
    start[features.indices[first]] = features.data[first]
    mean = start + _sums(features, start)[0] / N
    sums, squares = _sums(features, mean)
    # Corrects the rounding of the mean.
    error = sums / N
    variance = np.maximum(squares / N - error**2, 0)
    scale = np.zeros(D)
    np.divide(1, np.sqrt(variance), out=scale, where=variance > 0)
    return mean + error, scale


def _sums(features, shift):
    """Return the sums of x − shift and of its square over all points, for each feature."""
    N, D = features.shape
    counts, sums, squares = np.zeros((3, D))
    for rows in row_chunks(features, max(CHUNK, D)):
        part = slice(features.indptr[rows.start], features.indptr[rows.stop])
        indices = features.indices[part]
        values = features.data[part] - shift[indices]
        counts += np.bincount(indices, minlength=D)
        sums += np.bincount(indices, values, D)
        squares += np.bincount(indices, np.square(values), D)
    absent = N - counts
    return sums - absent * shift, squares + absent * np.square(shift)
