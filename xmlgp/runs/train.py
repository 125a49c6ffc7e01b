"""Train a model into its folder: from the start, or from the checkpoint of an interrupted run."""

import time
from pathlib import Path

from xmlgp.errors import ModelFolderError
from xmlgp.model_folder.arrays import read_array, remove, write_arrays
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.models import MODELS
from xmlgp.runs.interrupted import CHECKPOINT, describe_run, what_is_left
from xmlgp.runs.plan import plan_run
from xmlgp.runs.preprocess import check_data, preprocess_data
from xmlgp.runs.request import Request
from xmlgp.runs.stored import named_arrays, preprocessed_from, stored_preprocessing
from xmlgp.runtime.progress import ignore, silent
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.work import THIS_MACHINE

__all__ = ["CHECKPOINT_SECONDS", "train_model"]

#: From one checkpoint to the next within an epoch.
CHECKPOINT_SECONDS = 300


def train_model(
    dataset,
    path,
    request,
    progress=silent,
    *,
    resume=None,
    checkpoint_seconds=CHECKPOINT_SECONDS,
    names=None,
    note=ignore,
    work=THIS_MACHINE,
):
    """Train a model into its folder, at stage "trained"; preprocess first if that is not done.

    Preprocessing of the same data with the same settings is used again. Until training succeeds, the earlier content
    of the folder stays. An interrupted run of the same data and settings is resumed from its last checkpoint; on the
    same number of cores the model is the same, bit for bit, as without the interruption.

    Parameters
    ----------
    dataset : Dataset
        The training points.
    path : path
        The model folder; created if missing.
    request : Settings or Request
    progress : callable
        See `xmlgp.runtime.progress`.
    resume : bool, optional
        True: resume an interrupted run with its settings; do nothing if the model is trained as asked. False: discard
        an interrupted run. None: resume an interrupted run of the same data and settings; another one is discarded, but
        an error if it took a minute or more.
    checkpoint_seconds : float
        From one checkpoint to the next within an epoch; 0 for no checkpoints at all.
    names : Names, optional
        Of the labels and features; the model keeps them.
    note : callable
        Receives messages to the user, which begin with the path.
    work : ThisMachine or DaskCluster
        Trains on its workers; the model then tells their number.

    Returns
    -------
    ModelFolder

    Raises
    ------
    SettingsError
        For data that the model cannot be trained on, settings that contradict what is to be resumed, or training that
        does not fit into memory.
    ModelFolderError
        If another process is writing the folder, or the folder holds an interrupted run that is damaged, or another
        one that is worth keeping.
    NumericalError
        If training diverges.
    ClusterError
        If the cluster is lost; the last checkpoint stays.
    OSError
        If the folder cannot be written; the earlier model stays, and so does the last checkpoint.
    """
    path = Path(path)
    if not isinstance(request, Request):
        request = Request.exactly(request)

    def note_here(text):
        note(f"{path}: {text}")

    with lock_model_folder(path):
        notes = []
        plan = plan_run(path, dataset, request, resume, notes.append)
        if plan:
            # Before it is said that an interrupted run is discarded.
            check_data(dataset, plan.settings, work)
            model = MODELS[plan.settings.model]
            model.check_memory(plan.settings, dataset)
        for text in notes:
            note_here(text)
        if not plan:
            return ModelFolder(path)
        began = time.perf_counter()
        with what_is_left(path, note_here):
            folder = _Run(dataset, path, plan, progress, checkpoint_seconds, names, work).train()
    last, seconds = folder.description["history"][-1], time.perf_counter() - began
    note_here(f"trained, {model.epochs(last)}, {model.objective_at(last)}, in {seconds:.1f} s")
    for text in model.review(folder.settings, folder.description):
        note_here(text)
    return folder


