"""Products with XᵀX of sparse features X, on this machine or by row shards on a Dask cluster.

`Gram` and `ShardedGram` have the same methods, and compute with the same functions.
"""

import functools
import shutil
import threading

import numpy as np

from xmlgp.cluster.files import read, store
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.preprocess.row_shards import shards_for_sums
from xmlgp.runtime.threads import run_parallel

__all__ = ["Gram", "ShardedGram", "gram_of"]

#: Stored elements whose part of XᵀX is computed at a time.
CHUNK = 1 << 20

#: Vectors that are multiplied at a time, so that their elements of the most frequent features stay in a core's cache.
PANEL = 128


class Gram:
    """s²XᵀX, where s is the inverse of the largest magnitude in X: scaling prevents overflow of high powers.

    Parameters
    ----------
    features : csr_array, N×D
        X.
    """

    def __init__(self, features):
        self._features = features
        self._scale = _inverse(_peak(features))

    def matrix(self):
        """Return s²XᵀX, D×D, in double precision."""
        return gram_of(self._features, self._scale)

    def product(self, matrix, shift, out, bar):
        """Write (s²XᵀX − shift I) times a matrix, D×L, to `out`.

        Parameters
        ----------
        matrix, out : ndarray, D×L
            float32.
        shift : float
        bar
            A progress bar, which advances by one for each of the `panel_count(L)` panels.
        """
        features, reporting = self._features, threading.Lock()

        def panel(columns):
            right = np.ascontiguousarray(matrix[:, columns])
            total = right * np.float32(-shift)
            _add_gram(features.indptr, features.indices, features.data, self._scale, right, total)
            out[:, columns] = total
            with reporting:
                bar.update()

        run_parallel(functools.partial(panel, columns) for columns in _panels(matrix.shape[1]))

    @staticmethod
    def panel_count(width):
        """Return the number of panels of a matrix with so many columns."""
        return len(_panels(width))


class ShardedGram:
    """s²XᵀX on a Dask cluster, with the methods of `Gram`.

    The panels of a product are independent of each other, so a task takes a few panels and a row shard, and a matrix
    with many columns keeps many workers busy however few shards there are. Workers exchange with this machine D×L
    numbers for each power, and as many for each shard.

    Parameters
    ----------
    features : csr_array, N×D
        X.
    cluster : Cluster
    """

    def __init__(self, features, cluster):
        self._cluster, self._stored = cluster, cluster.stored(features)
        self._shards = shards_for_sums(features)
        peaks = cluster.map(_shard_peak, ((self._stored, rows) for rows in self._shards))
        self._scale = _inverse(max(peaks, default=0.0))

    panel_count = staticmethod(Gram.panel_count)

    def matrix(self):
        """Return s²XᵀX, D×D, in double precision."""
        total = np.zeros((self._stored.columns,) * 2)
        folder = self._cluster.new_folder("gram")
        items = ((self._stored, rows, self._scale, folder) for rows in self._shards)
        for rows, _ in zip(self._shards, self._cluster.map(_shard_gram, items), strict=True):
            _take(folder / f"{rows.start}.npy", total)
        return total

    def product(self, matrix, shift, out, bar):
        """Write (s²XᵀX − shift I) times a matrix, D×L, to `out`; see `Gram.product`."""
        panels = _panels(matrix.shape[1])
        folder = self._cluster.new_folder("gram")
        for number, columns in enumerate(panels):
            store(folder / f"{number}.npy", np.ascontiguousarray(matrix[:, columns]))
        # A worker computes a panel on each of its threads. The partial sums are the same for any number of them.
        together = -(-len(panels) // self._cluster.threads)
        groups = [group.tolist() for group in np.array_split(np.arange(len(panels)), together)]
        tasks = [(group, rows) for group in groups for rows in self._shards]
        items = ((self._stored, rows, self._scale, -shift * (not rows.start), group, folder) for group, rows in tasks)
        out[:] = 0
        for (group, rows), _ in zip(tasks, self._cluster.map(_shard_product, items), strict=True):
            for number in group:
                _take(folder / f"{number}-{rows.start}.npy", out[:, panels[number]])
                if rows == self._shards[-1]:
                    bar.update()
        shutil.rmtree(folder, ignore_errors=True)


def gram_of(features, scale):
    """Return s²XᵀX, D×D, in double precision.

    Parameters
    ----------
    features : csr_array, N×D
    scale : float
        s.
    """
    N, D = features.shape
    gram = np.zeros((D, D))
    rows = max(1, N * CHUNK // max(1, features.nnz))
    for start in range(0, N, rows):
        # In single precision, squares would hide singular values below 1/3000 of the largest.
        chunk = features[start : start + rows].astype(np.float64) * scale
        gram += (chunk.T @ chunk).toarray()
    return gram


def _shard_peak(stored, rows):
    return _peak(stored.rows(rows))


def _shard_gram(stored, rows, scale, folder):
    store(folder / f"{rows.start}.npy", gram_of(stored.rows(rows), scale))


def _shard_product(stored, rows, scale, shift, group, folder):
    """Write the product of the rows' part of s²XᵀX + shift I with each panel of a group to a file."""
    features = stored.rows(rows)

    def panel(number):
        right = np.array(read(folder / f"{number}.npy"))
        total = right * np.float32(shift)
        _add_gram(features.indptr, features.indices, features.data, scale, right, total)
        store(folder / f"{number}-{rows.start}.npy", total)

    run_parallel(functools.partial(panel, number) for number in group)


def _take(path, total):
    """Add the array in a file to another one, and remove the file."""
    total += read(path)
    path.unlink()


def _panels(width):
    """Return the slices of columns that are multiplied at a time."""
    return [slice(start, min(start + PANEL, width)) for start in range(0, width, PANEL)]


def _peak(features):
    return float(max(features.data.max(initial=0), -features.data.min(initial=0)))


def _inverse(peak):
    return 1 / (peak or 1)


@compiled
def _add_gram(indptr, indices, data, scale, right, total):
    width = right.shape[1]
    point = np.empty(width, right.dtype)
    for i in range(len(indptr) - 1):
        start, end = indptr[i], indptr[i + 1]
        point[:] = 0
        e = start
        # Four features at a time, to read and write the point a quarter as often.
        while e + 4 <= end:
            d0, d1 = right.dtype.type(data[e] * scale), right.dtype.type(data[e + 1] * scale)
            d2, d3 = right.dtype.type(data[e + 2] * scale), right.dtype.type(data[e + 3] * scale)
            r0, r1, r2, r3 = right[indices[e]], right[indices[e + 1]], right[indices[e + 2]], right[indices[e + 3]]
            for j in range(width):
                point[j] += d0 * r0[j] + d1 * r1[j] + d2 * r2[j] + d3 * r3[j]
            e += 4
        while e < end:
            d, r = right.dtype.type(data[e] * scale), right[indices[e]]
            for j in range(width):
                point[j] += d * r[j]
            e += 1
        for e in range(start, end):
            d, t = right.dtype.type(data[e] * scale), total[indices[e]]
            for j in range(width):
                t[j] += d * point[j]
