"""Calls of compiled elementwise loops on arrays of any shape and layout, on all cores."""

import numpy as np

from xmlgp.runtime.threads import parallel_for

__all__ = ["CHUNK", "fill_one", "fill_two"]

#: Elements per chunk: the arrays of a chunk fit in the first-level cache of a core.
CHUNK = 1024

#: Least number of elements per thread.
GRAIN = 1 << 15


def fill_one(loop, mean, variance, *others):
    """Return the array, of the shape of the means, that a loop fills.

    The loop is called with parts of the means, the variances (an array of that shape, or a number) and the result, all
    one-dimensional, and the other arguments.
    """
    out = np.empty(mean.shape, mean.dtype)
    arrays = *_flatten(mean, variance), out.reshape(-1)
    parallel_for(lambda start, stop: loop(*(a[start:stop] for a in arrays), *others), mean.size, GRAIN)
    return out


def fill_two(loop, mean, variance, *others, out=None):
    """Return the two arrays that a loop fills; otherwise as `fill_one`.

    The output arrays `out`, if given, are C-contiguous. They may be mean and variance if these are C-contiguous: the
    loop reads each element of its arguments before it writes that element of a result.
    """
    out = out or (np.empty(mean.shape, mean.dtype), np.empty(mean.shape, mean.dtype))
    arrays = *_flatten(mean, variance), *(array.reshape(-1) for array in out)
    parallel_for(lambda start, stop: loop(*(a[start:stop] for a in arrays), *others), mean.size, GRAIN)
    return out


def _flatten(mean, variance):
    if np.ndim(variance) == 0:
        variance = np.full(mean.shape, variance, mean.dtype)
    return np.ravel(mean), np.ravel(variance)
