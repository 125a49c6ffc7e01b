"""Standardised features: mean 0 and variance 1 over the training points."""

import numpy as np

from xmlgp.preprocess.weighting import row_chunks

__all__ = ["mean_and_scale"]

#: Stored elements that are worked on at a time: temporary arrays of double precision stay in a core's cache.
CHUNK = 1 << 16


def mean_and_scale(features):
    """Return the mean of each feature over all points, zeros included, and 1 over its standard deviation.

    Deviations are taken from the mean itself, so that those of features like 1.6e9 ± 1 are not lost in rounding. The
    scale of a feature that is the same in all points is 0: what it is elsewhere says nothing.

    Parameters
    ----------
    features : csr_array, N×D

    Returns
    -------
    mean, scale : ndarray, D
        In double precision.
    """
    N, D = features.shape
    # Sums of differences from a point are exactly zero where all points are alike.
    start = np.zeros(D)
    first = slice(features.indptr[0], features.indptr[1])
    start[features.indices[first]] = features.data[first]
    mean = start + _sums(features, start)[0] / N
    sums, squares = _sums(features, mean)
    # What the mean is off by through rounding.
    off = sums / N
    variance = np.maximum(squares / N - off**2, 0)
    scale = np.zeros(D)
    np.divide(1, np.sqrt(variance), out=scale, where=variance > 0)
    return mean + off, scale


def _sums(features, shift):
    """Return the sums of x − shift and of its square over all points, of each feature."""
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
