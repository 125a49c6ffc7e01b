"""Train a model, in memory or into its folder: from the start, or from the checkpoint of an interrupted run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.model_folder.arrays import read_array, remove, write_arrays
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.models import MODELS, default_model
from xmlgp.runs.given import FilePath, Labels, Points, training_points
from xmlgp.runs.interrupted import CHECKPOINT, describe_run, protected_arrays, what_is_left
from xmlgp.runs.plan import Request, plan_run
from xmlgp.runs.trained_model import TrainedModel, load, named_arrays, preprocessed_from, stored_preprocessing
from xmlgp.runtime.progress import ignore, silent
from xmlgp.settings.fields import Settings
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.names import Names
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.work import THIS_MACHINE, ThisMachine

__all__ = ["CHECKPOINT_SECONDS", "preprocess", "preprocess_model", "train", "train_model"]

#: From one checkpoint to the next within an epoch.
CHECKPOINT_SECONDS = 300


def preprocess(
    data: Points,
    path: FilePath,
    *,
    labels: Labels | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    recipe: str | None = None,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
    work: ThisMachine = THIS_MACHINE,
) -> ModelFolder:
    """Preprocess points into a model folder, from which `train` continues.

    The parameters are those of `train`. A model in the folder is replaced; an interrupted run stays.
    """
    found = training_points(data, labels, path, corpus, cache, progress, note, work)
    request = Request(settings or {}, recipe, default_model(found.format))
    chosen, notes = request.settings(found.dataset)
    for text in notes:
        note(f"{path}: {text}")
    return preprocess_model(found.dataset, path, chosen, progress, work)


def train(
    data: Points,
    path: FilePath | None = None,
    *,
    labels: Labels | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    recipe: str | None = None,
    resume: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
    work: ThisMachine = THIS_MACHINE,
) -> TrainedModel:
    """Train a model, in memory or into a folder.

    Parameters
    ----------
    data : path, matrix N×D, list of str or Dataset
        The training points; a path as for `xmlgp train`.
    path : path, optional
        The model folder; created if missing. Until training succeeds, its earlier content stays. Preprocessing of the
        same data in it is used, and a run that was interrupted resumes from its last checkpoint and ends in the same
        model.
    labels : matrix N×K or list of list of str, optional
        Of points that are a matrix or texts.
    settings : mapping, optional
        Settings by name, see `xmlgp settings`, and perhaps the `model`: "mlgpf", "bmlpl" or "gpc". A `Settings` object
        is taken as it is.
    recipe : str, optional
        Named settings of the catalogue, which `settings` override.
    resume : bool, optional
        True: resume an interrupted run with its settings; do nothing if the model is trained as asked. False: discard
        an interrupted run. None: resume an interrupted run of the same data and settings; another one is discarded, but
        an error if it took a minute or more.
    checkpoint_seconds : float
        From one checkpoint to the next within an epoch; 0 for none.
    corpus : CorpusOptions
        Where a file of text has its texts and labels; any of it makes the file a corpus.
    cache : bool
        Whether to keep a parsed copy of a file, and to use it while the file is unchanged.
    progress : callable
        See `xmlgp.runtime.progress`.
    note : callable
        Receives messages.
    work : ThisMachine or DaskCluster
        Where to train, see `xmlgp.work.connection.open_work`.

    Raises
    ------
    DataFormatError
        If a file is malformed; it names the line.
    SettingsError
        For settings that are not allowed or contradict what is to be resumed, for points that the model cannot be
        trained on, or training that does not fit into memory.
    ModelFolderError
        If another process is writing the folder, or an interrupted run is damaged or worth keeping.
    NumericalError
        If training diverges.
    ClusterError
        If the cluster is lost; the last checkpoint stays.
    """
    dataset, data_format, names = training_points(data, labels, path, corpus, cache, progress, note, work)
    request = Request(settings or {}, recipe, default_model(data_format))
    if path is not None:
        options = {"resume": resume, "checkpoint_seconds": checkpoint_seconds, "names": names}
        train_model(dataset, path, request, progress, note=note, work=work, **options)
        return load(path)
    chosen, notes = request.settings(dataset)
    for text in notes:
        note(text)
    _check(dataset, chosen, work)
    MODELS[chosen.model].check_memory(chosen, dataset)
    preprocessed = preprocess_data(dataset, chosen, progress, work)
    return _trained(dataset, chosen, preprocessed, progress, None, names, work)


def _check(dataset, settings, work):
    """Raise SettingsError for data that the model of the settings cannot be trained on, or a cluster it cannot use."""
    model = MODELS[settings.model]
    if dataset.K == 0:
        raise SettingsError("there is nothing to learn: the training data have no labels (K is 0)")
    model.check_data(dataset)
    model.work_options(work)


def preprocess_data(dataset, settings, progress, work):
    """Return the result of preprocessing (`Preprocessed`) as the model of the settings does it."""
    model = MODELS[settings.model]
    return model.preprocess(dataset.features, settings, progress, **model.work_options(work))


def _trained(dataset, settings, preprocessed, progress, checkpoints, names, work):
    """Return the `TrainedModel` of preprocessed points."""
    model = MODELS[settings.model]
    run = preprocessed, settings, progress, checkpoints
    trained = model.train(dataset.features, dataset.labels, *run, **model.work_options(work))
    return TrainedModel(settings, dataset.facts, preprocessed, *trained, names)


def preprocess_model(dataset, path, settings, progress=silent, work=THIS_MACHINE):
    """Preprocess a `Dataset` with `Settings` into a model folder, and return the `ModelFolder`; see `preprocess`."""
    with lock_model_folder(path):
        _check(dataset, settings, work)
        return ModelFolder.write(
            path,
            settings=settings,
            stage="preprocessed",
            data=dataset.facts,
            arrays=named_arrays(preprocess_data(dataset, settings, progress, work)),
            protected=protected_arrays(path),
        )


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
    """Train a model on a `Dataset` into its folder, and return the `ModelFolder`; see `train`.

    The request is `Settings` or a `Request`. Messages begin with the path.
    """
    path = Path(path)
    if not isinstance(request, Request):
        request = Request(request)

    def note_here(text):
        note(f"{path}: {text}")

    with lock_model_folder(path):
        notes = []
        plan = plan_run(path, dataset, request, resume, notes.append)
        if plan:
            # Before it is said that an interrupted run is discarded.
            _check(dataset, plan.settings, work)
            model = MODELS[plan.settings.model]
            model.check_memory(plan.settings, dataset)
        for text in notes:
            note_here(text)
        if not plan:
            return ModelFolder(path)
        began = time.perf_counter()
        with what_is_left(path, note_here):
            folder = _Run(dataset, path, plan, progress, checkpoint_seconds, names or Names(), work).train()
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
            self._remove(self._plan.discarded.preprocess)
        try:
            preprocessed, entries = self._preprocess()
            trained = self._train(preprocessed, entries)
            workers = {"workers": self._work.workers} if self._work.is_cluster else {}
            folder = trained.write(self._path, keep=entries, **workers)
        except BaseException as error:
            # An interruption leaves what a checkpoint names.
            useless = isinstance(error, Exception) or not self._seconds
            if useless and not (self._kept or (self._checkpoints and self._checkpoints.has_state)):
                self._remove(self._written)
            raise
        remove([self._file], ())
        return folder

    def _preprocess(self):
        """Return the `Preprocessed`, and the entries of its arrays in the folder."""
        if self._kept:
            return self._left_by_interrupted_run()
        if self._seconds:
            # From now on it is known what is to be trained.
            self._writer({}).save()
        folder = self._preprocessed_folder()
        if folder:
            return stored_preprocessing(folder), folder.entries("preprocess.")
        preprocessed = preprocess_data(self._dataset, self._settings, self._progress, self._work)
        write_arrays(self._path, named_arrays(preprocessed), self._written)
        return preprocessed, self._written

    def _preprocessed_folder(self):
        """Return the model folder if it holds preprocessing of the same data with the same settings, or None."""
        try:
            folder = ModelFolder(self._path)
        except ModelFolderError:
            return None
        same_data = folder.description["data"] == self._dataset.facts
        same = same_data and folder.settings.preprocess_part() == self._settings.preprocess_part()
        return folder if same else None

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
        """Return the `TrainedModel`."""
        resumed = self._plan.interrupted
        checkpoint = resumed.checkpoint if resumed and resumed.steps else None
        if self._seconds or checkpoint:
            self._checkpoints = self._writer(entries, checkpoint)
            if not self._kept:
                self._checkpoints.save()
        run = self._dataset, self._settings, preprocessed, self._progress, self._checkpoints
        return _trained(*run, self._names, self._work)

    def _writer(self, entries, checkpoint=None):
        """Return a `CheckpointWriter` for a run with these entries of arrays of preprocessing."""
        about = describe_run(self._dataset.facts, self._settings, entries)
        return CheckpointWriter(self._file, about, self._seconds, checkpoint)

    def _remove(self, entries):
        """Remove the checkpoint, and the files of those arrays that the model in the folder does not name."""
        try:
            named = {entry["file"] for entry in ModelFolder(self._path).entries("").values()}
        except ModelFolderError:
            named = set()
        except OSError:  # unknown, so no array is removed
            entries = {}
        files = [self._path / entry["file"] for entry in entries.values() if entry["file"] not in named]
        remove([self._file, *files], ())
