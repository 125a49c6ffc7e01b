"""Preprocess a data set into a model folder."""

from xmlgp.errors import SettingsError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.models import MODELS
from xmlgp.runs.interrupted import readable_run
from xmlgp.runs.stored import named_arrays
from xmlgp.runtime.progress import silent
from xmlgp.work import THIS_MACHINE

__all__ = ["check_data", "preprocess_data", "preprocess_model"]


def preprocess_model(dataset, path, settings, progress=silent, work=THIS_MACHINE):
    """Preprocess a data set into a model folder, at stage "preprocessed".

    Parameters
    ----------
    dataset : Dataset
        The training points.
    path : path
        The model folder; created if missing. A model in it is replaced; an interrupted run stays.
    settings : Settings
    progress : callable
        See `xmlgp.runtime.progress`.
    work : ThisMachine or DaskCluster

    Returns
    -------
    ModelFolder

    Raises
    ------
    SettingsError
        For data that the model cannot be trained on, or a cluster that it cannot use.
    ClusterError
        If the cluster is lost.
    ModelFolderError
        If another process is writing the folder.
    OSError
        If the folder cannot be written; its earlier content stays.
    """
    with lock_model_folder(path):
        check_data(dataset, settings, work)
        arrays = named_arrays(preprocess_data(dataset, settings, progress, work))
        interrupted = readable_run(path)
        return ModelFolder.write(
            path,
            settings=settings,
            stage="preprocessed",
            data=dataset.facts,
            arrays=arrays,
            protected=interrupted.preprocess.values() if interrupted else (),
        )


def check_data(dataset, settings, work=THIS_MACHINE):
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
