"""Score many points, on this machine or on a Dask cluster, with the same result to the last digit.

Points are scored in shards of a fixed number of rows, whatever the sizes of the blocks that are read. The order of sums
in BLAS depends on the shapes of matrices, so only equal shards give equal scores.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from xmlgp.api.points import Block, Identifier, never
from xmlgp.api.trained_model import open_predictor
from xmlgp.data.features import Features
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import AssignmentRule, assign
from xmlgp.prediction.label_writer import ScoredPoints
from xmlgp.prediction.predictor import MEMORY, Predictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import DataFormatError, ModelFolderError, up_to_error
from xmlgp.runtime.work import THIS_MACHINE, Work

__all__ = ["ROWS", "Scoring", "score_blocks"]

#: Points in a shard: enough for 16 cores with 256 points each (`xmlgp.prediction.predictor`).
ROWS = 4096


class ModelLocation(NamedTuple):
    """Where workers find a model: its absolute path and a digest of it."""

    path: str
    identity: str

    @classmethod
    def of(cls, folder: ModelFolder) -> ModelLocation:
        """Return the location of a model in a folder."""
        return cls(os.path.abspath(folder.path), _identity(folder))


@dataclass(frozen=True, eq=False)
class Scoring:
    """How points are scored and labels are chosen: what all shards share.

    Each worker of a cluster opens the predictor from its location; on this machine there may be none.
    `memory` limits the megabytes of each thread of a cluster, besides the model.
    """

    predictor: Predictor | None
    location: ModelLocation | None
    rule: AssignmentRule
    output: str | None = None
    with_std: bool = False
    memory: int = MEMORY
    calibrated: bool = True

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"predictor": None}

    def opened(self) -> tuple[Predictor, Scoring]:
        """Return the predictor that ranks labels, and this object."""
        predictor = self.predictor
        if predictor is None:
            predictor = _open_model(cast(ModelLocation, self.location))
        if not self.calibrated:
            predictor = copy.copy(predictor)
            predictor.calibration = None
        return predictor, self


def _identity(folder: ModelFolder) -> str:
    """Return a digest of the model in a folder."""
    facts = [folder.description[name] for name in ("settings", "data", "arrays")]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _open_model(location: ModelLocation) -> Predictor:
    try:
        folder, predictor = ModelFolder.read(location.path, lambda folder: (folder, open_predictor(folder)))
    except ModelFolderError as error:
        # The main process has read the model already, so this is an error of the worker's file system.
        raise OSError(str(error)) from None
    if _identity(folder) != location.identity:
        raise OSError(f"{location.path}: the model in this folder has changed since prediction began")
    return predictor


class _Shard(NamedTuple):
    """Consecutive points to be scored: identifiers and features."""

    ids: list[Identifier]
    features: Features


def score_blocks(
    scoring: Scoring, blocks: Iterable[Block], work: Work = THIS_MACHINE, waits: Callable[[], bool] = never
) -> Iterator[ScoredPoints]:
    """Yield points with their scores, a chunk at a time, in order.

    Memory holds only a few shards. On this machine, points are scored without others of their shard when the blocks are
    waited for (`waits`). A DataFormatError of the blocks is raised after the points before it.
    """
    pending: deque[_Shard] = deque()
    errors: list[DataFormatError] = []

    def arguments() -> Iterator[tuple[Features]]:
        for shard in _shards(up_to_error(blocks, errors), lambda: not work.is_cluster and waits()):
            pending.append(shard)
            yield (shard.features,)

    for chunks in work.map(_assign_shard, arguments(), scoring):
        shard = pending.popleft()
        start = 0
        for fields in chunks:
            scores = Scores(*fields)
            stop = start + scores.N
            yield ScoredPoints(shard.ids[start:stop], shard.features[start:stop], scores)
            start = stop
    if errors:
        raise errors[0]


def _assign_shard(opened: tuple[Predictor, Scoring], features: Features) -> list[tuple[Any, ...]]:
    """Return the fields of `Scores` for each chunk of a shard, given `Scoring.opened`."""
    predictor, scoring = opened
    chunks = assign(predictor, features, scoring.rule, scoring.output, scoring.with_std, scoring.memory)
    return [(chunk.indptr, chunk.labels, chunk.scores, chunk.K, chunk.std) for chunk in chunks]


def _shards(blocks: Iterable[Block], waits: Callable[[], bool]) -> Iterator[_Shard]:
    """Yield the points of blocks in shards of `ROWS`; the last one may have fewer, and one before the blocks wait."""
    pieces: list[_Shard] = []
    count = 0
    for block in blocks:
        ids = block.identifiers
        start = 0
        while start < len(ids):
            stop = min(len(ids), start + ROWS - count)
            pieces.append(_Shard(ids[start:stop], block.points.features[start:stop]))
            count += stop - start
            start = stop
            if count == ROWS:
                yield _joined(pieces)
                pieces = []
                count = 0
        if count and waits():
            yield _joined(pieces)
            pieces = []
            count = 0
    if count:
        yield _joined(pieces)


def _joined(pieces: list[_Shard]) -> _Shard:
    """Return pieces of a shard as one."""
    if len(pieces) == 1:
        return pieces[0]
    ids = [id for piece in pieces for id in piece.ids]
    return _Shard(ids, Features.stack([piece.features for piece in pieces]))
