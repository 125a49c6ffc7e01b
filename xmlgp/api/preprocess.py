"""Preprocess points into a model folder, from which `train` continues."""

from __future__ import annotations

from xmlgp.api.interrupted import protected_arrays
from xmlgp.api.points import FilePath
from xmlgp.api.source import Labels, Points, Source
from xmlgp.api.train import ChosenSettings, read_run
from xmlgp.api.trained_model import model_to_replace
from xmlgp.model_folder.folder import ModelFolder, lock_model_folder
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.progress import QUIET, Reporter

__all__ = ["preprocess"]


def preprocess(
    data: Points | Source,
    path: FilePath,
    *,
    labels: Labels | None = None,
    settings: ChosenSettings | None = None,
    overwrite: bool = False,
    reporter: Reporter = QUIET,
    executor: Executor = LOCAL_EXECUTOR,
) -> ModelFolder:
    """Preprocess points into a model folder; `train` with the same points and settings continues from there.

    The parameters are those of `train`. An interrupted run in the folder stays.
    """
    run = read_run(Source.of(data, labels), settings, path, reporter=reporter, executor=executor)
    with lock_model_folder(path):
        model_to_replace(path, run.dataset.facts, run.settings, overwrite)
        return ModelFolder.write(
            path,
            settings=run.settings,
            stage="preprocessed",
            data=run.dataset.facts,
            arrays=run.preprocess().to_arrays("preprocess."),
            protected=protected_arrays(path),
        )
