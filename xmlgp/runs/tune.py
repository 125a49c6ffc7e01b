"""Tune how many labels a trained model assigns, and store that in its folder."""

from xmlgp.errors import ModelFolderError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.prediction.tuning import tune
from xmlgp.runs.stored import open_predictor
from xmlgp.runtime.progress import silent

__all__ = ["tune_model"]


def tune_model(dataset, path, metric, progress=silent):
    """Choose the threshold and the limit of highest F1, and store them in the model folder.

    Training into the folder again drops them. Besides scoring, this takes about 5 KB of memory per point.

    Parameters
    ----------
    dataset : Dataset
        Points with known labels that the model was not trained on.
    path : path
        The folder of a trained model.
    metric : str
        One of `xmlgp.prediction.tuning.METRICS`.
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    ModelFolder
        With `tuned`, for scores of the model's default output.

    Raises
    ------
    SettingsError
        If the points do not have the model's numbers of features and labels, or no point has a label.
    ModelFolderError
        If there is no trained model, it has one label, or another process is writing the folder.
    NumericalError
        If a score is not finite.
    OSError
        If the folder cannot be written; it is unchanged.
    """
    if not ModelFolder.exists(path):
        # A lock would create the folder.
        raise ModelFolderError(f"{path}: there is no model here (no model.json)")
    with lock_model_folder(path):
        folder = ModelFolder(path)
        predictor = open_predictor(folder)
        if predictor.label_count == 1:
            raise ModelFolderError(f"{path}: the model has one label, so there is no number of labels to tune")
        folder.write_tuned(tune(predictor, dataset.features, dataset.labels, metric, progress=progress))
    return folder
