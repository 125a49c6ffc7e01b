"""Calls of compiled elementwise loops on arrays of any shape and layout, on all cores."""

import numpy as np

from xmlgp.runtime.threads import parallel_for

__all__ = ["CHUNK", "fill"]

#: Elements per chunk: the arrays of a chunk fit in the first-level cache of a core.
CHUNK = 1024

#: Least number of elements per thread.
GRAIN = 1 << 15


def fill(loop, count, mean, variance, *others, out=None):
    """Return the arrays, of the shape of the means, that a loop fills.

    The loop is called with parts of the means, the variances (an array of that shape, or a number) and the results, all
    one-dimensional, and the other arguments. The results are written to `out`, if given, C-contiguous arrays, which may
    be mean and variance: the loop reads each element of its arguments before it writes that element of a result.
    """
    out = out or [np.empty(mean.shape, mean.dtype) for _ in range(count)]
    if np.ndim(variance) == 0:
        variance = np.full(mean.shape, variance, mean.dtype)
    arrays = [np.ravel(mean), np.ravel(variance), *(array.reshape(-1) for array in out)]
    parallel_for(lambda start, stop: loop(*(a[start:stop] for a in arrays), *others), mean.size, GRAIN)
    return out
