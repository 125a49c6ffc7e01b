"""Score many points, on this machine or on a Dask cluster, with the same result to the last digit.

Points are scored in shards of a fixed number of rows, whatever the sizes of the blocks that are read. The order of sums
in BLAS depends on the shapes of matrices, so only equal shards give equal scores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from xmlgp.api.points import Block, Identifier, never
from xmlgp.api.trained_model import TrainedModel
from xmlgp.data.dataset import Features
from xmlgp.features.pipeline import Preprocessed
from xmlgp.models.fields import Settings
from xmlgp.models.table import MODELS
from xmlgp.prediction.assignment import AssignmentRule, assign
from xmlgp.prediction.label_writer import ScoredPoints
from xmlgp.prediction.predictor import Predictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.errors import DataFormatError, up_to_error
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor

__all__ = ["ROWS", "Scoring", "score_blocks"]

#: Points in a shard: enough for 16 cores with 256 points each (`xmlgp.prediction.predictor`).
ROWS = 4096


class Scoring(NamedTuple):
    """How points are scored and labels are chosen."""

    rule: AssignmentRule
    output: str
    with_std: bool = False


@dataclass(frozen=True)
class _SentModel:
    """A model on its way to the workers of a cluster, each of which makes the predictor from its arrays."""

    settings: Settings
    preprocessed: Preprocessed
    parameters: dict[str, NDArray[Any]]
    D: int
    scoring: Scoring

    def prepare_shared(self) -> tuple[Predictor, Scoring]:
        create: Callable[..., Predictor] = MODELS[self.settings.model].load_predictor()
        return create(self.settings, self.preprocessed, self.parameters, self.D), self.scoring


def score_blocks(
    model: TrainedModel,
    scoring: Scoring,
    blocks: Iterable[Block],
    work: Executor = LOCAL_EXECUTOR,
    waits: Callable[[], bool] = never,
) -> Iterator[ScoredPoints]:
    """Yield points with their scores, a chunk at a time, in order.

    Memory holds only a few shards. On this machine, points are scored without others of their shard when the blocks are
    waited for (`waits`). A DataFormatError of the blocks is raised after the points before it.
    """
    pending: deque[tuple[list[Identifier], Features]] = deque()
    errors: list[DataFormatError] = []
    shared: object = model.predictor, scoring
    if work.is_cluster:
        waits = never
        shared = _SentModel(model.settings, model.preprocessed, model.parameters, model.data["D"], scoring)

    def arguments() -> Iterator[tuple[Features]]:
        for shard in _shards(up_to_error(blocks, errors), waits):
            pending.append(shard)
            yield (shard[1],)

    for chunks in work.map(_assign_shard, arguments(), shared):
        ids, features = pending.popleft()
        start = 0
        for scores in chunks:
            rows = slice(start, start + scores.N)
            yield ScoredPoints(ids[rows], features[rows], scores)
            start = rows.stop
    if errors:
        raise errors[0]


def _assign_shard(shared: tuple[Predictor, Scoring], features: Features) -> list[Scores]:
    """Return the labels of the points in a shard, a chunk of points at a time."""
    predictor, scoring = shared
    return list(assign(predictor, features, scoring.rule, scoring.output, scoring.with_std))


def _shards(blocks: Iterable[Block], waits: Callable[[], bool]) -> Iterator[tuple[list[Identifier], Features]]:
    """Yield the identifiers and features of `ROWS` points at a time, and of fewer at the end or if the blocks wait."""
    ids: list[Identifier] = []
    pieces: list[Features] = []
    for block in blocks:
        identifiers = block.identifiers
        for rows in row_blocks(len(identifiers), ROWS):
            ids += identifiers[rows]
            pieces.append(block.points.features[rows])
            if len(ids) >= ROWS:
                features = Features.stack(pieces)
                yield ids[:ROWS], features[:ROWS]
                ids, pieces = ids[ROWS:], [features[ROWS:]]
        if ids and waits():
            yield ids, Features.stack(pieces)
            ids, pieces = [], []
    if ids:
        yield ids, Features.stack(pieces)
