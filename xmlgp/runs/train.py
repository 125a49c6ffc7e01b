"""Train a model, in memory or into its folder: from the start, or from the checkpoint of an interrupted run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xmlgp.errors import ModelFolderError, SettingsError, UsageError, memory_errors_reported
from xmlgp.model import COUNT_BYTES, MemoryPart, check_memory
from xmlgp.model_folder.arrays import is_array_file, remove, write_arrays
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.models import MODELS, default_model
from xmlgp.runs.given import DenseFeatures, FilePath, Labels, Points, is_path, training_points
from xmlgp.runs.interrupted import (
    CHECKPOINT,
    Request,
    check_overwriting,
    describe_run,
    plan_run,
    protected_arrays,
    what_is_left,
)
from xmlgp.runs.trained_model import (
    TrainedModel,
    load,
    named_arrays,
    next_commands,
    preprocessed_from,
    stored_preprocessing,
    write_model,
)
from xmlgp.runtime.progress import ignore, silent, tell_if_slow
from xmlgp.settings.fields import Settings
from xmlgp.text.analysis import Analysis
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.vocabulary import name_labels, read_vocabulary
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.work import THIS_MACHINE, ThisMachine

__all__ = ["CHECKPOINT_SECONDS", "preprocess", "train"]

#: From one checkpoint to the next within an epoch.
CHECKPOINT_SECONDS = 300


@memory_errors_reported()
def preprocess(
    data: Points | None,
    path: FilePath,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    recipe: str | None = None,
    overwrite: bool = False,
    corpus: CorpusOptions = NO_OPTIONS,
    analysis: Analysis | None = None,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
    work: ThisMachine = THIS_MACHINE,
) -> ModelFolder:
    """Preprocess points into a model folder, from which `train` continues.

    The parameters are those of `train`. An interrupted run in the folder stays.
    """
    dataset, data_format, _ = training_points(data, labels, dense, path, corpus, analysis, cache, progress, note)
    chosen, notes = Request(settings or {}, recipe, default_model(data_format)).settings(dataset)
    for text in notes:
        note(f"{path}: {text}")
    with lock_model_folder(path):
        check_overwriting(Path(path), dataset, overwrite)
        _check(dataset, chosen, work)
        size = COUNT_BYTES * (dataset.D + dataset.K)
        check_memory("preprocessing", [MemoryPart("the counts of features and labels", size)])
        return ModelFolder.write(
            path,
            settings=chosen,
            stage="preprocessed",
            data=dataset.facts,
            arrays=named_arrays(preprocess_data(dataset, chosen, progress, work)),
            protected=protected_arrays(path),
        )


@memory_errors_reported()
def train(
    data: Points | None,
    path: FilePath | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    recipe: str | None = None,
    resume: bool | None = None,
    overwrite: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    corpus: CorpusOptions = NO_OPTIONS,
    analysis: Analysis | None = None,
    encoder: FilePath | None = None,
    download: bool = False,
    vocabulary: FilePath | None = None,
    vocabulary_language: str | None = None,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
    work: ThisMachine = THIS_MACHINE,
) -> TrainedModel:
    """Train a model, in memory or into a folder.

    Parameters
    ----------
    data : path, matrix N×D, list of str or Dataset
        The training points; a path as for `xmlgp train`. The columns of a DataFrame are the names of the features,
        which later ones must have in the same order; those of a DataFrame of labels are the names of the labels. None
        for points with dense features alone.
    path : path, optional
        The model folder; created if missing. Until training succeeds, its earlier content stays. Preprocessing of the
        same data in it is used, and a run that was interrupted resumes from its last checkpoint and ends in the same
        model.
    labels : matrix N×K or list of list of str, optional
        Of points that are a matrix, texts or dense features alone.
    dense : path, matrix N×E or list of these, optional
        Dense features beside the others, such as embeddings, a row for each point: a .npy file, a .npz file with one
        array or a CSR matrix, or an array. Default: those that `data.yaml` in a data folder names.
    settings : mapping, optional
        Settings by name, see `xmlgp settings`, and perhaps the `model`: "mlgpf", "bmlpl" or "gpc". A `Settings` object
        is taken as it is.
    recipe : str, optional
        Named settings of the catalogue, which `settings` override.
    resume : bool, optional
        True: resume an interrupted run with its settings; do nothing if the model is trained as asked. False: discard
        an interrupted run. None: resume an interrupted run of the same data and settings; another one is discarded, but
        an error if it took a minute or more.
    overwrite : bool
        Whether to replace a trained model of other data in the folder, which is otherwise an error. A model of the same
        data is replaced either way.
    checkpoint_seconds : float
        From one checkpoint to the next within an epoch; 0 for none.
    corpus : CorpusOptions
        Where a file of text has its texts and labels, and for a trained model where its encoder is; any of it makes
        the file a corpus.
    analysis : xmlgp.text.analysis.Analysis, optional
        Which words of texts are features. Default: all single words.
    encoder : str or path, optional
        The encoder that computes an embedding of each text, a dense block beside the words: a folder, or a name on
        Hugging Face. The model names it, and reads it again for other texts; see docs/text.md.
    download : bool
        Whether to download the encoder if it is neither a folder nor in the cache of Hugging Face.
    vocabulary : path, optional
        A vocabulary with URIs and preferred labels, by which predictions name the labels; see docs/text.md.
    vocabulary_language : str, optional
        The language of preferred labels. Default: English if there are any, otherwise that of most labels.
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
        If another process is writing the folder, an interrupted run is damaged or worth keeping, or a model of other
        data is there.
    NumericalError
        If training diverges.
    ClusterError
        If the cluster is lost; the last checkpoint stays.
    """
    if path is not None and not is_path(path):
        raise UsageError("The second argument is the path of a model folder; give labels as labels=….")
    if encoder is not None or download:
        corpus = corpus._replace(encoder=None if encoder is None else os.fspath(encoder), download=download)
    known = None if vocabulary is None else read_vocabulary(vocabulary, vocabulary_language)
    same = known and {name: uri for name, (uri, _) in known.concepts.items()}
    reading = corpus, analysis, cache, progress, note
    dataset, data_format, names = training_points(data, labels, dense, path, *reading, same)
    names = name_labels(names, known, note=note)
    request = Request(settings or {}, recipe, default_model(data_format), overwrite)
    if path is not None:
        _train_into_folder(Path(path), dataset, names, request, resume, checkpoint_seconds, progress, note, work)
        return load(path)
    chosen, notes = request.settings(dataset)
    for text in notes:
        note(text)
    _check(dataset, chosen, work)
    check_memory("training", MODELS[chosen.model].memory(chosen, dataset))
    preprocessed = preprocess_data(dataset, chosen, progress, work)
    return _trained(dataset, chosen, preprocessed, progress, None, names, work)


def _check(dataset, settings, work):
    """Raise SettingsError for data that the model cannot be trained on, or a cluster that it cannot use."""
    model = MODELS[settings.model]
    if dataset.K == 0:
        raise SettingsError("there is nothing to learn: the training data have no labels (K is 0)")
    model.check_dense(settings, dataset)
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
    parameters, history, held_out = trained
    return TrainedModel(settings, dataset.facts, preprocessed, parameters, history, names, held_out=held_out)


def _train_into_folder(path, dataset, names, request, resume, checkpoint_seconds, progress, note, work):
    """Train a model into its folder, unless it is trained as asked; messages begin with the path."""

    def note_here(text):
        note(f"{path}: {text}")

    with lock_model_folder(path):
        notes = []
        plan = plan_run(path, dataset, request, resume, notes.append)
        if plan:
            # Before it is said that an interrupted run is discarded.
            _check(dataset, plan.settings, work)
            model = MODELS[plan.settings.model]
            check_memory("training", model.memory(plan.settings, dataset))
        for text in notes:
            note_here(text)
        if not plan:
            return
        if faster := model.faster(plan.settings):

            def tell(seconds):
                note_here(f"training takes about {seconds / 60:.0f} more minutes; {faster}")

            progress = tell_if_slow(progress, "train", tell)
        began = time.perf_counter()
        with what_is_left(path, note_here):
            folder = _run(path, dataset, plan, names, progress, checkpoint_seconds, work)
    took = f"trained in {time.perf_counter() - began:.1f} s"
    held_out = folder.held_out
    # The best of a single label is no measure.
    note_here(f"{took}; {held_out.precision(dataset.K)}" if held_out and dataset.K > 1 else took)
    if held_out and held_out.reliability():
        note_here(held_out.reliability())
    for text in [*model.review(folder.settings, folder.description), next_commands(path, dataset.facts, names)]:
        note_here(text)


def _run(path, dataset, plan, names, progress, seconds, work):
    """Train into a locked folder, and return it; what fails leaves the earlier model, and a run that can be resumed."""
    settings = plan.settings
    resumed = plan.interrupted
    file = path / CHECKPOINT
    # Whether the folder holds a run to resume, even if this one fails before its first checkpoint.
    kept = bool(resumed and resumed.preprocessed)
    checkpoint = resumed.checkpoint if resumed and resumed.steps else None
    written = {}
    checkpoints = None

    def writer(entries, checkpoint=None):
        return CheckpointWriter(file, describe_run(dataset.facts, settings, entries), seconds, checkpoint)

    if plan.discarded:
        # Nothing names its arrays once the checkpoint is gone.
        _remove(path, plan.discarded.preprocess)
    try:
        if kept:
            preprocessed = _left_by(path, resumed)
            entries = resumed.preprocess
        else:
            if seconds:
                # From now on it is known what is to be trained.
                writer({}).save()
            if plan.preprocessed:
                entries = plan.preprocessed.entries("preprocess.")
                preprocessed = stored_preprocessing(plan.preprocessed)
            else:
                preprocessed = preprocess_data(dataset, settings, progress, work)
                entries = written
                write_arrays(path, named_arrays(preprocessed), written)
        if seconds or checkpoint:
            checkpoints = writer(entries, checkpoint)
            if not kept:
                checkpoints.save()
        model = _trained(dataset, settings, preprocessed, progress, checkpoints, names, work)
        workers = {"workers": work.workers} if work.is_cluster else {}
        folder = write_model(model, path, entries, **workers)
    except BaseException as error:
        # An interruption leaves what a checkpoint names.
        useless = isinstance(error, Exception) or not seconds
        if useless and not (kept or (checkpoints and checkpoints.has_state)):
            _remove(path, written)
        raise
    remove([file], ())
    return folder


def _left_by(path, run):
    """Return the `Preprocessed` that an interrupted run left in a folder."""
    try:
        return preprocessed_from(path, run.settings, run.data, run.preprocess, CHECKPOINT)
    except ModelFolderError as error:
        raise ModelFolderError(f"{error}; use `resume=False` to start a new run") from error


def _remove(path, entries):
    """Remove the checkpoint in a folder, and the files of those arrays that the model in it does not name."""
    try:
        named = {entry["file"] for entry in ModelFolder(path).entries("").values()}
    except ModelFolderError:
        named = set()
    except OSError:  # unknown, so no array is removed
        entries = {}
    files = {entry["file"] for entry in entries.values()} - named
    remove([path / CHECKPOINT, *(path / file for file in files if is_array_file(file))], ())