class _Run:
    """One training run into a locked folder."""

    def __init__(self, dataset, path, plan, progress, checkpoint_seconds, names, work):
        self._dataset, self._path, self._plan, self._progress = dataset, path, plan, progress
        self._names, self._work = names, work
        self._settings, self._seconds = plan.settings, checkpoint_seconds
        self._file = path / CHECKPOINT
        #: Entries of arrays that this run wrote, and its checkpoints.
        self._written, self._checkpoints = {}, None
        resumed = plan.interrupted
        #: Whether the folder holds a run to resume, even if this one fails before its first checkpoint.
        self._kept = bool(resumed and resumed.preprocessed)

    def train(self):
        """Train, and return the model folder."""
        if self._plan.discarded:
            # Nothing names its arrays once the checkpoint is gone.
            remove([self._file, *self._unused(self._plan.discarded.preprocess.values())], ())
        try:
            preprocessed, entries = self._preprocess()
            trained = self._train(preprocessed, entries)
            facts = {"workers": self._work.workers} if self._work.is_cluster else {}
            folder = ModelFolder.write(
                self._path,
                settings=self._settings,
                stage="trained",
                data=self._dataset.facts,
                arrays={f"parameters.{name}": value for name, value in trained.parameters.items()},
                keep=entries,
                history=trained.history,
                names=self._names,
                **facts,
            )
        except BaseException as error:
            # An interruption leaves what a checkpoint names.
            useless = isinstance(error, Exception) or not self._seconds
            if useless and not (self._kept or (self._checkpoints and self._checkpoints.has_state)):
                remove([self._file, *self._unused(self._written.values())], ())
            raise
        remove([self._file], ())
        return folder

    def _preprocess(self):
        """Return the `Preprocessed`, and the entries of its arrays in the folder."""
        if self._kept:
            return self._left_by_interrupted_run()
        if self._seconds:
            # From now on it is known what is to be trained.
            CheckpointWriter(self._file, self._describe({}), self._seconds).save()
        folder = ModelFolder(self._path) if self._is_preprocessed() else None
        if folder:
            return stored_preprocessing(folder), folder.entries("preprocess.")
        preprocessed = preprocess_data(self._dataset, self._settings, self._progress, self._work)
        write_arrays(self._path, named_arrays(preprocessed), self._written)
        return preprocessed, self._written

    def _is_preprocessed(self):
        """Return whether the folder holds preprocessing of the same data with the same settings."""
        try:
            folder = ModelFolder(self._path)
        except ModelFolderError:
            return False
        same_data = folder.description["data"] == self._dataset.facts
        return same_data and folder.settings.preprocess_part() == self._settings.preprocess_part()

    def _left_by_interrupted_run(self):
        entries = self._plan.interrupted.preprocess
        try:
            arrays = {
                name.removeprefix("preprocess."): read_array(self._path, name, entry, CHECKPOINT)
                for name, entry in entries.items()
            }
            return preprocessed_from(self._path, self._settings, self._dataset.D, arrays), entries
        except ModelFolderError as error:
            raise ModelFolderError(f"{error}; use --no-resume to start a new run") from error

    def _train(self, preprocessed, entries):
        """Return the `Trained`."""
        resumed = self._plan.interrupted
        checkpoint = resumed.checkpoint if resumed and resumed.steps else None
        if self._seconds or checkpoint:
            self._checkpoints = CheckpointWriter(self._file, self._describe(entries), self._seconds, checkpoint)
            if not self._kept:
                self._checkpoints.save()
        model, dataset = MODELS[self._settings.model], self._dataset
        run = self._settings, self._progress, self._checkpoints
        return model.train(dataset.features, dataset.labels, preprocessed, *run, **model.work_options(self._work))

    def _describe(self, entries):
        return describe_run(self._dataset.facts, self._settings, entries)

    def _unused(self, entries):
        """Return the files of those arrays that the model in the folder does not name."""
        try:
            named = {entry["file"] for entry in ModelFolder(self._path).entries("").values()}
        except ModelFolderError:
            named = set()
        except OSError:  # unknown, so nothing is removed
            return []
        return [self._path / entry["file"] for entry in entries if entry["file"] not in named]
