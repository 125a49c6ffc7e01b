"""From data to a model folder: preprocess it, train it, and keep what need not be done again."""

import dataclasses
from pathlib import Path

from xmlgp.bmlpl.train import train_topics
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.gpc.train import train_gpc
from xmlgp.mlgpf.train import Fit, fit
from xmlgp.model_folder.arrays import read_array, remove, write_arrays
from xmlgp.model_folder.folder import ModelFolder, fingerprint
from xmlgp.model_folder.lock import alone_in
from xmlgp.preprocess.pipeline import Preprocessed, preprocess
from xmlgp.runs.interrupted import CHECKPOINT, Unfinished, describe_run
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import core_count
from xmlgp.training.checkpoints import Checkpoints

__all__ = ["CHECKPOINT_SECONDS", "open_preprocessed", "preprocess_model", "stored_preprocessing", "train_model"]

#: From one checkpoint to the next within an epoch.
CHECKPOINT_SECONDS = 300


def preprocess_model(dataset, path, settings, progress=silent):
    """Preprocess a data set into a model folder, at stage "preprocessed".

    Parameters
    ----------
    dataset : Dataset
        The training points.
    path : path
        The model folder; made where missing, an earlier model in it is replaced. A training that was interrupted stays.
    settings : Settings
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    ModelFolder

    Raises
    ------
    SettingsError
        Where there is nothing to learn from.
    ModelFolderError
        Where another process is writing the folder.
    OSError
        Where it cannot be written; what was there stays.
    """
    with alone_in(path):
        ModelFolder.check_writable(path)
        arrays = _named(_preprocess(dataset, settings, progress))
        unfinished = _readable(path)
        return ModelFolder.write(
            path,
            settings=settings,
            stage="preprocessed",
            data=_facts(dataset),
            arrays=arrays,
            spare=unfinished.preprocess.values() if unfinished else (),
        )


def _readable(path):
    """Return what is unfinished in a model folder; None where nothing is, or nothing that can be read."""
    try:
        return Unfinished.read(path)
    except (ModelFolderError, OSError):
        return None


def open_preprocessed(path, dataset):
    """Return the model folder at `path` if it was preprocessed from this data set, else None.

    Parameters
    ----------
    path : path
    dataset : Dataset
    """
    try:
        folder = ModelFolder(path)
    except ModelFolderError:
        return None
    return folder if folder.description["data"]["fingerprint"] == fingerprint(dataset) else None


def stored_preprocessing(folder):
    """Return what preprocessing left in a model folder (`Preprocessed`).

    Parameters
    ----------
    folder : ModelFolder

    Raises
    ------
    ModelFolderError
        Where arrays are missing or damaged, or do not fit the settings.
    """
    return _stored(folder.path, folder.settings, folder.description["data"]["D"], folder.arrays("preprocess."))


def _stored(path, settings, D, arrays):
    try:
        return Preprocessed.from_arrays(arrays, settings, D)
    except ValueError:
        raise ModelFolderError(f"{path}: the model is damaged, its arrays do not fit its settings") from None


def train_model(
    dataset,
    path,
    settings,
    progress=silent,
    *,
    resume=None,
    every=CHECKPOINT_SECONDS,
    rate=None,
    tell=lambda text: None,
):
    """Train a model into its folder, at stage "trained", preprocessing first where that was not done.

    Preprocessing is kept where it was done for the same data with the same settings. Until training has succeeded,
    what the folder held before stays. A training of the same data with the same settings that was interrupted is gone
    on with, from its last checkpoint: the model is the same bit for bit, on as many cores, as without interruption.

    Parameters
    ----------
    dataset, path, settings, progress
        As in `preprocess_model`.
    resume : bool, optional
        Whether an interrupted training of other data or with other settings that took a minute or more is an error
        (None), or is dropped like any other (False); True: as None, but of whatever length.
    every : float
        Seconds from one checkpoint to the next within an epoch; 0 for no checkpoints at all.
    rate : float, optional
        Learning rate from now on of a training that is gone on with.
    tell : callable
        Told in words what is gone on with, or dropped.

    Returns
    -------
    ModelFolder

    Raises
    ------
    SettingsError
        Where there is nothing to learn from.
    ModelFolderError
        Where another process is writing the folder, or holds an interrupted training that is damaged or another.
    NumericalError
        Where the numbers are lost, once more after training began anew with a lower learning rate.
    OSError
        Where the folder cannot be written; the model that was there stays, and so does the last checkpoint.
    """
    with alone_in(path):
        ModelFolder.check_writable(path)
        data = _facts(dataset)
        unfinished = _to_go_on_with(Path(path), data, settings, resume)
        if unfinished:
            tell(f"goes on {unfinished.where}")
            if unfinished.cores != core_count():
                tell(f"begun on {unfinished.cores} cores, here are {core_count()}: last digits may differ")
            if rate is not None and unfinished.steps and settings.model == "mlgpf":
                # It tells in its history from when on the rate was another one.
                unfinished.checkpoint.facts["learning_rate"] = rate
            elif rate is not None:
                settings = dataclasses.replace(settings, learning_rate=rate)
        elif resume:
            tell("there is nothing to go on with, so training begins")
        return _train_alone(dataset, Path(path), settings, progress, data, unfinished, every, tell)


