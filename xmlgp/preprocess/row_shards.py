"""Document frequencies and weighted features on a Dask cluster, by row shards.

Shards are chosen by the matrix alone, so that results do not depend on the number of workers. A shard has about as many
stored elements as any other, and so few that a task needs little memory; its rows are mapped from their files. Where
the result of a shard is a sum for each feature, a shard has more elements if there are many features: then reading and
adding the sums takes little time beside computing them.
"""

import itertools
from pathlib import Path

import numpy as np

from xmlgp.cluster.files import concatenate, read, store, store_arrays, stored_arrays
from xmlgp.data.dataset import as_csr
from xmlgp.linear_algebra import sparse
from xmlgp.preprocess.weighting import weigh

__all__ = [
    "count_points",
    "row_shards",
    "shards_for_sums",
    "sizes_of",
    "weigh_on_cluster",
    "weighted_sizes",
]

#: Stored elements of a shard: a task takes some tenths of a second, far more than it costs to start it.
SHARD = 1 << 21

#: Stored elements of a shard for each feature, where the result is a sum for each feature.
SHARE = 64


def shards_for_sums(features):
    """Return the row shards (list of slice) of features whose results are sums for each feature.

    Parameters
    ----------
    features : csr_array, N×D
    """
    return row_shards(features, max(SHARD, SHARE * features.shape[1]))


def row_shards(matrix, size):
    """Return slices of consecutive rows (list) with about equally many stored elements: `size`, up to twice as many.

    Parameters
    ----------
    matrix : csr_array
    size : int
    """
    stored = int(matrix.indptr[-1])
    count = max(1, stored // size)
    # In the type of the array, which NumPy would convert otherwise.
    ends = np.array([stored * i // count for i in range(1, count)], matrix.indptr.dtype)
    bounds = np.unique([0, *np.searchsorted(matrix.indptr, ends), matrix.shape[0]]).tolist()
    return [slice(*bound) for bound in itertools.pairwise(bounds)]


def count_points(features, cluster):
    """Return the number of points that have each feature, D.

    Parameters
    ----------
    features : csr_array, N×D
    cluster : Cluster
    """
    stored, folder = cluster.stored(features), cluster.new_folder("shards")
    counts = np.zeros(features.shape[1], np.int64)
    for path in cluster.map(_count, ((stored, rows, folder) for rows in shards_for_sums(features))):
        counts += read(path)
        Path(path).unlink()
    return counts


def _count(stored, rows, folder):
    part = stored.rows(rows)
    path = f"{folder}/{rows.start}.npy"
    store(path, sparse.column_sums(part.indices, stored.columns))
    return path


def weigh_on_cluster(features, weighting, cluster, check=None):
    """Return weighted features, as `Preprocessed.weigh` does, whose elements are in a file on shared storage.

    Parameters
    ----------
    features : csr_array, N×D
        X as read.
    weighting : Weighting
    cluster : Cluster
    check : callable, optional
        Called with the list of what `weighted_sizes` yields; it raises an error if points are too large.

    Returns
    -------
    csr_array, N×D
        Mapped into memory, and removed at the end of the run with `cluster.work`; `cluster.stored` writes none of it
        again.
    """
    stored, folder = cluster.stored(features), cluster.new_folder("shards")
    # The arrays are mapped, also if those of the features are not.
    whole = stored.open()
    none = whole[:0]
    if weigh(none, *weighting) is none:
        if check is not None:
            check(list(weighted_sizes(features, weighting, cluster)))
        return whole
    data, sizes = folder / "data.npy", []

    def parts():
        for path, size in _weighted_shards(features, weighting, cluster, folder, keep=True):
            sizes.append(size)
            yield path

    concatenate(data, parts())
    if check is not None:
        check(sizes)
    return as_csr(read(data), whole.indices, whole.indptr, whole.shape[1])


def weighted_sizes(features, weighting, cluster):
    """Yield for each row shard the largest magnitude of weighted features, and the most features of a point.

    Parameters
    ----------
    features, weighting, cluster
        As for `weigh_on_cluster`.
    """
    for _, sizes in _weighted_shards(features, weighting, cluster, cluster.new_folder("shards"), keep=False):
        yield sizes


def _weighted_shards(features, weighting, cluster, folder, keep):
    """Yield the path and the sizes of each weighted shard in order; without `keep`, nothing is at the path."""
    arrays = {name: array for name, array in weighting._asdict().items() if isinstance(array, np.ndarray)}
    weights = folder / "weighting"
    store_arrays(weights, arrays)
    rest = weighting._replace(**dict.fromkeys(arrays))
    stored = cluster.stored(features)
    items = ((stored, rows, rest, weights, f"{folder}/{rows.start}.npy", keep) for rows in row_shards(features, SHARD))
    return cluster.map(_weigh, items)


def _weigh(stored, rows, weighting, weights, path, keep):
    weighting = weighting._replace(**stored_arrays(weights))
    weighted = weigh(stored.rows(rows), *weighting)
    if keep:
        store(path, weighted.data)
    return path, sizes_of(weighted)


def sizes_of(weighted):
    """Return the largest magnitude of the elements of features, and the most elements of a row.

    Parameters
    ----------
    weighted : csr_array
    """
    # Without an array of magnitudes.
    peak = max(weighted.data.max(initial=0), -weighted.data.min(initial=0))
    return float(peak), int(np.diff(weighted.indptr).max(initial=0))
