"""What a user asks of training, and whether a run starts, resumes or has nothing to do in its model folder."""

from collections.abc import Mapping
from typing import NamedTuple

from xmlgp.data.catalogue import load_catalogue
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import DEFAULT_MODEL, MODELS, check_names, settings_from
from xmlgp.recipes import resolve
from xmlgp.runs.interrupted import InterruptedRun, resume_or_discard
from xmlgp.settings.fields import Settings, in_words

__all__ = ["Request", "RunPlan", "plan_run"]


class Request(NamedTuple):
    """A user's request for training; recipes and defaults fill in the rest.

    `chosen` are settings by name, and the `model` if that was chosen, or complete `Settings`, which are taken as they
    are. `default_model` is that for the format of the data, if the user chooses neither a model nor a recipe.
    """

    chosen: Mapping | Settings
    recipe: str | None = None
    default_model: str | None = None

    def asked(self, dataset):
        """Return all settings that the user asked for, those of the recipe included, with the model."""
        if isinstance(self.chosen, Settings):
            return self.chosen.with_model()
        if not self.recipe:
            return self.chosen
        return resolve(load_catalogue(), self.recipe, dataset.shape, self.chosen)[0].with_model()

    def settings(self, dataset):
        """Return complete settings for a data set, and messages to the user about their origin."""
        chosen, notes = self.chosen, []
        if isinstance(chosen, Settings):
            return chosen, notes
        if self.default_model and not self.recipe and "model" not in chosen:
            chosen = {"model": self.default_model} | chosen
            if self.default_model != DEFAULT_MODEL:
                notes.append(f"the model is {self.default_model}, the default for data of this format")
        settings, entry = resolve(load_catalogue(), self.recipe, dataset.shape, chosen)
        if entry and self.recipe:
            notes.append(f"recipe {self.recipe} of the model {settings.model} with its settings for {entry.name}")
        return settings, notes

    def over(self, folder):
        """Return the settings of a preprocessed model with those chosen in their place, or None if others are asked."""
        if self.recipe or isinstance(self.chosen, Settings):
            return None
        if self.chosen.get("model", folder.settings.model) != folder.settings.model:
            return None
        return settings_from(folder.settings.with_model() | self.chosen, str(folder.path))


class RunPlan(NamedTuple):
    """A training run: its settings, the model folder with their preprocessing, and the runs to resume and to discard.

    All but the settings may be None.
    """

    settings: Settings
    preprocessed: ModelFolder | None
    interrupted: InterruptedRun | None
    discarded: InterruptedRun | None


def plan_run(path, dataset, request, resume, note):
    """Return the `RunPlan` for the folder at `path` (Path), or None if `resume` and the model is trained as asked.

    With `resume` True, an interrupted run is resumed with its settings; for the rest see `resume_or_discard`. A
    SettingsError is raised for settings that are not allowed, or that contradict what is to be kept.
    """
    folder, notes = _existing_model(path, note), []
    same_data = folder is not None and folder.description["data"] == dataset.facts
    run = None if resume is False else InterruptedRun.read(path)
    if resume and run and not run.learns:
        settings = run.settings
        _check_same(path, "the interrupted run", settings, request.asked(dataset))
    elif resume and not run and folder and folder.stage == "trained":
        if not same_data:
            raise SettingsError(f"{path}: the model was trained on other data; use --no-resume to replace it")
        _check_same(path, "the model", folder.settings, request.asked(dataset))
        # Damaged arrays raise an error.
        folder.arrays("")
        note("already trained; nothing to resume")
        return None
    else:
        settings = request.over(folder) if same_data and folder.stage == "preprocessed" else None
        if settings is None:
            settings, notes = request.settings(dataset)
    usable = same_data and folder.settings.preprocess_part() == settings.preprocess_part()
    runs = resume_or_discard(path, run, dataset.facts, settings, resume, note)
    plan = RunPlan(settings, folder if usable else None, *runs)
    if not isinstance(request.chosen, Settings):
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


def _check_same(path, what, settings, asked):
    """Raise SettingsError if settings are not as asked."""
    present = settings.with_model()
    if asked.get("model", settings.model) == settings.model:
        check_names(asked.keys() - {"model"}, path, settings.model)
    # The other settings of another model do not matter.
    for name in sorted(asked, key="model".__ne__):
        if asked[name] != present[name]:
            was, now = in_words(present[name]), in_words(asked[name])
            difference = f"is of {was}" if name == "model" else f"has {name} {was}"
            raise SettingsError(
                f"{path}: {what} {difference}, not {now}; leave the option out, or use --no-resume to start a new run"
            )
