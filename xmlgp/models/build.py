"""From data to a model folder: preprocess it, train it, and keep what need not be done again."""

from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.models.folder import ModelFolder, fingerprint
from xmlgp.preprocess.pipeline import Preprocessed, preprocess
from xmlgp.progress import silent
from xmlgp.training.loop import train

__all__ = ["open_preprocessed", "preprocess_model", "train_model"]


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
    if dataset.K == 0:
        raise SettingsError("there is nothing to learn: the training data have no labels (K is 0)")
    arrays = preprocess(dataset.features, settings, progress)
    facts = {"N": dataset.N, "D": dataset.D, "K": dataset.K, "fingerprint": fingerprint(dataset)}
    named = {
        f"preprocess.{name}": getattr(arrays, name)
        for name in ("idf", "basis", "inducing")
        if getattr(arrays, name) is not None
    }
    return ModelFolder.write(path, settings=settings, stage="preprocessed", data=facts, arrays=named)


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


def train_model(dataset, path, settings, progress=silent):
    """Train a model into its folder, at stage "trained", preprocessing first where that was not done.

    Preprocessing is kept where it was done for the same data with the same settings.

    Parameters
    ----------
    dataset, path, settings, progress
        As in `preprocess_model`.

    Returns
    -------
    ModelFolder
    """
    folder = open_preprocessed(path, dataset)
    if folder is None or folder.settings.preprocess_part() != settings.preprocess_part():
        folder = preprocess_model(dataset, path, settings, progress)
    preprocessed = Preprocessed(
        folder.array("preprocess.idf"),
        settings.weighting != "none",
        folder.array("preprocess.basis"),
        folder.array("preprocess.inducing"),
    )
    coordinates = preprocessed.coordinates(dataset.features, settings.dtype)
    parameters, history = train(coordinates, dataset.labels, preprocessed.inducing, settings, progress)
    return ModelFolder.write(
        path,
        settings=settings,
        stage="trained",
        data=folder.description["data"],
        arrays={f"parameters.{name}": value for name, value in parameters.items()},
        keep=folder.entries("preprocess."),
        history=history,
    )
