"""Write a trained model that is in memory into a model folder."""

from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.runs.interrupted import readable_run
from xmlgp.runs.stored import named_arrays

__all__ = ["save_model"]


def save_model(path, settings, data, preprocessed, trained, tuned=None, names=None, **facts):
    """Write a trained model into a folder, at stage "trained".

    Parameters
    ----------
    path : path
        The model folder; created if missing. A model in it is replaced; an interrupted run stays.
    settings : Settings
    data : mapping
        Facts of the training data, see `Dataset.facts`.
    preprocessed : Preprocessed
    trained : Trained
    tuned : Tuned, optional
        The threshold and the limit by which `xmlgp predict` assigns labels.
    names : Names, optional
        Of the labels and features; the model keeps them.
    **facts
        Further entries of the description.

    Returns
    -------
    ModelFolder

    Raises
    ------
    ModelFolderError
        If the path is one of a file, or another process is writing the folder.
    OSError
        If the folder cannot be written; its earlier content stays.
    """
    if tuned is not None:
        facts["tuned"] = tuned._asdict()
    arrays = {f"parameters.{name}": value for name, value in trained.parameters.items()}
    with lock_model_folder(path):
        interrupted = readable_run(path)
        return ModelFolder.write(
            path,
            settings=settings,
            stage="trained",
            data=data,
            arrays=named_arrays(preprocessed) | arrays,
            protected=interrupted.preprocess.values() if interrupted else (),
            history=trained.history,
            names=names,
            **facts,
        )
