"""Decide whether a training run starts, resumes or has nothing to do, from the content of its model folder."""

from enum import Enum
from typing import NamedTuple

from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS, check_names
from xmlgp.runs.interrupted import InterruptedRun
from xmlgp.runtime.threads import core_count
from xmlgp.settings.fields import Settings, in_words

__all__ = ["Action", "RunPlan", "plan_run", "readable_run"]


class Action(Enum):
    """The actions of a training run."""

    #: Train from the start.
    START = "start"
    #: Resume the interrupted run.
    RESUME = "resume"
    #: Nothing: the model is trained as asked.
    NOTHING = "nothing"


class RunPlan(NamedTuple):
    """The action of a training run, and its reasons.

    Attributes
    ----------
    action : Action
    settings : Settings
    interrupted : InterruptedRun or None
        The run that is resumed.
    discarded : InterruptedRun or None
        The run that is discarded.
    notes : list of str
        Messages to the user.
    """

    action: Action
    settings: Settings
    interrupted: InterruptedRun | None
    discarded: InterruptedRun | None
    notes: list


def plan_run(path, dataset, request, resume=None):
    """Decide whether a training run starts, resumes or has nothing to do.

    Parameters
    ----------
    path : Path
        The model folder.
    dataset : Dataset
        The training points.
    request : Request
    resume : bool, optional
        True: resume an interrupted run with its settings; do nothing if the model is trained as asked. False:
        discard an interrupted run. None: resume an interrupted run of the same data and settings; another one is
        discarded, but an error if it took a minute or more.

    Returns
    -------
    RunPlan

    Raises
    ------
    SettingsError
        For settings that are not allowed, or that contradict the run or the model that is to be kept.
    ModelFolderError
        If the folder holds an interrupted run that is damaged, or another one that is worth keeping.
    """
    notes = []
    folder = _existing_model(path, notes)
    interrupted = None if resume is False else InterruptedRun.read(path)
    if resume and interrupted:
        if interrupted.learns:
            raise ModelFolderError(
                f"{path}: the interrupted run was one of `xmlgp learn`; resume it with that, or use --no-resume"
            )
        _check_same(path, "the interrupted run", interrupted.settings, request.asked(dataset))
        if interrupted.data != dataset.facts:
            raise ModelFolderError(f"{path}: the interrupted run was on other data; use --no-resume to start a new run")
        return _resumed(interrupted, request, dataset, notes)
    if resume and folder and _is_trained(folder, dataset, request):
        return RunPlan(Action.NOTHING, folder.settings, None, None, [*notes, "already trained; nothing to resume"])
    settings, about_settings = _settings(path, folder, dataset, request)
    if interrupted:
        difference = interrupted.difference(dataset.facts, settings)
        if difference is None:
            return _resumed(interrupted, request, dataset, notes)
        if interrupted.worth_keeping:
            raise ModelFolderError(
                f"{path}: an unfinished run with {difference} exists, which stopped {interrupted.where}; "
                "use --resume or --no-resume"
            )
    if resume:
        notes.append("no checkpoint found; starting a new run")
    discarded = interrupted or readable_run(path)
    if discarded:
        notes.append(f"discarding the run that was interrupted {discarded.where}")
    notes += about_settings + _notes(settings, request, dataset)
    return RunPlan(Action.START, settings, None, discarded, notes)


def readable_run(path):
    """Return the interrupted run in a model folder; None if there is none, or none that can be read.

    Parameters
    ----------
    path : path
    """
    try:
        return InterruptedRun.read(path)
    except (ModelFolderError, OSError):
        return None


def _existing_model(path, notes):
    """Return the model folder, or None if it holds no model; add a note if it holds a damaged one."""
    try:
        return ModelFolder(path)
    except ModelFolderError as error:
        if ModelFolder.exists(path):
            notes.append(f"the existing model cannot be read and will be replaced ({error})")
        return None


def _resumed(interrupted, request, dataset, notes):
    notes += _notes(interrupted.settings, request, dataset)
    notes.append(f"resuming {interrupted.where}")
    if interrupted.cores != core_count():
        notes.append(
            f"the checkpoint used {interrupted.cores} cores, this run uses {core_count()}; "
            "results may differ in the last digits"
        )
    return RunPlan(Action.RESUME, interrupted.settings, interrupted, None, notes)


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


def _settings(path, folder, dataset, request):
    """Return the settings of a new run, and messages about them."""
    if folder and folder.stage == "preprocessed" and _has_data(folder, dataset) and request.extends(folder.settings):
        return request.settings_over(folder.settings, str(path)), []
    return request.settings(dataset)


def _notes(settings, request, dataset):
    """Return messages about settings that have no effect, and about the data."""
    unused = settings.unused()
    chosen = sorted(unused.keys() & set(request.chosen))
    notes = [f"{name} has no effect with {unused[name]}" for name in chosen]
    return notes + list(MODELS[settings.model].notes(settings, dataset))


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
