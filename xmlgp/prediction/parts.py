"""Parts of points and blocks of labels, in which predictors score."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = ["LABELS", "for_parts", "ignore_overflow", "label_blocks"]

T = TypeVar("T")

#: Points scored at a time, so that their scores stay in a core's cache until the best are selected.
ROWS = 256

#: Labels scored at a time, for the same reason.
LABELS = 1024

#: Points are split for the cores into a multiple of this number of parts, so that few cores are all busy to the end.
PARTS = 16

#: Fewest points of a part.
LEAST_ROWS = 32


def for_parts(function: Callable[[slice], T], count: int) -> list[T]:
    """Return what a function returns for slices of range(count), a few hundred points each, called on all cores.

    The parts do not depend on the number of cores: BLAS adds up in an order that depends on the shapes of matrices, so
    the last digits of scores would depend on it too.
    """
    parts = max(1, min(-(-count // (ROWS * PARTS)) * PARTS, count // LEAST_ROWS), -(-count // ROWS))
    bounds = [count * i // parts for i in range(parts + 1)]
    with one_blas_thread(), ignore_overflow():
        return run_parallel(functools.partial(function, slice(*bound)) for bound in itertools.pairwise(bounds))


def label_blocks(label_count: int) -> Iterator[slice]:
    """Yield slices of at most `LABELS` labels that together cover all labels."""
    for start in range(0, label_count, LABELS):
        yield slice(start, min(start + LABELS, label_count))


def ignore_overflow() -> np.errstate:
    """Disable NumPy's warnings of results that are not finite, for code whose result is checked later."""
    return np.errstate(divide="ignore", over="ignore", invalid="ignore")
