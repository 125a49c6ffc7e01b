"""Load the content of a model folder: preprocessing, a trained model, topics."""

from typing import NamedTuple

from xmlgp.errors import ModelFolderError
from xmlgp.models import MODELS
from xmlgp.prediction.predictor import Predictor
from xmlgp.preprocess.pipeline import Preprocessed

__all__ = [
    "StoredModel",
    "named_arrays",
    "open_model",
    "open_predictor",
    "open_topics",
    "preprocessed_from",
    "stored_preprocessing",
]


class StoredModel(NamedTuple):
    """A trained model in a folder, with arrays that are memory-mapped and read-only.

    Attributes
    ----------
    preprocessed : Preprocessed
    parameters : dict of str to ndarray
    predictor : Predictor
    """

    preprocessed: Preprocessed
    parameters: dict
    predictor: Predictor


def stored_preprocessing(folder):
    """Return the result of preprocessing in a model folder (`Preprocessed`).

    Parameters
    ----------
    folder : ModelFolder

    Raises
    ------
    ModelFolderError
        If arrays are missing or damaged, or do not fit the settings.
    """
    return preprocessed_from(
        folder.path, folder.settings, folder.description["data"]["D"], folder.arrays("preprocess.")
    )


def preprocessed_from(path, settings, D, arrays):
    """Return the `Preprocessed` of arrays that the model folder at `path` has, by their names without the prefix."""
    try:
        return Preprocessed.from_arrays(arrays, settings, D)
    except ValueError:
        raise ModelFolderError(f"{path}: the model is damaged, its arrays do not fit its settings") from None


def named_arrays(preprocessed):
    """Return the arrays of a `Preprocessed` by the names that a model folder has for them."""
    return {f"preprocess.{name}": array for name, array in preprocessed.to_arrays().items()}


def open_model(folder):
    """Return the trained model in a folder (`StoredModel`), whose arrays have been checked.

    Parameters
    ----------
    folder : ModelFolder
        With `ModelFolder.read(path, open_model)` all arrays are of one model, even while another replaces it.

    Raises
    ------
    ModelFolderError
        If the model is preprocessed but not trained, or damaged.
    """
    if folder.stage != "trained":
        raise ModelFolderError(f"{folder.path}: the model is {folder.stage}, but not trained yet")
    predictor = MODELS[folder.settings.model].predictor
    D, K = (folder.description["data"][name] for name in "DK")
    preprocessed, parameters = stored_preprocessing(folder), folder.arrays("parameters.")
    found = predictor.from_arrays(folder.settings, preprocessed, parameters, D, K)
    if found is None:
        raise ModelFolderError(f"{folder.path}: the model is damaged, its arrays do not fit each other")
    return StoredModel(preprocessed, parameters, found)


def open_predictor(folder):
    """Return the predictor of the model in a folder.

    Parameters
    ----------
    folder : ModelFolder
        As in `open_model`.

    Raises
    ------
    ModelFolderError
        As `open_model` does.
    """
    return open_model(folder).predictor


def open_topics(folder, top=5):
    """Return the topics of the model in a folder (list of `Topic`), highest share first.

    Parameters
    ----------
    folder : ModelFolder
        With `ModelFolder.read(path, open_topics)` all arrays are of one model, even while another replaces it.
    top : int
        Labels to list of each topic.

    Raises
    ------
    ModelFolderError
        If the model has no topics, is not trained yet, or is damaged.
    """
    name = folder.description["model"]
    if MODELS[name].topics is None:
        with_topics = " or ".join(other for other, model in MODELS.items() if model.topics)
        raise ModelFolderError(f"{folder.path}: {name} has no topics; train with --model {with_topics}")
    # Opening the predictor checks the untrusted arrays.
    open_predictor(folder)
    return MODELS[name].topics(folder.arrays("parameters."), top)
