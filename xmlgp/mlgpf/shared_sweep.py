"""One sweep over the labels on a Dask cluster: blocks of points and of labels are tasks, whose results are files.

The latent functions of all points, Φ, b, W and the pairs of every label are in files on shared storage. Workers map
them into memory, so that a worker's own memory is that of one block. A block's result is the same on any worker.
"""

import functools
import itertools
import os
import shutil
from typing import NamedTuple

import numpy as np

from xmlgp.cluster.files import StoredMatrix, concatenate, read, store, store_arrays, stored_arrays
from xmlgp.gp.label_weight_updates import WeightsPrior
from xmlgp.linear_algebra import sparse
from xmlgp.mlgpf.label_pairs import listed_by_label, positives_by_label
from xmlgp.mlgpf.sweep import Sweep, stratified_pairs

__all__ = ["SharedSweep", "store_factors"]

#: Points whose latent functions a task computes.
LATENT_BLOCK = 1 << 15

#: Label weights that a sweep changes.
CHANGED = ("mean", "log_variance")

#: Files of the pairs of labels: see `positives_by_label` and `listed_by_label`.
PAIRS = ("positive_starts", "positives", "listed_starts", "listed")


def store_factors(cluster, features, parameters):
    """Write T, Φ, b and the means of the latent functions of all points to shared storage; return the folder.

    Parameters
    ----------
    cluster : Cluster
    features : csr_array, N×D
        X, weighted.
    parameters : mapping of str to ndarray
    """
    folder = cluster.new_folder("factors")
    store_arrays(folder, {name: parameters[name] for name in ("latent_weights.mean", "loadings", "bias")})
    N, stored = features.shape[0], cluster.stored(features)
    tasks = ((stored, str(folder), start, min(start + LATENT_BLOCK, N)) for start in range(0, N, LATENT_BLOCK))
    concatenate(folder / "latent.npy", cluster.map(_write_latent, tasks))
    return folder


def _write_latent(stored, folder, start, stop):
    """Write the means of the latent functions of some points; return the file."""
    path = f"{folder}/latent-{start}.npy"
    store(path, sparse.product(stored.rows(slice(start, stop)), read(f"{folder}/latent_weights.mean.npy")))
    return path


class _Files(NamedTuple):
    """Where a worker finds what a sweep needs.

    Attributes
    ----------
    features, labels : StoredMatrix
        X, weighted, and Y without the labels of points that are left out.
    factors, sweep : str
        Folders: of `store_factors`; of label weights, of the pairs of labels once these are known, and of results.
    number, seed, length : int
        Of the sweep; of the settings; of a shortlist.
    offset_share : float
    with_weights : bool
        As for `Sweep`.
    """

    features: StoredMatrix
    labels: StoredMatrix
    factors: str
    sweep: str
    number: int
    seed: int
    length: int
    offset_share: float
    with_weights: bool


