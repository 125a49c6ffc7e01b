"""How the compiled loops of expectations are called: on arrays of any shape and layout, shared out among the cores."""

import numpy as np

from xmlgp.runtime.threads import parallel_for

__all__ = ["CHUNK", "pairs", "values"]

#: Elements a chunk: its arrays stay in a core's first level cache.
CHUNK = 1024

#: Elements that are worth a thread.
GRAIN = 1 << 15


def values(loop, mean, variance, *others):
    """Return one array that a loop fills.

    Parameters
    ----------
    loop : callable
        Takes parts of the means, the variances and the result, all flat, and `others`.
    mean : ndarray
    variance : ndarray of that shape, or float
    *others
    """
    out = np.empty(mean.shape, mean.dtype)
    arrays = *_flat(mean, variance), out.reshape(-1)
    parallel_for(lambda start, stop: loop(*(a[start:stop] for a in arrays), *others), mean.size, GRAIN)
    return out


def pairs(loop, mean, variance, *others, out=None):
    """Return two arrays that a loop fills; it reads each element of its arguments before it writes that of a result.

    Parameters
    ----------
    loop, mean, variance, *others
        As in `values`, with two results.
    out : tuple of two ndarray, optional
        Where the results go, C-contiguous; may be `mean` and `variance` themselves, which are C-contiguous then.
    """
    out = out or (np.empty(mean.shape, mean.dtype), np.empty(mean.shape, mean.dtype))
    arrays = *_flat(mean, variance), *(array.reshape(-1) for array in out)
    parallel_for(lambda start, stop: loop(*(a[start:stop] for a in arrays), *others), mean.size, GRAIN)
    return out


def _flat(mean, variance):
    if np.ndim(variance) == 0:
        variance = np.full(mean.shape, variance, mean.dtype)
    return np.ravel(mean), np.ravel(variance)
