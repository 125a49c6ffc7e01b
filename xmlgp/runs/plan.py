"""Decide whether a training run starts, resumes or has nothing to do, from the content of its model folder."""

from typing import NamedTuple

from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS, check_names
from xmlgp.runs.interrupted import InterruptedRun, resume_or_discard
from xmlgp.settings.fields import Settings, in_words

__all__ = ["RunPlan", "plan_run"]


class RunPlan(NamedTuple):
    """A training run: its settings, the interrupted run that it resumes, and the one that it discards."""

    settings: Settings
    interrupted: InterruptedRun | None
    discarded: InterruptedRun | None


def plan_run(path, dataset, request, resume, note):
    """Return the plan of a training run, or None if the model is trained as asked.

    Parameters
    ----------
    path : Path
        The model folder.
    dataset : Dataset
        The training points.
    request : Request
    resume : bool, optional
        True: resume an interrupted run with its settings; do nothing if the model is trained as asked. False, None: see
        `resume_or_discard`.
    note : callable
        Receives messages to the user.

    Raises
    ------
    SettingsError
        For settings that are not allowed, or that contradict the run or the model that is to be kept.
    ModelFolderError
        If the folder holds an interrupted run that is damaged, or another one that is worth keeping.
    """
    folder, notes = _existing_model(path, note), []
    run = None if resume is False else InterruptedRun.read(path)
    if resume and run and not run.learns:
        settings = run.settings
        _check_same(path, "the interrupted run", settings, request.asked(dataset))
    elif resume and not run and folder and _is_trained(folder, dataset, request):
        note("already trained; nothing to resume")
        return None
    elif folder and folder.stage == "preprocessed" and _has_data(folder, dataset) and request.extends(folder.settings):
        settings = request.settings_over(folder.settings, str(path))
    else:
        settings, notes = request.settings(dataset)
    plan = RunPlan(settings, *resume_or_discard(path, run, dataset.facts, settings, resume, note))
    unused = settings.unused()
    notes += [f"{name} has no effect with {unused[name]}" for name in sorted(unused.keys() & set(request.chosen))]
    for text in [*notes, *MODELS[settings.model].notes(settings, dataset)]:
        note(text)
    return plan


def _existing_model(path, note):
    """Return the model folder, or None if it holds no model or a damaged one."""
    try:
        return ModelFolder(path)
    except ModelFolderError as error:
        if ModelFolder.exists(path):
            note(f"the existing model cannot be read and will be replaced ({error})")
        return None


def _is_trained(folder, dataset, request):
    """Return whether the model is trained as asked; raise an error if it is trained otherwise."""
    if folder.stage != "trained":
        return False
    if not _has_data(folder, dataset):
        raise SettingsError(f"{folder.path}: the model was trained on other data; use --no-resume to replace it")
    _check_same(folder.path, "the model", folder.settings, request.asked(dataset))
    for name in folder.entries(""):
        folder.array(name)
    return True


def _has_data(folder, dataset):
    return folder.description["data"] == dataset.facts


def _check_same(path, what, settings, asked):
    """Raise SettingsError if settings are not as asked."""
    if asked.get("model", settings.model) == settings.model:
        check_names(asked.keys() - {"model"}, path, settings.model)
        names = asked
    else:
        names = ["model"]
    present = settings.with_model()
    for name in names:
        if asked[name] != present[name]:
            was, now = in_words(present[name]), in_words(asked[name])
            difference = f"is of {was}" if name == "model" else f"has {name} {was}"
            raise SettingsError(
                f"{path}: {what} {difference}, not {now}; leave the option out, or use --no-resume to start a new run"
            )
