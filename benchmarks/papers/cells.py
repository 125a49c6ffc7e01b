"""Cells of an experiment: a method on a data set with a seed, trained, measured, timed and kept.

All results of a folder are in one file, cells.json. The name of a result is a digest of everything that determines it.
An interrupted experiment therefore continues with its unfinished cells, and experiments share the results of cells that
they have in common.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from xmlgp.data.catalogue import Entry
from xmlgp.data.dataset import Dataset
from xmlgp.data.files import locate
from xmlgp.data.formats import LIBSVM, fit_to_model, read_dataset
from xmlgp.data.repository_format import MAX_HEADER_BYTES
from xmlgp.features.inputs import Inputs
from xmlgp.features.pipeline import Preprocessed
from xmlgp.metrics.propensity import propensities_of_counts
from xmlgp.models.fields import Settings
from xmlgp.models.model import Model
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import core_count, limit_threads
from xmlgp.training.loop import EpochHook
from xmlgp.training.minibatches import hold_out

__all__ = [
    "KS",
    "Cell",
    "CellData",
    "add_result",
    "cell_seconds",
    "other_data",
    "read_results",
    "run_cell",
    "run_cells",
    "training_seconds",
]

#: The file of the results of all cells, and the lock of those who add to it.
RESULTS = "cells.json"
LOCK = ".lock"

#: Numbers of labels k at which P@k and the other ranking measures are computed.
KS = (1, 3, 5)

#: Seed of the division into training and test points, the same for all methods and restarts.
SPLIT_SEED = 0

#: Memory of a worker process besides its data: the interpreter, its libraries, minibatches and gradients.
WORKER_BYTES = 1 << 30


SettingsOfModel = TypeVar("SettingsOfModel", bound=Settings)


class CellData(NamedTuple):
    """The data of a cell, with the coordinates of the training points; binary data have no propensities."""

    train: Dataset
    test: Dataset
    preprocessed: Preprocessed
    coordinates: Inputs
    propensities: NDArray[np.float64] | None


@dataclasses.dataclass(frozen=True)
class Cell(ABC, Generic[SettingsOfModel]):
    """A method on a data set with a seed. Each model has a subclass, which trains and measures it.

    `dataset` is the name of the data set in the catalogue, `folder` that of its points, and `propensity` has A and B of
    the propensity-scored measures, None for binary data.
    """

    dataset: str
    folder: Path
    propensity: tuple[float, float] | None
    settings: SettingsOfModel

    #: Epochs between evaluations on the test points, for curves; 0 for one evaluation at the end.
    test_every: int = 0

    #: Share of the points that become test points; 0 if the data set has test points.
    held_out: float = 0.0

    #: Whether the experiment is about its time, so that it must run alone; the result does not depend on it.
    timed: bool = dataclasses.field(default=False, compare=False)

    #: What `other_data` says of the points: empty for those of the catalogue.
    other_data: tuple[tuple[str, str, str], ...] = ()

    #: The record of the model, and the keys of an experiment in the catalogue that only this model has.
    model: ClassVar[Model]
    defaults: ClassVar[dict[str, object]] = {}

    #: Fields that the digest includes when one of them is not empty.
    in_digest: ClassVar[tuple[str, ...]] = ("held_out",)

    @classmethod
    def options(cls, spec: Mapping[str, Any], dataset: str, method: str, epochs_scale: float) -> dict[str, Any]:
        """Return the keyword arguments that only cells of this model take, for an experiment of the catalogue."""
        return {}

    @classmethod
    def scale(cls, settings: SettingsOfModel, N: int, epochs_scale: float) -> SettingsOfModel:
        """Return settings with the number of epochs made explicit and multiplied; unchanged if time ends training."""
        return settings

    @classmethod
    @abstractmethod
    def columns(cls, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the columns that only rows of this model have, as a mapping."""

    @abstractmethod
    def run(self, data: CellData) -> dict[str, Any]:
        """Train, and return at least `measures` on the test points and `history`."""

    @property
    def name(self) -> str:
        """The name of the result: the data set and a digest of everything that determines the result."""
        facts = self.facts() + ([self.other_data] if self.other_data else [])
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        return f"{self.dataset}-{digest}"

    def facts(self) -> list[Any]:
        """Return everything that determines the result besides the data, as a list that JSON can represent."""
        # A setting that comes or goes changes nothing that is left at its default.
        usual = type(self.settings)()
        settings = {
            name: value for name, value in self.settings.with_model().items() if value != getattr(usual, name, None)
        }
        facts = [settings, self.propensity, self.test_every]
        further = {name: getattr(self, name) for name in self.in_digest}
        return [*facts, further] if any(further.values()) else facts

    def curve_of(
        self, measure: Callable[[Mapping[str, NDArray[Any]]], dict[str, float]], last: int
    ) -> tuple[list[dict[str, Any]], EpochHook]:
        """Return a list, and a hook of the training loop that adds measures to it every `test_every` epochs."""
        curve: list[dict[str, Any]] = []

        def after_epoch(epoch: int, parameters: Callable[[], dict[str, NDArray[Any]]]) -> None:
            if self.test_every and (epoch % self.test_every == 0 or epoch == last):
                curve.append({"epoch": epoch} | measure(parameters()))

        return curve, after_epoch

    def bytes_needed(self) -> int:
        """Return an estimate of the memory that the cell needs: a process, and twice the size of the text."""
        files = (file for pattern in ("t*.txt*", "*.svm*") for file in self.folder.glob(pattern))
        return WORKER_BYTES + 2 * sum(file.stat().st_size for file in files)


