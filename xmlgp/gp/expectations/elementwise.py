"""Calls of compiled elementwise loops on arrays of any shape and layout, on all cores."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from xmlgp.runtime.threads import parallel_for

__all__ = ["CHUNK", "fill"]

#: Elements per chunk: the arrays of a chunk fit in the first-level cache of a core.
CHUNK = 1024

#: Least number of elements per thread.
GRAIN = 1 << 15


def fill(
    loop: Callable[..., None],
    count: int,
    mean: NDArray[np.floating],
    variance: NDArray[np.floating] | float,
    *arguments: object,
    out: Sequence[NDArray[np.floating]] | None = None,
) -> Sequence[NDArray[np.floating]]:
    """Return `count` arrays of the shape of the means, which a loop fills.

    The variance is an array of that shape, or a number. The loop is called with one-dimensional parts of the means, the
    variances and the results, and with the other arguments. It reads an element of the means and variances before it
    writes that element of a result, so the results `out`, C-contiguous arrays, may be mean and variance.
    """
    out = out or [np.empty(mean.shape, mean.dtype) for _ in range(count)]
    if np.ndim(variance) == 0:
        variance = np.full(mean.shape, variance, mean.dtype)
    arrays = [np.ravel(mean), np.ravel(variance), *(array.reshape(-1) for array in out)]
    parallel_for(lambda start, stop: loop(*(a[start:stop] for a in arrays), *arguments), mean.size, GRAIN)
    return out
