"""One cell of an experiment: a method on a data set with a seed, trained, scored, timed and kept as JSON.

A finished cell is a file named after what determines it, so an interrupted experiment goes on where it was, and
experiments that share cells share their work.
"""

import dataclasses
import hashlib
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context
from pathlib import Path

import numpy as np

from xmlgp.data.formats import LIBSVM, read_dataset
from xmlgp.data.libsvm_format import with_features
from xmlgp.data.locate import locate
from xmlgp.experiments.bmlpl import run_bmlpl
from xmlgp.experiments.gpc import run_gpc
from xmlgp.experiments.scored import KS, stacked
from xmlgp.experiments.timing import time_bound
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.preprocess.pipeline import preprocess
from xmlgp.runtime.atomic_files import atomic_write, check_writable
from xmlgp.runtime.progress import silent
from xmlgp.settings.fields import Settings
from xmlgp.training.loop import train
from xmlgp.training.stopping import hold_out

__all__ = ["Cell", "finish_cells", "read_cell"]

#: Settings and models that came after the first finished cells, at the values that those had: left out, so that names
#: stay.
EARLIER = {
    "model": "mlgpf",
    "start": "random",
    "sampling": "uniform",
    "label_weights": False,
    "regression_points": 0,
    "expectations": "quadrature",
    "validation": 0,
    "patience": 10,
    "refit": True,
}

#: Seed of the division into training and test points, the same for all methods and restarts.
SPLIT_SEED = 0

#: Bytes that a worker takes beside its data: the interpreter, its libraries, minibatches and gradients.
WORKER_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True)
class Cell:
    """What determines a cell.

    Parameters
    ----------
    dataset : str
        Name in the catalogue.
    folder : Path
        Holds the training points and the test points (`xmlgp.data.locate`).
    propensity : tuple of float or None
        A and B of the propensity-scored measures; None for data of one label.
    settings : Settings
    test_every : int
        Epochs from one evaluation on the test points to the next, for curves; 0 for the end only.
    topic_shares : tuple of float
        Of bmlpl: numbers of topics, as shares of the number of labels, of which held-out points choose one.
    held_out : float
        Share of the points that are test points, of a data set without any of its own; 0 where there are some.
    seconds : float
        Of gpc: training time after which training ends.
    learning_rates : tuple of float
        Of gpc: learning rates of which short trainings choose one.
    full_batch : bool
        Of gpc: whether the bound is maximised by L-BFGS-B over all points at once instead, see `FullBatch`.
    timed : bool
        Whether its seconds are what is looked at, so that it is to run alone; the result does not depend on it.
    """

    dataset: str
    folder: Path
    propensity: tuple | None
    settings: Settings
    test_every: int = 0
    topic_shares: tuple = ()
    held_out: float = 0.0
    seconds: float = 0.0
    learning_rates: tuple = ()
    full_batch: bool = False
    timed: bool = dataclasses.field(default=False, compare=False)

    @property
    def name(self):
        """A file name: the data set and a digest of all that the result depends on."""
        settings = self.settings.with_model().items()
        settings = {name: value for name, value in settings if name not in EARLIER or value != EARLIER[name]}
        facts = [settings, self.propensity, self.test_every]
        if self.topic_shares:
            facts.append(self.topic_shares)
        later = {name: getattr(self, name) for name in ("held_out", "seconds", "learning_rates", "full_batch")}
        if any(later.values()):
            facts.append(later)
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        return f"{self.dataset}-{digest}.json"

    def bytes_needed(self):
        """Return about how much memory the cell takes, by the size of its text, which parsing does not exceed."""
        files = (file for pattern in ("t*.txt*", "*.svm*") for file in self.folder.glob(pattern))
        return WORKER_BYTES + 2 * sum(file.stat().st_size for file in files)