def other_data(entry: Entry, folder: Path) -> tuple[tuple[str, str, str], ...]:
    """Return the files of a data set whose sizes are not those of the catalogue: name, sizes in words and SHA-256.

    Sizes are those that the first line declares, or the number of points in libsvm format. Files that are not there
    count as those of the catalogue.
    """
    files = []
    for file in entry.files:
        with contextlib.suppress(FileNotFoundError), open(folder / file.name, "rb") as stream:
            if entry.format == LIBSVM:
                sizes = [str(sum(1 for _ in stream))]
                expected = [file.points]
            else:
                header = stream.readline(MAX_HEADER_BYTES).decode(errors="replace")
                sizes = header.split()
                expected = [file.points, entry.shape.D, entry.shape.K]
            if sizes != list(map(str, expected)):
                # A malformed line is an error when the cell reads the file.
                words = ", ".join(map("{} {}".format, "NDK", sizes))
                stream.seek(0)
                files.append((file.name, words, hashlib.sha256(stream.read()).hexdigest()))
    return tuple(files)


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the results in a folder by the names of their cells."""
    file = folder / RESULTS
    results: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return results


def add_result(name: str, result: Mapping[str, Any], folder: Path) -> None:
    """Add the result of a cell to those in a folder, each on a line of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / LOCK):
        results = read_results(folder) | {name: result}
        lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(results.items()))
        with atomic_write(folder / RESULTS) as stream:
            stream.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())


def training_seconds(results: Sequence[dict[str, Any]]) -> float:
    """Return the seconds of a training run: its epochs times their median seconds, the least of all restarts.

    The minimum is the least disturbed by other work on the machine, which can only add to it.
    """
    return float(min(result["history"][-1]["epoch"] * result["epoch_s"] for result in results))


def cell_seconds(result: Mapping[str, Any]) -> float:
    """Return the seconds of preprocessing and of all training of a cell."""
    pilots = sum(pilot.get("seconds", 0) for pilot in result.get("pilots", ()))
    return float(result["preprocess_s"] + result["history"][-1]["seconds"] + pilots)


def run_cells(cells: Iterable[Cell], folder: Path, note: Callable[[str], None] = lambda text: None) -> None:
    """Run the cells that have no result in a folder: as many at once as cores and memory allow, then the timed ones.

    `note` is told of each cell that has finished.
    """
    finished = read_results(folder)
    unfinished = [cell for cell in dict.fromkeys(cells) if cell.name not in finished]
    for timed in (False, True):
        chosen = [cell for cell in unfinished if cell.timed == timed]
        if chosen:
            _run_in_processes(chosen, folder, note, 1 if timed else core_count())


def _run_in_processes(cells: Sequence[Cell], folder: Path, note: Callable[[str], None], max_workers: int) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    fitting = int(memory // max(cell.bytes_needed() for cell in cells))
    workers = max(1, min(max_workers, fitting, len(cells)))
    # Each worker gets its share of the cores: threads of several processes would wait for each other.
    threads = max(1, core_count() // workers)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(run_cell, cell, threads): cell for cell in cells}
        try:
            for count, done in enumerate(as_completed(running), start=1):
                add_result(running[done].name, done.result(), folder)
                note(f"{count} of {len(cells)} cells: {running[done].dataset}")
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if not isinstance(error, Exception):
                # A user who interrupts does not want to wait for them.
                for child in active_children():
                    child.terminate()
            raise


def run_cell(cell: Cell, threads: int | None = None) -> dict[str, Any]:
    """Train, measure and time a cell with some threads, or one for each core, and return the result."""
    with limit_threads(threads):
        return _measured(cell) | {"threads": core_count(), "date": date.today().isoformat(), "machine": _machine()}


def _machine() -> str:
    """Return the name of the processor, if the system has it, and the number of cores."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores"


def _measured(cell: Cell) -> dict[str, Any]:
    train, test = _read_data(cell)
    settings = cell.settings
    start = time.perf_counter()
    preprocessed = cell.model.preprocess(train.features, settings, silent)
    coordinates = preprocessed.inputs(train.features, settings.dtype)
    preprocess_seconds = time.perf_counter() - start
    weights = None
    if cell.propensity:
        weights = propensities_of_counts(train.labels.sum(axis=0), train.N, *cell.propensity)
    result = cell.run(CellData(train, test, preprocessed, coordinates, weights))
    seconds = [0.0, *(epoch["seconds"] for epoch in result["history"])]
    usual = {"settings": settings.mapping(), "epoch_s": float(np.median(np.diff(seconds)))}
    return {"dataset": cell.dataset, **(usual | result), "preprocess_s": preprocess_seconds}


def _read_data(cell: Cell) -> tuple[Dataset, Dataset]:
    """Return training points and test points."""
    data = read_dataset(locate(cell.folder, "train"))
    if cell.held_out:
        train, test = hold_out(data.N, cell.held_out, np.random.default_rng(SPLIT_SEED))
        return data.rows(train), data.rows(test)
    test = read_dataset(locate(cell.folder, "test"))
    # A file in libsvm format has only as many features as occur in it.
    return data, fit_to_model(test, data.D, 1, cell.dataset)
