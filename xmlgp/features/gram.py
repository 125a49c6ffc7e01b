"""Products with XᵀX of sparse features X, by row shards.

Shards are chosen by the matrix alone, so that results do not depend on where they are computed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import consecutive_rows
from xmlgp.features.weighting import shards_for_sums
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.progress import Bar
from xmlgp.runtime.threads import run_parallel
from xmlgp.runtime.work import THIS_MACHINE, Work

__all__ = ["Gram"]

#: Stored elements whose part of XᵀX is computed at a time.
CHUNK = 1 << 20

#: Vectors that are multiplied at a time, so that their elements of the most frequent features stay in a core's cache.
PANEL = 128


class Gram:
    """s²XᵀX of features (csr_array, N×D); s, the inverse of the largest magnitude, prevents overflow of high powers."""

    def __init__(self, features: csr_array, work: Work = THIS_MACHINE) -> None:
        self._features = features
        self._work = work
        self._shards = shards_for_sums(features)
        self._scale = 1 / (max(work.map(_peak, ((rows,) for rows in self._shards), features), default=0.0) or 1)

    def matrix(self) -> NDArray[np.float64]:
        """Return s²XᵀX, D×D, in double precision."""
        total = np.zeros((self._features.shape[1],) * 2)
        for part in self._work.map(_gram, ((rows, self._scale) for rows in self._shards), self._features):
            total += part
        return total

    def product(self, matrix: NDArray[np.float32], shift: float, out: NDArray[np.float32], bar: Bar) -> None:
        """Write (s²XᵀX − shift I) times a matrix, D×L, to `out`, float32; `bar` counts panels."""
        panels = _panels(matrix.shape[1])
        together = self._work.cores
        groups = [panels[start : start + together] for start in range(0, len(panels), together)]
        last = self._shards[-1]

        def blocks() -> Iterator[tuple[slice, float, float, list[NDArray[np.float32]]]]:
            for group in groups:
                vectors = [np.ascontiguousarray(matrix[:, columns]) for columns in group]
                for rows in self._shards:
                    # Each product has the shift once.
                    yield rows, self._scale, -shift * (not rows.start), vectors

        parts = self._work.map(_products, blocks(), self._features)
        for group in groups:
            for rows in self._shards:
                for columns, part in zip(group, next(parts), strict=True):
                    out[:, columns] = part if not rows.start else out[:, columns] + part
                    bar.update(int(rows is last))
        parts.close()

    @staticmethod
    def panel_count(width: int) -> int:
        """Return the number of panels of a matrix with so many columns."""
        return len(_panels(width))


def _panels(width: int) -> list[slice]:
    """Return the slices of columns that are multiplied at a time."""
    return [slice(start, min(start + PANEL, width)) for start in range(0, width, PANEL)]


def _peak(features: csr_array, rows: slice) -> float:
    data = consecutive_rows(features, rows).data
    return float(max(data.max(initial=0), -data.min(initial=0)))


def _gram(features: csr_array, rows: slice, scale: float) -> NDArray[np.float64]:
    features = consecutive_rows(features, rows)
    N, D = features.shape
    gram = np.zeros((D, D))
    count = max(1, N * CHUNK // max(1, features.nnz))
    for start in range(0, N, count):
        # In single precision, squares would hide singular values below 1/3000 of the largest.
        chunk = features[start : start + count].astype(np.float64) * scale
        gram += (chunk.T @ chunk).toarray()
    return gram


def _products(
    features: csr_array, rows: slice, scale: float, shift: float, vectors: list[NDArray[np.float32]]
) -> list[NDArray[np.float32]]:
    """Return the products of the rows' part of s²XᵀX + shift I with some panels, D×128 each."""
    features = consecutive_rows(features, rows)
    totals = [panel * np.float32(shift) for panel in vectors]
    arrays = features.indptr, features.indices, features.data, scale
    run_parallel(functools.partial(_add_gram, *arrays, *pair) for pair in zip(vectors, totals, strict=True))
    return totals


@compiled
def _add_gram(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    data: NDArray[Any],
    scale: float,
    right: NDArray[np.float32],
    total: NDArray[np.float32],
) -> None:
    width = right.shape[1]
    point = np.empty(width, right.dtype)
    for i in range(len(indptr) - 1):
        start = indptr[i]
        end = indptr[i + 1]
        point[:] = 0
        e = start
        # Four features at a time, to read and write the point a quarter as often.
        while e + 4 <= end:
            d0 = right.dtype.type(data[e] * scale)
            d1 = right.dtype.type(data[e + 1] * scale)
            d2 = right.dtype.type(data[e + 2] * scale)
            d3 = right.dtype.type(data[e + 3] * scale)
            r0 = right[indices[e]]
            r1 = right[indices[e + 1]]
            r2 = right[indices[e + 2]]
            r3 = right[indices[e + 3]]
            for j in range(width):
                point[j] += d0 * r0[j] + d1 * r1[j] + d2 * r2[j] + d3 * r3[j]
            e += 4
        while e < end:
            d = right.dtype.type(data[e] * scale)
            r = right[indices[e]]
            for j in range(width):
                point[j] += d * r[j]
            e += 1
        for e in range(start, end):
            d = right.dtype.type(data[e] * scale)
            t = total[indices[e]]
            for j in range(width):
                t[j] += d * point[j]
