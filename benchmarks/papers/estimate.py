"""How long experiments take, from the seconds of the cells in the kept results."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.catalogue import Experiment
from benchmarks.papers.cells import Cell, cell_seconds, read_result
from xmlgp.runtime.threads import core_count

__all__ = ["Estimate", "duration", "estimate"]

#: Seconds of a cell besides those of its result: starting a process, reading the data, measuring on the test points.
BESIDE_TRAINING = 5

MINUTE = 60
HOUR = 3600


class Estimate(NamedTuple):
    """The number of cells to train, their seconds on this machine, and how many of them were never measured."""

    cells: int
    seconds: float
    unmeasured: int


def estimate(pairs: Iterable[tuple[Experiment, Experiment]], kept: Path, target: Path) -> Estimate:
    """Return the cost of the cells of experiments that have no result in the folder `target`.

    Each experiment comes with the same one of the paper's length, whose results are those in the folder `kept`. A cell
    without a result counts as the mean of the other seeds of its row.
    """
    seconds: dict[Cell[Any], float | None] = {}
    for experiment, full_length in pairs:
        available = set(experiment.chosen).difference(experiment.missing)
        for (dataset, *_, cells), (*_, measured) in zip(experiment.rows, full_length.rows, strict=True):
            if dataset in available:
                full = _seconds_of(measured, kept)
                each = None if full is None else experiment.epochs_scale * full + BESIDE_TRAINING
                seconds |= dict.fromkeys([cell for cell in cells if read_result(cell, target) is None], each)
    together = [value or 0.0 for cell, value in seconds.items() if not cell.timed]
    alone = [value or 0.0 for cell, value in seconds.items() if cell.timed]
    # Cells cannot be divided, so a single long one can take longer than the share of a core.
    shared = max([sum(together) / core_count(), *together])
    return Estimate(len(seconds), shared + sum(alone), sum(value is None for value in seconds.values()))


def _seconds_of(cells: Sequence[Cell[Any]], kept: Path) -> float | None:
    """Return the mean seconds of the cells that have a result, of the catalogue's data; None if none has."""
    results = [read_result(dataclasses.replace(cell, other_data=()), kept) for cell in cells]
    seconds = [cell_seconds(result) for result in results if result is not None]
    return float(np.mean(seconds)) if seconds else None


def duration(seconds: float) -> str:
    """Return a duration in words, to about two digits."""
    if seconds < 2 * MINUTE:
        return "less than 2 minutes"
    if seconds < 2 * HOUR:
        return f"about {seconds / MINUTE:.0f} minutes"
    return f"about {seconds / HOUR:.{0 if seconds >= 10 * HOUR else 1}f} hours"
