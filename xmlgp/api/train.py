"""Train a model, in memory or into its folder: from the start, or from the checkpoint of an interrupted run."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from xmlgp.api.interrupted import CHECKPOINT, InterruptedRun, describe_run, discard_run, left_by_failure, run_to_resume
from xmlgp.api.points import FilePath, is_path
from xmlgp.api.run import ChosenSettings, Run, read_run
from xmlgp.api.source import Labels, Points, Source
from xmlgp.api.trained_model import TrainedModel, model_to_replace, named_arrays, read_preprocessing, write_model
from xmlgp.features.pipeline import Preprocessed
from xmlgp.model_folder.arrays import Entry, remove, write_arrays
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.models.table import MODELS
from xmlgp.runtime.errors import ModelFolderError, UsageError
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.runtime.work import THIS_MACHINE, Work
from xmlgp.training.checkpoints import CheckpointWriter

__all__ = ["CHECKPOINT_SECONDS", "train", "train_into"]

#: From one checkpoint to the next within an epoch.
CHECKPOINT_SECONDS = 300


def train(
    data: Points | Source,
    path: FilePath | None = None,
    *,
    labels: Labels | None = None,
    settings: ChosenSettings | None = None,
    resume: bool = True,
    overwrite: bool = False,
    keep_points: bool = True,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    reporter: Reporter = QUIET,
    work: Work = THIS_MACHINE,
) -> TrainedModel:
    """Train a model, in memory or into a folder.

    Parameters
    ----------
    data : path, matrix N×D, list of str, Dataset or Source
        The training points; a path as for `xmlgp train`. A `Source` also says how a file of text is read, which words
        are features, which dense features the points have, and what is known of their labels. The columns of a
        DataFrame are the names of the features, which later ones must have in the same order; those of a DataFrame of
        labels are the names of the labels.
    path : path, optional
        The model folder; created if missing. Until training succeeds, its earlier content stays. Preprocessing of the
        same data in it is used, and a run that was interrupted resumes from its last checkpoint and ends in the same
        model.
    labels : matrix N×K or list of list of str, optional
        Of points that are a matrix or texts.
    settings : mapping, optional
        Settings by name, see docs/commands.md. The `model` may be among them, "mlgpf", "bmlpl" or "gpc", and a
        `recipe`, which the others override: its name in the catalogue, or a file of settings (.yaml). A `Settings`
        object is taken as it is.
    resume : bool
        Whether an interrupted run in the folder resumes, which must have the same data and settings, rather than being
        discarded.
    overwrite : bool
        Whether to replace a trained model of other data in the folder, which is otherwise an error. A model of the same
        data is replaced either way.
    keep_points : bool
        Whether the model keeps the points as read, which `learn` needs to train again.
    checkpoint_seconds : float
        From one checkpoint to the next within an epoch; 0 for none.
    reporter : Reporter, optional
        Receives progress and messages, see `xmlgp.runtime.progress`. Default: nothing is shown.
    work : ThisMachine or DaskCluster, optional
        Where to train, see `xmlgp.cluster.connection.open_work`. Default: on this machine.

    Raises
    ------
    DataFormatError
        If a file is malformed; it names the line.
    SettingsError
        For settings that are not allowed or contradict what is to be resumed, for points that the model cannot be
        trained on, or training that does not fit into memory.
    ModelFolderError
        If another process is writing the folder, an interrupted run is damaged or another one, or a model of other data
        is there.
    NumericalError
        If training diverges.
    ClusterError
        If the cluster is lost; the last checkpoint stays.
    """
    if path is not None and not is_path(path):
        raise UsageError("The second argument is the path of a model folder; give labels as labels=….")
    source = Source.of(data, labels)
    run = read_run(source, settings, path, reporter=reporter, work=work, keep_points=keep_points)
    if path is None:
        return run.train(run.preprocess())
    with lock_model_folder(path):
        return train_into(Path(path), run, resume, overwrite, checkpoint_seconds)


def train_into(
    path: Path, run: Run, resume: bool = True, overwrite: bool = False, checkpoint_seconds: float = CHECKPOINT_SECONDS
) -> TrainedModel:
    """Train into a locked model folder, with checkpoints, and say how it went; see `train`."""
    note = run.reporter.note
    earlier = model_to_replace(path, run.dataset, overwrite)
    if not resume:
        discard_run(path)
    interrupted = run_to_resume(path, run.identity, run.settings, note)
    began = time.perf_counter()
    with left_by_failure(path, note):
        preprocessed, entries = _preprocessed(path, run, earlier, interrupted)
        about = describe_run(run.identity, run.settings, entries)
        state = interrupted.checkpoint if interrupted else None
        model = run.train(preprocessed, CheckpointWriter(path / CHECKPOINT, about, checkpoint_seconds, state))
        folder = write_model(model, path, entries)
    remove([path / CHECKPOINT], ())
    took = f"trained in {time.perf_counter() - began:.1f} s"
    # The best of a single label is no measure.
    note(f"{took}; {model.held_out.precision(run.dataset.K)}" if model.held_out and run.dataset.K > 1 else took)
    if model.held_out:
        note(model.held_out.reliability())
    for text in MODELS[run.settings.model].review(run.settings, folder.description):
        note(text)
    predict, show = (shlex.join(["xmlgp", name, os.fspath(path)]) for name in ("predict", "show"))
    dense = " --dense FILE" if "dense" in model.data else ""
    note(f"next, `{predict} DATA{dense}`; `{show}` has the details")
    return replace(model, folder=folder)


def _preprocessed(
    path: Path, run: Run, earlier: ModelFolder | None, interrupted: InterruptedRun | None
) -> tuple[Preprocessed, Mapping[str, Entry]]:
    """Return the preprocessing of an earlier run or a new one, and the entries of its arrays in the folder."""
    if interrupted:
        try:
            return read_preprocessing(path, interrupted.preprocess, run.settings, run.dataset.D), interrupted.preprocess
        except ModelFolderError as error:
            raise ModelFolderError(f"{error}; use `resume=False` to start a new run") from error
    if earlier and earlier.settings.preprocess_part() == run.settings.preprocess_part():
        entries = earlier.entries("preprocess.")
        return read_preprocessing(path, entries, run.settings, run.dataset.D), entries
    if earlier and earlier.stage == "preprocessed":
        run.reporter.note("preprocessing is repeated, because its settings are different")
    preprocessed = run.preprocess()
    written: dict[str, Entry] = {}
    write_arrays(path, named_arrays(preprocessed), written)
    return preprocessed, written
