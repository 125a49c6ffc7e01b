"""Score parts of points and blocks of labels, and select the labels of highest score, a block at a time."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.runtime.threads import one_blas_thread, run_parallel

__all__ = [
    "LABELS",
    "best_of_blocks",
    "descending",
    "for_parts",
    "ignore_overflow",
    "label_blocks",
    "labels_of_rows",
    "united",
    "update_top_k",
]

T = TypeVar("T")

#: Points scored at a time, so that their scores stay in a core's cache until the best are selected.
ROWS = 256

#: Labels scored at a time, for the same reason.
LABELS = 1024

#: Points are split for the cores into a multiple of this number of parts, so that few cores are all busy to the end.
PARTS = 16

#: Fewest points of a part.
LEAST_ROWS = 32

#: Scores that are compared with the k-th best together.
CHUNK = 64


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


def descending(scores: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return the order of the labels of each point, B×k: best first, equal scores by label."""
    return np.argsort(-scores, axis=1, kind="stable")


def labels_of_rows(matrix: csr_array) -> NDArray[np.int32]:
    """Return the columns of the elements of each row, B×L; −1 after the last one."""
    counts = np.diff(matrix.indptr)
    result = np.full((len(counts), counts.max(initial=0)), -1, np.int32)
    result[np.arange(result.shape[1]) < counts[:, None]] = matrix.indices
    return result


def united(labels: NDArray[np.int32], more: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return two lists of labels for each point as one, ascending and without repetitions, B×L; −1 is none."""
    result = np.sort(np.hstack([labels, more]), axis=1)
    result[:, 1:][result[:, 1:] == result[:, :-1]] = -1
    return np.sort(result, axis=1)


def best_of_blocks(
    scores: Callable[[slice], NDArray[np.floating]], B: int, K: int, k: int, dtype: DTypeLike
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return the k best of K labels of B points and their scores, both B×k, given the scores of a block of labels."""
    labels, best = np.empty((B, k), np.int32), np.empty((B, k), dtype)
    for block in label_blocks(K):
        update_top_k(scores(block), block.start, labels, best)
    return labels, best


@compiled
def update_top_k(
    values: NDArray[np.floating], first: int, labels: NDArray[np.int32], best: NDArray[np.floating]
) -> None:
    """Update the k best labels and scores of each point, both B×k, with the scores of L further labels, B×L.

    Blocks come in the order of their labels; `first` is the first label of this one. The first block, 0, ignores what
    `labels` and `best` contain. They are in order: highest score first, equal scores by label. NaN counts as −∞.
    """
    k = best.shape[1]
    for i in range(values.shape[0]):
        count = min(first, k)
        for start in range(0, values.shape[1], CHUNK):
            stop = min(start + CHUNK, values.shape[1])
            # Most chunks have no better score.
            if count == k and not _any_above(values[i, start:stop], best[i, k - 1]):
                continue
            for j in range(start, stop):
                value = values[i, j]
                if np.isnan(value):
                    value = -np.inf
                if count < k:
                    count += 1
                elif value <= best[i, k - 1]:
                    continue
                position = count - 1
                while position > 0 and value > best[i, position - 1]:
                    best[i, position] = best[i, position - 1]
                    labels[i, position] = labels[i, position - 1]
                    position -= 1
                best[i, position] = value
                labels[i, position] = first + j


@compiled_part
def _any_above(values: NDArray[np.floating], bound: float) -> bool:
    # A sum of comparisons uses vector instructions.
    above = 0
    for value in values:
        above += value > bound
    return above > 0
