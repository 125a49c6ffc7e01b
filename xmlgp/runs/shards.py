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

from scipy.sparse import csr_array, vstack

from xmlgp.errors import ModelFolderError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import RestrictedPredictor, assign
from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.trained_model import open_predictor
from xmlgp.work import THIS_MACHINE

__all__ = ["ROWS", "Scoring", "score_blocks"]

#: Points of a shard: parts of 256 for 16 cores (`xmlgp.prediction.predictor`).
ROWS = 4096


class Scoring:
    """How points are scored and labels are chosen: what all shards share.

    Workers of a cluster open the `predictor` from its `folder` (`ModelFolder`), which all see under the same path; on
    this machine it may be None. The `rule` is an `AssignmentRule`; `memory` is in megabytes, on each thread of a
    cluster, besides the model; `allowed`, K of bool, are the labels that are considered, all by default.
    """

    def __init__(
        self, predictor, folder, rule, output=None, with_std=False, memory=MEMORY, calibrated=True, allowed=None
    ):
        self._predictor, self._place = predictor, folder and (os.path.abspath(folder.path), _identity(folder))
        self.rule, self.output, self.with_std, self.memory = rule, output, with_std, memory
        self._calibrated, self._allowed = calibrated, allowed

    def __getstate__(self):
        return self.__dict__ | {"_predictor": None}

    def opened(self):
        """Return the predictor that ranks labels, and this."""
        predictor = self._predictor or _opened(*self._place)
        if not self._calibrated:
            predictor = copy.copy(predictor)
            predictor.calibration = None
        return predictor if self._allowed is None else RestrictedPredictor(predictor, self._allowed), self


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


def score_blocks(scoring, blocks, work=THIS_MACHINE):
    """Yield the identifiers, the features and the `Scores` of points, a chunk of points at a time, in their order.

    Blocks are the identifiers of consecutive points and their features as read (csr_array). A few shards are in memory.
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
