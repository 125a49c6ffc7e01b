"""Stochastic ascent on the bound of MLGPF whose minibatches are divided among the workers of a Dask cluster.

Each worker has some rows of the data, and computes the gradients of those points of a minibatch that are among them.
The parameters travel to every worker at every step, and the gradients back. The client adds these and makes the step,
so that a step is that of `StochasticAscent`, except for rounding.
"""

import os
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.cluster.files import StoredMatrix, store_arrays, stored_arrays
from xmlgp.gp.bound import Batch
from xmlgp.gp.inner_products import Points
from xmlgp.gp.label_weights import has_label_weights
from xmlgp.gp.likelihood import IndexedRows, Pairs
from xmlgp.mlgpf.model import MLGPF
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.step_division import best_parts
from xmlgp.mlgpf.stochastic import StochasticAscent
from xmlgp.preprocess.coordinates import Coordinates, are_dense
from xmlgp.preprocess.pipeline import Preprocessed

__all__ = ["DividedAscent", "SharedPoints"]

#: Seconds of one core for a point, a coordinate and an inducing input, and for a point, a label and a latent function:
#: 0.05 and 0.02 ms a point of Bibtex and Delicious with 200 inducing inputs and 100 latent functions.
INPUT_SECONDS, LABEL_SECONDS = 1e-10, 1.2e-10

#: A worker forgets the coordinates of a shard after this many steps without it: another worker has it again.
UNUSED_STEPS = 8


class PointFiles(NamedTuple):
    """Where workers find the points.

    Attributes
    ----------
    features : StoredMatrix
        X as read.
    preprocessed : str
        The folder of the arrays of the `Preprocessed`.
    dense : bool
        Whether coordinates without a basis are dense. That of all points, so that it is the same for each shard.
    """

    features: StoredMatrix
    preprocessed: str
    dense: bool


