"""From data to a model folder: preprocess it, train it, and keep what need not be done again."""

import numpy as np

from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.models.folder import ModelFolder, fingerprint
from xmlgp.preprocess.pipeline import Preprocessed, preprocess
from xmlgp.preprocess.weighting import IDF_WEIGHTINGS, Weighting
from xmlgp.progress import silent
from xmlgp.training.fit import fit

__all__ = ["open_preprocessed", "preprocess_model", "stored_preprocessing", "train_model"]


def preprocess_model(dataset, path, settings, progress=silent):
    """Preprocess a data set into a model folder, at stage "preprocessed".

    Parameters
    ----------
    dataset : Dataset
        The training points.
    path : path
        The model folder; made where missing, an earlier model in it is replaced.
    settings : Settings
    progress : callable
        See `xmlgp.progress`.

    Returns
    -------
    ModelFolder
    """
    ModelFolder.check_writable(path)
    arrays = _named(_preprocess(dataset, settings, progress))
    return ModelFolder.write(path, settings=settings, stage="preprocessed", data=_facts(dataset), arrays=arrays)


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
    settings, D = folder.settings, folder.description["data"]["D"]
    idf, basis, inducing = (folder.array(f"preprocess.{name}") for name in ("idf", "basis", "inducing"))
    fits = (
        (idf is None) == (settings.weighting not in IDF_WEIGHTINGS)
        and (idf is None or idf.shape == (D,))
        and (basis is None) == (settings.inducing == "free")
        and (basis is None or basis.shape[1:] == (D,))
        and inducing is not None
        and inducing.shape[1:] == (D if basis is None else len(basis),)
        # Of rows that hold nothing a file can claim any number.
        and inducing.size
        and all(array is None or np.isfinite(array).all() for array in (idf, basis, inducing))
    )
    if not fits:
        raise ModelFolderError(f"{folder.path}: the model is damaged, its arrays do not fit its settings")
    if basis is not None:
        # As products want it; a copy where the file has it the other way round.
        basis = np.asfortranarray(basis)
    return Preprocessed(Weighting.named(settings.weighting, idf), basis, inducing)


def train_model(dataset, path, settings, progress=silent):
    """Train a model into its folder, at stage "trained", preprocessing first where that was not done.

    Preprocessing is kept where it was done for the same data with the same settings. Until training has succeeded,
    what the folder held before stays.

    Parameters
    ----------
    dataset, path, settings, progress
        As in `preprocess_model`.

    Returns
    -------
    ModelFolder
    """
    ModelFolder.check_writable(path)
    folder = open_preprocessed(path, dataset)
    if folder is not None and folder.settings.preprocess_part() == settings.preprocess_part():
        preprocessed, kept, arrays = stored_preprocessing(folder), folder.entries("preprocess."), {}
    else:
        preprocessed, kept = _preprocess(dataset, settings, progress), {}
        arrays = _named(preprocessed)
    coordinates = preprocessed.coordinates(dataset.features, settings.dtype)
    found = fit(coordinates, dataset.labels, preprocessed.inducing, settings, progress)
    arrays |= {f"parameters.{name}": value for name, value in found.parameters.items()}
    return ModelFolder.write(
        path,
        settings=settings,
        stage="trained",
        data=folder.description["data"] if kept else _facts(dataset),
        arrays=arrays,
        keep=kept,
        history=found.history,
        validation=found.validation,
    )


def _preprocess(dataset, settings, progress):
    if dataset.K == 0:
        raise SettingsError("there is nothing to learn: the training data have no labels (K is 0)")
    return preprocess(dataset.features, settings, progress)


def _named(preprocessed):
    arrays = {"idf": preprocessed.weighting.idf, "basis": preprocessed.basis, "inducing": preprocessed.inducing}
    return {f"preprocess.{name}": array for name, array in arrays.items() if array is not None}


def _facts(dataset):
    return {"N": dataset.N, "D": dataset.D, "K": dataset.K, "fingerprint": fingerprint(dataset)}
