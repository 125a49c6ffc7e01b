"""Initial loadings and biases of MLGPF, the same for all methods."""

import numpy as np

__all__ = ["initial_bias", "random_rows"]

#: Number of rows that are drawn at a time, in double precision.
ROW_BLOCK = 1 << 14


def random_rows(count, width, random, dtype):
    """Return rows of mean square length one, count×width, ~ N(0, 1/width)."""
    rows = np.empty((count, width), dtype)
    for start in range(0, count, ROW_BLOCK):
        block = rows[start : start + ROW_BLOCK]
        block[:] = random.normal(0, width**-0.5, block.shape)
    return rows


def initial_bias(labels, dtype):
    """Return the log odds of each label's frequency, K, given Y.

    Half a count added on either side keeps them finite for labels that never or always occur.
    """
    point_count, label_count = labels.shape
    counts = np.bincount(labels.indices, minlength=label_count) + 0.5
    return np.log(counts / (point_count + 1 - counts)).astype(dtype)
