"""Score many points, on this machine or on a Dask cluster, with the same result to the last digit.

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
from xmlgp.prediction.assignment import AssignmentRule, RestrictedPredictor, assign
from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.trained_model import open_predictor
from xmlgp.work import THIS_MACHINE

__all__ = ["ROWS", "Scoring", "StoredPredictor", "score_blocks"]

#: Points of a shard: parts of 256 for 16 cores (`xmlgp.prediction.predictor`).
ROWS = 4096


class StoredPredictor:
    """The `predictor` of a model, which workers of a cluster open from its folder.

    All workers see the folder (`ModelFolder`) under the same path; it may be None on this machine.
    """

    def __init__(self, predictor, folder):
        self._predictor = predictor
        self._place = folder and (os.path.abspath(folder.path), _identity(folder))

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


class Scoring(NamedTuple):
    """How labels are chosen and scored: what all shards share.

    `output` and `with_std` are those of `Predictor.top`; `memory` is in megabytes, on each thread of a cluster, besides
    the model; `allowed`, K of bool, are the labels that are considered, all by default.
    """

    stored: StoredPredictor
    rule: AssignmentRule
    output: str | None = None
    with_std: bool = False
    memory: int = MEMORY
    calibrated: bool = True
    allowed: np.ndarray | None = None

    def opened(self):
        """Return the predictor that ranks labels, and this."""
        predictor = self.stored.predictor
        if not self.calibrated:
            predictor = copy.copy(predictor)
            predictor.calibration = None
        return predictor if self.allowed is None else RestrictedPredictor(predictor, self.allowed), self


def score_blocks(scoring, blocks, work=THIS_MACHINE):
    """Yield the identifiers, the features and the `Scores` of points, a chunk of points at a time, in their order.

    Blocks are the identifiers of consecutive points (sequence) and their features as read (csr_array). A few shards are
    in memory, however many points there are. A SettingsError is raised for points of other features than the model's, a
    NumericalError for a score that is not finite, a ClusterError if a worker cannot read the model.
    """
    waiting = deque()

    def shards():
        for identifiers, features in _shards(blocks):
            waiting.append((identifiers, features))
            yield (features,)

    for chunks in work.map(_assigned, shards(), scoring):
        identifiers, features = waiting.popleft()
        place = 0
        for scores in chunks:
            scores = Scores(*scores)
            rows = slice(place, place + scores.N)
            yield identifiers[rows], features[rows], scores
            place += scores.N


def _assigned(shared, features):
    """Return the fields of the `Scores` of points, a chunk at a time."""
    ranker, how = shared
    chunks = assign(ranker, features, how.rule, how.output, how.with_std, how.memory)
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