class SharedPoints:
    """Points in files that the workers of a cluster see.

    Parameters
    ----------
    cluster : Cluster
    features : csr_array, N×D
        X as read.
    preprocessed : Preprocessed

    Attributes
    ----------
    cluster : Cluster
    files : PointFiles
    """

    def __init__(self, cluster, features, preprocessed):
        folder = cluster.new_folder("preprocessed")
        store_arrays(folder, preprocessed.to_arrays())
        self.cluster = cluster
        self.files = PointFiles(cluster.stored(features), os.fspath(folder), are_dense(features))
        self._count, self._chosen = features.shape[0], None

    def select(self, rows):
        """Return some of all points (`SharedPoints`).

        Parameters
        ----------
        rows : ndarray of int
        """
        selected = object.__new__(SharedPoints)
        selected.__dict__ |= self.__dict__ | {"_chosen": rows}
        return selected

    def divide(self, rows, count):
        """Return how the shards of the data divide some points.

        Parameters
        ----------
        rows : ndarray of int
            Among the selected points.
        count : int
            Shards: as many almost equal ranges of rows of the files.

        Returns
        -------
        list of tuple
            For each shard that has any of the points: its first row and the row after its last, the rows of its points
            in the files, less the first, and the places of these points in `rows`.
        """
        stored = rows if self._chosen is None else self._chosen[rows]
        bounds = [self._count * shard // count for shard in range(count + 1)]
        owners = np.searchsorted(bounds, stored, side="right") - 1
        parts = []
        for shard in range(count):
            places = np.flatnonzero(owners == shard)
            if len(places):
                parts.append((*bounds[shard : shard + 2], stored[places] - bounds[shard], places))
        return parts


class Run(NamedTuple):
    """What the steps of a training have in common. It travels with each of them, so it is small.

    Attributes
    ----------
    files : PointFiles
    settings : MLGPFSettings
    fixed : str
        The folder of the parameters that do not move.
    parts : int
        The number of shards.
    """

    files: PointFiles
    settings: MLGPFSettings
    fixed: str
    parts: int


class Part(NamedTuple):
    """The points of a minibatch that are in one shard.

    Attributes
    ----------
    start, stop : int
        The first row of the shard, and the row after its last.
    rows : ndarray of int
        Those of the points, less `start`.
    labels : csr_array, B×K
        Their positives.
    pairs : Pairs or None
        Their positives and sampled negatives.
    scale : float
        N / B.
    share : float
        The share of the minibatch that they are.
    """

    start: int
    stop: int
    rows: np.ndarray
    labels: sp.csr_array
    pairs: Pairs | None
    scale: float
    share: float


class DividedAscent(StochasticAscent):
    """Do what `StochasticAscent` does, with the workers of a cluster.

    At the beginning of an epoch the data are cut into shards of consecutive rows, as many as make steps fastest
    (`xmlgp.mlgpf.step_division`) and at most one for each worker: each part of a minibatch repeats the work that does
    not depend on its points, such as the factorisation of K_Z. Small steps are made by the client alone. Parameters are
    the same, bit for bit, with the same shards and the same number of cores of a worker, whichever worker has a shard;
    with other numbers of shards they are the same except for rounding, and for the approximations that a step makes
    (`Quadrature.gradients`).

    Parameters
    ----------
    points : SharedPoints
        The N training points.
    model, coordinates, labels, inducing, learning_rate
        As for `StochasticAscent`. The coordinates are used for initial parameters only.
    parts : int, optional
        Shards; by default as many as make steps fastest.
    """

    def __init__(self, points, model, coordinates, labels, inducing, learning_rate=None, parts=None):
        super().__init__(model, coordinates, labels, inducing, learning_rate)
        self._points, self._parts, self._dtype = points, parts, coordinates.dtype
        folder = points.cluster.new_folder("fixed")
        store_arrays(folder, {name: self._parameters[name] for name in self._parameters.keys() - self._moving.keys()})
        self._run = Run(points.files, model.settings, os.fspath(folder), 0)
        #: The epoch whose number of shards is known.
        self._epoch = None

    def step(self, epoch, done):
        """Do what `StochasticAscent.step` does."""
        if epoch != self._epoch:
            parts = self._parts or self._best_parts(-(-len(self._order) // self._counts[epoch]))
            self._run, self._epoch = self._run._replace(parts=parts), epoch
        return super().step(epoch, done)

    def _best_parts(self, batch_size):
        M, Q = self._parameters["inducing"].shape
        K, P = self._parameters["loadings"].shape
        labels = K if self._negatives is None else min(K, self._negatives)
        core_seconds = batch_size * (INPUT_SECONDS * M * Q + LABEL_SECONDS * labels * P)
        moved = 2 * sum(array.nbytes for array in self._moving.values())
        return best_parts(core_seconds, lambda parts: moved, self._points.cluster)

    def _value_and_gradients(self, rows, value_needed):
        if not self._run.parts:
            return super()._value_and_gradients(rows, value_needed)
        labels, pairs = self._labels[rows], None
        if self._negatives is not None:
            # Drawn here for all points, so that they do not depend on the parts.
            pairs = self._sampler(labels, self._negatives, self.random, self._dtype)
        tasks = []
        for start, stop, stored, places in self._points.divide(rows, self._run.parts):
            own = None if pairs is None else _pairs_of(pairs, places)
            scale, share = len(self._order) / len(places), len(places) / len(rows)
            part = Part(start, stop, stored, labels[places], own, scale, share)
            tasks.append((self._run, self._moving, part, value_needed))
        values, gradients = zip(*self._points.cluster.call(part_gradients, tasks), strict=True)
        gradients = {name: _sum([part[name] for part in gradients]) for name in gradients[0]}
        return sum(values) if value_needed else None, gradients


def _pairs_of(pairs, points):
    """Return the `Pairs` of some points."""
    lengths = np.diff(pairs.indptr)[points]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(indptr[-1]) + np.repeat(pairs.indptr[points] - indptr[:-1], lengths)
    return Pairs(indptr, *(values[places] for values in pairs[1:]))


def _sum(gradients):
    """Return the sum of the gradients of all parts with respect to one parameter; the first may be overwritten."""
    total, *others = gradients
    if isinstance(total, IndexedRows):
        indices = np.unique(np.concatenate([gradient.indices for gradient in gradients]))
        values = np.zeros((len(indices), *total.values.shape[1:]), total.values.dtype)
        for gradient in gradients:
            values[np.searchsorted(indices, gradient.indices)] += gradient.values
        return IndexedRows(indices, values)
    for gradient in others:
        total += gradient
    return total


def part_gradients(run, parameters, part, value_needed):
    """Return the value and the gradients of a part of a minibatch, times its share; called on workers.

    Parameters
    ----------
    run : Run
    parameters : dict of str to ndarray
        Those that move.
    part : Part
    value_needed : bool

    Returns
    -------
    value : float or None
    gradients : dict of str to ndarray or IndexedRows
    """
    data, steps = _kept.of(run)
    parameters = parameters | steps.fixed
    coordinates = data.coordinates(part.start, part.stop, run)
    features = coordinates.weighted(part.rows) if has_label_weights(parameters) else None
    batch = Batch(Points(*coordinates.rows(part.rows)), part.labels, part.pairs, part.scale, features)
    # As in the training loop, which refuses what is not finite.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        value, gradients = steps.bound.value_and_gradients(parameters, batch, value_needed, for_step=True)
    gradients = {name: _multiply(gradient, part.share) for name, gradient in gradients.items()}
    return None if value is None else value * part.share, gradients


def _multiply(gradient, share):
    if isinstance(gradient, IndexedRows):
        return IndexedRows(gradient.indices, _multiply(gradient.values, share))
    # In its own type.
    return gradient * np.asarray(gradient).dtype.type(share)


class _Data:
    """The points of some files, and the coordinates of shards that were used lately."""

    def __init__(self, run):
        self.files, files = run.files, run.files
        self._features = files.features.open()
        arrays = stored_arrays(files.preprocessed)
        self._preprocessed = Preprocessed.from_arrays(arrays, run.settings, self._features.shape[1])
        #: By the range of their rows; and the number of the last call that used each.
        self._coordinates, self._used, self._calls = {}, {}, 0

    def coordinates(self, start, stop, run):
        """Return the `Coordinates` of a range of rows."""
        self._calls += 1
        for unused in [rows for rows, call in self._used.items() if self._calls - call > UNUSED_STEPS * run.parts]:
            del self._coordinates[unused], self._used[unused]
        key = start, stop, run.settings.dtype
        self._used[key] = self._calls
        if key not in self._coordinates:
            self._coordinates[key] = self._compute(start, stop, run)
        return self._coordinates[key]

    def _compute(self, start, stop, run):
        preprocessed, center = self._preprocessed, None
        if run.files.dense and preprocessed.basis is None:
            center = np.zeros(self._features.shape[1])
        if preprocessed.is_centered:
            center = preprocessed.center * preprocessed.weighting.scale
        return Coordinates(
            self._features[start:stop],
            preprocessed.basis,
            run.settings.dtype,
            weigh=preprocessed.weigh,
            sparse=True,
            center=center,
        )


class _Steps:
    """What the steps of one training need beside the points."""

    def __init__(self, run):
        self.folder = run.fixed
        self.fixed = stored_arrays(run.fixed)
        self.bound = MLGPF(run.settings).bound


class _Kept:
    """What a worker keeps from step to step, of one training."""

    def __init__(self):
        self._data = self._steps = None

    def of(self, run):
        """Return the `_Data` and `_Steps` of a run."""
        if self._data is None or self._data.files != run.files:
            self._data = None  # frees memory
            self._data = _Data(run)
        if self._steps is None or self._steps.folder != run.fixed:
            self._steps = _Steps(run)
        return self._data, self._steps


_kept = _Kept()