class SharedSweep:
    """The steps of one sweep over the labels, in the place of `Sweep`.

    The workers are ahead of the steps: a step waits for the result of its block and takes it.

    Parameters
    ----------
    cluster : Cluster
    factors : Path
        See `store_factors`.
    number, seed, features, labels, weights, shortlist, held, offset_share, with_weights
        As for `Sweep`.
    scales : ndarray, K
        ρ of the prior of W.
    point_blocks : list of slice or ndarray of int
        The points of each step that lists negatives.
    label_blocks : list of tuple of int
        The labels of each step that updates weights.
    """

    def __init__(
        self,
        cluster,
        factors,
        number,
        seed,
        features,
        labels,
        weights,
        shortlist,
        scales,
        point_blocks,
        label_blocks,
        *,
        held,
        offset_share,
        with_weights,
    ):
        self.number = number
        self._cluster, self._seed, self._labels = cluster, seed, labels
        self._weights, self._shortlist, self._held = weights, shortlist, held
        self._point_blocks, self._label_blocks = point_blocks, label_blocks
        self._folder = cluster.new_folder("sweep")
        points = np.setdiff1d(np.arange(labels.shape[0]), held)
        store_arrays(self._folder / "weights", weights | {"scales": scales, "points": points.astype(np.int32)})
        stored = cluster.stored(features), cluster.stored(labels)
        self._files = _Files(
            *stored, str(factors), str(self._folder), number, seed, shortlist.shape[1], offset_share, with_weights
        )
        self._listed = self._updated = None

    def list_negatives(self, rows):
        """Find the shortlists of a block of points; the blocks come in their order."""
        if self._listed is None:
            blocks = itertools.dropwhile(lambda block: _first(block) != _first(rows), self._point_blocks)
            self._listed = self._cluster.map(_write_negatives, ((self._files, block) for block in blocks))
        path = next(self._listed)
        self._shortlist[rows] = read(path)
        self._shortlist[self._held] = -1
        os.unlink(path)

    def update_weights(self, first, last, rounds):
        """Update the weights of a block of labels; return their bounds. The blocks come in their order."""
        if self._updated is None:
            by_label = *positives_by_label(self._labels), *listed_by_label(self._shortlist, self._labels.shape[1])
            store_arrays(self._folder / "pairs", dict(zip(PAIRS, by_label, strict=True)))
            blocks = (block for block in self._label_blocks if block[0] >= first)
            self._updated = self._cluster.map(_write_weights, ((self._files, *block, rounds) for block in blocks))
        path, bounds = next(self._updated)
        ends = self._weights["label_weights.indptr"]
        for name, values in zip(CHANGED, read(path), strict=True):
            self._weights[f"label_weights.{name}"][ends[first] : ends[last]] = values
        os.unlink(path)
        return bounds

    def close(self):
        """Remove the files of the sweep."""
        for results in self._listed, self._updated:
            if results is not None:
                results.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class _OfFiles(Sweep):
    """A sweep in a worker, whose arrays are in files."""

    def __init__(self, files):
        self._files = files
        factors = {name: read(f"{files.factors}/{name}.npy") for name in ("loadings", "bias")}
        weights = stored_arrays(f"{files.sweep}/weights")
        scales, self._points = weights.pop("scales"), weights.pop("points")
        super().__init__(
            files.number,
            files.seed,
            files.features.open(),
            files.labels.open(),
            lambda: read(f"{files.factors}/latent.npy"),
            factors,
            weights,
            np.empty((0, files.length), np.int32),
            lambda first, last: WeightsPrior.of_training(weights, first, scales[first:last]),
            offset_share=files.offset_share,
            with_weights=files.with_weights,
        )

    def updated_weights(self, first, last, rounds):
        """Return what `update_weights` returns, and m and log v of the weights of these labels."""
        bounds = self.update_weights(first, last, rounds)
        updated, self._block = self._block, None
        return bounds, np.stack([updated[f"label_weights.{name}"] for name in CHANGED])

    def _weights_of(self, first, last):
        """Return a copy of the weights of a block, so that those of the sweep stay as they were, in their file."""
        indptr = self._weights["label_weights.indptr"][first : last + 1]
        part = slice(indptr[0], indptr[-1])
        self._block = {
            "label_weights.indptr": indptr - indptr[0],
            "label_weights.features": self._weights["label_weights.features"][part],
        } | {f"label_weights.{name}": self._weights[f"label_weights.{name}"][part].copy() for name in CHANGED}
        return self._block, 0

    @functools.cached_property
    def _pairs(self):
        arrays = [read(f"{self._files.sweep}/pairs/{name}.npy") for name in PAIRS]
        by_label, K = (arrays[:2], arrays[2:]), self._labels.shape[1]
        return stratified_pairs(by_label, K, self._files.seed, self._files.number, self._points)


@functools.lru_cache(maxsize=1)
def _opened(files):
    """Return the sweep of some files, which is kept from task to task."""
    return _OfFiles(files)


def _write_negatives(files, rows):
    """Write the shortlists of some points; return the file."""
    path = f"{files.sweep}/shortlist-{_first(rows)}.npy"
    store(path, _opened(files).negatives(rows))
    return path


def _write_weights(files, first, last, rounds):
    """Write the updated weights of consecutive labels; return the file, and their bounds."""
    bounds, updated = _opened(files).updated_weights(first, last, rounds)
    path = f"{files.sweep}/weights-{first}.npy"
    store(path, updated)
    return path, bounds


def _first(rows):
    """Return the first of some points, a slice or an ndarray of their numbers."""
    return rows.start if isinstance(rows, slice) else int(rows[0])
