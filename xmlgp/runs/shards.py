"""Score many points, on this machine or on a Dask cluster, with the same result to the last digit.

Points are scored in shards of a fixed number of rows, whatever the sizes of the blocks that are read. The order of sums
in BLAS depends on the shapes of matrices, so only equal shards give equal scores.
"""

import copy
import functools
import hashlib
import json
import os
from collections import deque

from xmlgp.data.features import Features
from xmlgp.errors import ModelFolderError, up_to_error
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import RestrictedPredictor, assign
from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.trained_model import open_predictor
from xmlgp.work import THIS_MACHINE

__all__ = ["ROWS", "Scoring", "score_blocks"]

#: Points in a shard: enough for 16 cores with 256 points each (`xmlgp.prediction.predictor`).
ROWS = 4096


class Scoring:
    """How points are scored and labels are chosen: what all shards share.

    Each worker of a cluster opens the predictor from `folder` (`ModelFolder`), at the same path; on this machine
    `folder` may be None. `rule` is an `AssignmentRule`; `memory` limits the megabytes of each thread of a cluster,
    besides the model; `allowed`, K of bool, marks the labels that can be assigned, by default all.
    """

    def __init__(
        self, predictor, folder, rule, output=None, with_std=False, memory=MEMORY, calibrated=True, allowed=None
    ):
        self._predictor = predictor
        self._location = folder and (os.path.abspath(folder.path), _identity(folder))
        self.rule = rule
        self.output = output
        self.with_std = with_std
        self.memory = memory
        self._calibrated = calibrated
        self._allowed = allowed

    def __getstate__(self):
        return self.__dict__ | {"_predictor": None}

    def opened(self):
        """Return the predictor that ranks labels and this object."""
        predictor = self._predictor or _open_model(*self._location)
        if not self._calibrated:
            predictor = copy.copy(predictor)
            predictor.calibration = None
        return predictor if self._allowed is None else RestrictedPredictor(predictor, self._allowed), self


def _identity(folder):
    """Return a digest of the model in a folder, which tuning does not change."""
    facts = [folder.description[name] for name in ("settings", "data", "arrays")]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _open_model(path, identity):
    try:
        folder, predictor = ModelFolder.read(path, lambda folder: (folder, open_predictor(folder)))
    except ModelFolderError as error:
        # The main process has read the model already, so this is an error of the worker's file system.
        raise OSError(str(error)) from None
    if _identity(folder) != identity:
        raise OSError(f"{path}: the model in this folder has changed since prediction began")
    return predictor


def score_blocks(scoring, blocks, work=THIS_MACHINE, waits=lambda: False):
    """Yield the identifiers, the features and the `Scores` of points, a chunk at a time, in order.

    Each block has the identifiers of consecutive points and their features as read. Memory holds only a few shards. On
    this machine, points are scored without others of their shard when the blocks are waited for (`waits`). A
    DataFormatError of the blocks is raised after the points before it.
    """
    pending = deque()
    errors = []

    def arguments():
        for identifiers, features in _shards(up_to_error(blocks, errors), lambda: not work.is_cluster and waits()):
            pending.append((identifiers, features))
            yield (features,)

    for chunks in work.map(_assign_shard, arguments(), scoring):
        identifiers, features = pending.popleft()
        start = 0
        for scores in chunks:
            scores = Scores(*scores)
            rows = slice(start, start + scores.N)
            yield identifiers[rows], features[rows], scores
            start += scores.N
    if errors:
        raise errors[0]


def _assign_shard(opened, features):
    """Return a list of the fields of `Scores`, one for each chunk of a shard, given `Scoring.opened`."""
    predictor, scoring = opened
    chunks = assign(predictor, features, scoring.rule, scoring.output, scoring.with_std, scoring.memory)
    return [(chunk.indptr, chunk.labels, chunk.scores, chunk.K, chunk.std) for chunk in chunks]


def _shards(blocks, waits):
    """Yield the points of blocks in shards of `ROWS`; the last one may have fewer, and one before the blocks wait."""
    identifiers = []
    parts = []
    count = 0
    for names, features in blocks:
        start = 0
        while start < len(names):
            stop = min(len(names), start + ROWS - count)
            identifiers += names[start:stop]
            parts.append(features[start:stop])
            count += stop - start
            start = stop
            if count == ROWS:
                yield identifiers, _stack(parts)
                identifiers = []
                parts = []
                count = 0
        if count and waits():
            yield identifiers, _stack(parts)
            identifiers = []
            parts = []
            count = 0
    if count:
        yield identifiers, _stack(parts)


def _stack(parts):
    return parts[0] if len(parts) == 1 else Features.stack(parts)