def read_cell(cell, results):
    """Return the result of a finished cell, or None.

    Parameters
    ----------
    cell : Cell
    results : Path
        Folder of finished cells.
    """
    file = results / "cells" / cell.name
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def finish_cells(cells, results, progress=silent):
    """Finish cells that are not finished yet, as many at once as cores and memory allow; then those timed, one by one.

    Parameters
    ----------
    cells : iterable of Cell
    results : Path
        Folder of finished cells; made where missing.
    progress : callable
        See `xmlgp.runtime.progress`.
    """
    cells = dict.fromkeys(cells)
    for timed in (False, True):
        open_cells = [cell for cell in cells if cell.timed == timed and read_cell(cell, results) is None]
        if open_cells:
            _finish(open_cells, results, progress, 1 if timed else os.cpu_count() or 1)


def _finish(open_cells, results, progress, most):
    """Finish cells, at most so many at once."""
    (results / "cells").mkdir(parents=True, exist_ok=True)
    check_writable(results / "cells")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    fitting = int(memory // max(cell.bytes_needed() for cell in open_cells))
    workers = max(1, min(most, fitting, len(open_cells)))
    # Each on its share of the cores: threads of several processes would wait for each other.
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    saved = {name: os.environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    os.environ.update(dict.fromkeys(saved, threads))
    try:
        with (
            ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
            progress("cells", total=len(open_cells), unit="cell") as bar,
        ):
            running = {pool.submit(run_cell, cell, results): cell for cell in open_cells}
            try:
                for done in as_completed(running):
                    done.result()
                    bar.update(last=running[done].name.partition("-")[0])
            except BaseException as error:
                # On a full disk the others would be trained in vain; those under way are kept if they can be.
                pool.shutdown(wait=False, cancel_futures=True)
                if not isinstance(error, Exception):
                    # Who interrupts does not want to wait for them.
                    for child in active_children():
                        child.terminate()
                raise
    finally:
        for name, value in saved.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def run_cell(cell, results):
    """Train, score and time a cell, and keep the result.

    Parameters
    ----------
    cell : Cell
    results : Path
    """
    data, test = _read(cell)
    propensity = propensities(data.labels, *cell.propensity) if cell.propensity else None
    settings = cell.settings
    start = time.perf_counter()
    preprocessed = preprocess(data.features, settings)
    coordinates = preprocessed.coordinates(data.features, settings.dtype)
    preprocessing = time.perf_counter() - start
    run = {"mlgpf": _run_mlgpf, "bmlpl": run_bmlpl, "gpc": run_gpc}[settings.model]
    found = run(cell, preprocessed, coordinates, data, test, propensity)
    seconds = [0.0, *(epoch["seconds"] for epoch in found["history"])]
    usual = {"settings": settings.mapping(), "epoch_s": float(np.median(np.diff(seconds)))}
    result = {
        "dataset": cell.dataset,
        **(usual | found),
        "preprocess_s": preprocessing,
        "threads": int(os.environ.get("OPENBLAS_NUM_THREADS", 0)) or os.cpu_count(),
    }
    file = results / "cells" / cell.name
    with atomic_write(file) as stream:
        stream.write(json.dumps(result, indent=1).encode())


def _read(cell):
    """Return training points and test points."""
    data, _ = read_dataset(locate(cell.folder, "train"))
    if cell.held_out:
        rows, held = hold_out(data.N, cell.held_out, np.random.default_rng(SPLIT_SEED))
        return data.rows(rows), data.rows(held)
    test, form = read_dataset(locate(cell.folder, "test"))
    # A file in libsvm's format has as many features as its points happen to have.
    return data, with_features(test, data.D) if form == LIBSVM else test


def _run_mlgpf(cell, preprocessed, coordinates, data, test, propensity):
    settings, curve = cell.settings, []

    def measures(parameters):
        blocks = MLGPFPredictor(settings, preprocessed, parameters, data.D).top(test.features, max(KS))
        return evaluate_ranking(stacked(blocks), test.labels, KS, propensity)

    def after_epoch(epoch, parameters):
        if cell.test_every and (epoch % cell.test_every == 0 or epoch == settings.epochs):
            curve.append({"epoch": epoch} | measures(parameters))

    parameters, history = train(coordinates, data.labels, preprocessed.inducing, settings, after_epoch=after_epoch)
    timing = time_bound(settings, parameters, coordinates, data.labels)
    return {"measures": measures(parameters), "history": history, "curve": curve, "timing": timing}
