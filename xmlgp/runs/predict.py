"""Predict the labels of many points, on this machine or on a Dask cluster, with the same result to the last digit.

Points are scored in shards of a fixed number of rows, wherever the blocks end that a file is read in. BLAS adds up in
an order that depends on the shapes of matrices, so only equal shards have equal scores.
"""

import contextlib
import copy
import functools
import hashlib
import json
import os
import shutil
import time
from collections import deque
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.cluster import files
from xmlgp.cluster.files import StoredMatrix
from xmlgp.cluster.worker import StorageError
from xmlgp.errors import ModelFolderError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import AssignmentRule, assign
from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.restricted import RestrictedPredictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.stored import open_predictor
from xmlgp.runtime.atomic_files import atomic_write

__all__ = ["Wanted", "predict_blocks", "predict_blocks_on_cluster"]

#: Points of a shard: parts of 256 for 16 cores (`xmlgp.prediction.predictor`).
ROWS = 4096

#: Seconds that a task of a worker should take: far longer than what the scheduler takes for it, but short beside the
#: whole, so that all workers are busy to the end. The most shards and bytes of features in a task.
SECONDS, MOST_SHARDS, MOST_BYTES = 1.0, 64, 32 << 20


class Wanted(NamedTuple):
    """Which labels of points are wanted, and which scores of them.

    Attributes
    ----------
    rule : AssignmentRule
    output : str, optional
        The scores, see `Predictor.top`.
    with_std : bool
        Whether the scores have standard deviations.
    memory : int
        Megabytes that scoring may take, on each worker, besides the model.
    calibrated : bool
        Whether probabilities are calibrated if the model has a calibration.
    allowed : ndarray of bool, K, optional
        The labels that are considered; all by default.
    """

    rule: AssignmentRule
    output: str | None = None
    with_std: bool = False
    memory: int = MEMORY
    calibrated: bool = True
    allowed: np.ndarray | None = None


def predict_blocks(predictor, blocks, wanted):
    """Yield the labels of points, a chunk of points at a time, in the order of the points.

    Parameters
    ----------
    predictor : Predictor
    blocks : iterable of (sequence, csr_array)
        The identifiers of consecutive points, and their features as read.
    wanted : Wanted

    Yields
    ------
    identifiers : list
    features : csr_array
    scores : Scores

    Raises
    ------
    SettingsError
        If the points do not have the model's number of features.
    NumericalError
        If a score is not finite.
    """
    ranker = _ranker(_calibrated(predictor, wanted.calibrated), wanted.allowed)
    for identifiers, features in _shards(blocks):
        yield from _beside(identifiers, features, _assigned(ranker, features, wanted))


