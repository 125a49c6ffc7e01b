"""Predict the labels of many points, on this machine or on a Dask cluster, with the same result to the last digit.

Points are scored in shards of a fixed number of rows, wherever the blocks end that a file is read in. BLAS adds up in
an order that depends on the shapes of matrices, so only equal shards have equal scores.
"""

import copy
import functools
import hashlib
import json
import os
from collections import deque
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.errors import ModelFolderError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import AssignmentRule, assign
from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.restricted import RestrictedPredictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.stored import open_predictor
from xmlgp.work import THIS_MACHINE

__all__ = ["ROWS", "StoredPredictor", "Wanted", "predict_blocks"]

#: Points of a shard: parts of 256 for 16 cores (`xmlgp.prediction.predictor`).
ROWS = 4096


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
        Megabytes that scoring may take, on each thread of a cluster, besides the model.
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


class StoredPredictor:
    """The predictor of a model, which workers of a cluster open from its folder.

    Parameters
    ----------
    predictor : Predictor
    folder : ModelFolder
        All workers see it under the same path.
    """

    def __init__(self, predictor, folder):
        self._predictor, self._place = predictor, (os.path.abspath(folder.path), _identity(folder))

    def __getstate__(self):
        return {"_predictor": None, "_place": self._place}

    @property
    def predictor(self):
        """The predictor."""
        return self._predictor or _opened(*self._place)


def _identity(folder):
    """Return what tells a model from others that the folder may have; tuning does not change it."""
    facts = [folder.description[name] for name in ("settings", "data", "arrays")]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _opened(path, identity):
    try:
        folder, predictor = ModelFolder.read(path, lambda folder: (folder, open_predictor(folder)))
    except ModelFolderError as error:
        # The command has read the model.
        raise OSError(str(error)) from None
    if _identity(folder) != identity:
        raise OSError(f"{path}: this is another model than the one to predict with")
    return predictor


class _Ranker(NamedTuple):
    """What all shards share."""

    stored: StoredPredictor
    wanted: Wanted

    def opened(self):
        predictor, wanted = self.stored.predictor, self.wanted
        if not wanted.calibrated:
            predictor = copy.copy(predictor)
            predictor.calibration = None
        return predictor if wanted.allowed is None else RestrictedPredictor(predictor, wanted.allowed), wanted


def predict_blocks(stored, blocks, wanted, work=THIS_MACHINE):
    """Yield the labels of points, a chunk of points at a time, in the order of the points.

    Parameters
    ----------
    stored : StoredPredictor
    blocks : iterable of (sequence, csr_array)
        The identifiers of consecutive points, and their features as read.
    wanted : Wanted
    work : ThisMachine or DaskCluster
        Scores shards of points. A few of them are in memory, however many points there are.

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
    ClusterError
        If a cluster is lost, or a worker cannot read the model.
    """
    waiting = deque()

    def shards():
        for identifiers, features in _shards(blocks):
            waiting.append((identifiers, features))
            yield (features,)

    for chunks in work.map(_assigned, shards(), _Ranker(stored, wanted)):
        identifiers, features = waiting.popleft()
        place = 0
        for scores in chunks:
            scores = Scores(*scores)
            rows = slice(place, place + scores.N)
            yield identifiers[rows], features[rows], scores
            place += scores.N


def _assigned(shared, features):
    """Return the fields of the `Scores` of points, a chunk at a time."""
    ranker, wanted = shared
    chunks = assign(ranker, features, wanted.rule, wanted.output, wanted.with_std, wanted.memory)
    return [(chunk.indptr, chunk.labels, chunk.scores, chunk.K, chunk.std) for chunk in chunks]


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