def _train_alone(dataset, path, settings, progress, data, unfinished, every, tell):
    file = path / CHECKPOINT
    checkpoints, written = None, {}
    # Before there is anything to go on from, a failure leaves nothing.
    kept = bool(unfinished and unfinished.preprocessed)
    dropped = None if unfinished else _readable(path)
    if dropped:
        tell(f"drops a training that was interrupted {dropped.where}")
        # The first checkpoint takes its place, and then nothing names what it kept.
        remove([file, *_unnamed(path, dropped.preprocess.values())], ())
    try:
        if kept:
            entries = unfinished.preprocess
            preprocessed = _left_by(unfinished, path, dataset.D)
        else:
            if every:
                # From now on it is known what is to be trained.
                Checkpoints(file, describe_run(data, settings, {}), every).write()
            preprocessed, entries = _preprocessed_before(path, dataset, settings)
            if preprocessed is None:
                preprocessed = _preprocess(dataset, settings, progress)
                write_arrays(path, _named(preprocessed), written)
                entries = written
        begun = unfinished.checkpoint if unfinished and unfinished.steps else None
        if every or begun:
            checkpoints = Checkpoints(file, describe_run(data, settings, entries), every, begun)
            if not kept:
                checkpoints.write()
        found = _fit(dataset, preprocessed, settings, progress, checkpoints)
        folder = ModelFolder.write(
            path,
            settings=settings,
            stage="trained",
            data=data,
            arrays={f"parameters.{name}": value for name, value in found.parameters.items()},
            keep=entries,
            history=found.history,
            validation=found.validation,
        )
    except BaseException as error:
        # An interruption leaves what a checkpoint tells of.
        useless = isinstance(error, Exception) or not every
        if useless and not (kept or (checkpoints and checkpoints.kept)):
            remove([file, *_unnamed(path, written.values())], ())
        raise
    remove([file], ())
    return folder


def _fit(dataset, preprocessed, settings, progress, checkpoints):
    """Return the trained model, `Fit`."""
    coordinates = preprocessed.coordinates(dataset.features, settings.dtype)
    if settings.model == "bmlpl":
        return Fit(*train_topics(coordinates, dataset.labels, settings, progress, checkpoints=checkpoints), None)
    if settings.model == "gpc":
        inducing = preprocessed.inducing
        return Fit(*train_gpc(coordinates, dataset.labels, inducing, settings, progress, checkpoints=checkpoints), None)
    return fit(coordinates, dataset.labels, preprocessed.inducing, settings, progress, checkpoints)


def _unnamed(path, entries):
    """Return the files of those arrays that are not of the model in a folder, which may be written already."""
    try:
        named = {entry["file"] for entry in ModelFolder(path).entries("").values()}
    except ModelFolderError:
        named = set()
    except OSError:  # nobody knows
        return []
    return [path / entry["file"] for entry in entries if entry["file"] not in named]


def _to_go_on_with(path, data, settings, resume):
    """Return the `Unfinished` training that this one goes on with, or None."""
    if resume is False:
        return None
    unfinished = Unfinished.read(path)
    if unfinished is None:
        return None
    other = unfinished.other(data, settings)
    if other is None:
        return unfinished
    if resume is None and not unfinished.worth_keeping:
        return None
    going_on = "--resume" if unfinished.data == data else "--resume with those data"
    raise ModelFolderError(
        f"{path}: training {other} was interrupted here {unfinished.where}; {going_on} goes on with it, "
        "--no-resume begins anew without it"
    )


def _preprocessed_before(path, dataset, settings):
    """Return what preprocessing left in the model folder, and its entries, if it was of the same; else None twice."""
    folder = open_preprocessed(path, dataset)
    if folder is None or folder.settings.preprocess_part() != settings.preprocess_part():
        return None, None
    return stored_preprocessing(folder), folder.entries("preprocess.")


def _left_by(unfinished, path, D):
    """Return what preprocessing left of a training that was interrupted (`Preprocessed`)."""
    try:
        arrays = {
            name.removeprefix("preprocess."): read_array(path, name, entry, CHECKPOINT)
            for name, entry in unfinished.preprocess.items()
        }
        return _stored(path, unfinished.settings, D, arrays)
    except ModelFolderError as error:
        raise ModelFolderError(f"{error}; --no-resume begins anew without the checkpoint") from error


def _preprocess(dataset, settings, progress):
    if dataset.K == 0:
        raise SettingsError("there is nothing to learn: the training data have no labels (K is 0)")
    if settings.model == "gpc" and dataset.K != 1:
        raise SettingsError(f"gpc is for two classes: the training data must have one label (K is {dataset.K})")
    return preprocess(dataset.features, settings, progress)


def _named(preprocessed):
    return {f"preprocess.{name}": array for name, array in preprocessed.to_arrays().items()}


def _facts(dataset):
    return {"N": dataset.N, "D": dataset.D, "K": dataset.K, "fingerprint": fingerprint(dataset)}