def predict_blocks_on_cluster(cluster, folder, blocks, wanted):
    """Do what `predict_blocks` does on the workers of a Dask cluster.

    Features and scores go through files in the folder of the cluster. This process and each worker hold a few shards,
    however many points there are.

    Parameters
    ----------
    cluster : Cluster
    folder : ModelFolder
        Of a trained model. All workers see it under the same path.
    blocks, wanted
        As for `predict_blocks`.

    Raises
    ------
    ClusterError
        If workers are lost, or one cannot read the model.
    SettingsError, NumericalError
        As `predict_blocks` does.
    """
    model = os.path.abspath(folder.path), _identity(folder)
    work = cluster.new_folder("predict")
    allowed = None
    if wanted.allowed is not None:
        allowed = os.fspath(work / "allowed.npy")
        files.store(allowed, wanted.allowed)
    wanted, waiting, size = wanted._replace(allowed=allowed), deque(), _TaskSize()

    def tasks():
        for number, (identifiers, features, shards) in enumerate(_tasks(_shards(blocks), size)):
            place = work / str(number)
            place.mkdir()
            matrix = StoredMatrix.of(features, place)
            waiting.append((identifiers, matrix, shards, place))
            yield *model, wanted, matrix, os.fspath(place / "scores")

    try:
        with contextlib.closing(cluster.map(_predict_task, tasks())) as results:
            for stored, seconds in results:
                identifiers, matrix, shards, place = waiting.popleft()
                size.learn(shards, seconds)
                yield from _beside(identifiers, matrix.open(), stored.read(place / "scores"))
                shutil.rmtree(place, ignore_errors=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _predict_task(path, identity, wanted, matrix, file):
    """Write the scores of some shards to a file; return what it has (`_StoredScores`), and the seconds it took."""
    ranker = _opened(path, identity, wanted.calibrated)
    ranker = _ranker(ranker, None if wanted.allowed is None else files.read(wanted.allowed))
    features = matrix.open()
    began = time.monotonic()
    with atomic_write(file) as stream:
        stored = _StoredScores.written(
            stream,
            (
                scores
                for start in range(0, features.shape[0], ROWS)
                for scores in _assigned(ranker, features[start : start + ROWS], wanted)
            ),
        )
    return stored, time.monotonic() - began


@functools.lru_cache(maxsize=1)
def _opened(path, identity, calibrated):
    """Return the predictor of a model, which a worker opens once."""
    try:
        folder, predictor = ModelFolder.read(path, lambda folder: (folder, open_predictor(folder)))
    except ModelFolderError as error:
        # The client has read the model.
        raise StorageError(str(error)) from None
    if _identity(folder) != identity:
        raise StorageError(f"{path}: this is another model than the one to predict with")
    return _calibrated(predictor, calibrated)


def _identity(folder):
    """Return what tells a model from others that the folder may have; tuning does not change it."""
    facts = [folder.description[name] for name in ("settings", "data", "arrays")]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _calibrated(predictor, calibrated):
    if calibrated:
        return predictor
    predictor = copy.copy(predictor)
    predictor.calibration = None
    return predictor


def _ranker(predictor, allowed):
    return predictor if allowed is None else RestrictedPredictor(predictor, allowed)


def _assigned(ranker, features, wanted):
    return assign(ranker, features, wanted.rule, wanted.output, wanted.with_std, wanted.memory)


def _beside(identifiers, features, chunks):
    """Yield chunks of scores with the identifiers and features of their points."""
    place = 0
    for scores in chunks:
        rows = slice(place, place + scores.N)
        yield identifiers[rows], features[rows], scores
        place += scores.N


def _shards(blocks):
    """Yield the points of blocks in shards of `ROWS`; the last one may have fewer."""
    identifiers, parts, count = [], [], 0
    for names, features in blocks:
        start = 0
        while start < len(names):
            stop = min(len(names), start + ROWS - count)
            identifiers += names[start:stop]
            parts.append(features[start:stop])
            count += stop - start
            start = stop
            if count == ROWS:
                yield identifiers, _stacked(parts)
                identifiers, parts, count = [], [], 0
    if count:
        yield identifiers, _stacked(parts)


def _stacked(parts):
    # Some versions of SciPy return a matrix.
    return parts[0] if len(parts) == 1 else csr_array(vstack(parts, format="csr"))


class _TaskSize:
    """How many shards a task has.

    Attributes
    ----------
    shards : int
    """

    def __init__(self):
        self.shards = 1

    def learn(self, shards, seconds):
        """Note how long a task took."""
        self.shards = max(1, min(int(SECONDS * shards / max(seconds, 1e-9)), MOST_SHARDS))


def _tasks(shards, size):
    """Yield the identifiers and features of several shards together, and how many these are."""
    names, parts, stored = [], [], 0
    for identifiers, features in shards:
        names += identifiers
        parts.append(features)
        stored += features.data.nbytes + features.indices.nbytes
        if len(parts) >= size.shards or stored >= MOST_BYTES:
            yield names, _stacked(parts), len(parts)
            names, parts, stored = [], [], 0
    if parts:
        yield names, _stacked(parts), len(parts)


class _StoredScores(NamedTuple):
    """What a file of scores has: for each chunk the counts of the points, their labels, scores and deviations.

    Attributes
    ----------
    K : int
    dtype : str
        Of scores and their standard deviations.
    with_std : bool
    chunks : list of (int, int)
        The numbers of points and of scores in each chunk.
    """

    K: int
    dtype: str
    with_std: bool
    chunks: list

    @classmethod
    def written(cls, stream, blocks):
        """Write at least one `Scores` to a file, one after the other, and return what it has."""
        chunks = []
        for scores in blocks:
            for array in (np.diff(scores.indptr).astype(np.int64), scores.labels, scores.scores, scores.std):
                if array is not None:
                    stream.write(np.ascontiguousarray(array).data)
            chunks.append((scores.N, len(scores.labels)))
        return cls(scores.K, scores.scores.dtype.str, scores.std is not None, chunks)

    def read(self, file):
        """Yield the `Scores` in a file, each when it is needed."""
        with open(file, "rb") as stream:
            for points, count in self.chunks:
                indptr = np.concatenate([[0], np.cumsum(np.fromfile(stream, np.int64, points))])
                labels = np.fromfile(stream, np.int32, count)
                scores, std = (np.fromfile(stream, self.dtype, count) if k else None for k in (True, self.with_std))
                yield Scores(indptr, labels, scores, self.K, std)
