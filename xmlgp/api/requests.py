"""What a user asks for of training: settings, recipes, and the model that may be replaced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.dataset import Dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.fields import Settings
from xmlgp.models.table import DEFAULT_MODEL, MODELS, Recipe, check_recipe, resolve, settings_from
from xmlgp.runtime.errors import ModelFolderError
from xmlgp.runtime.plurals import counted

__all__ = ["Request", "check_recipe_is_known", "model_to_replace"]


class Request(NamedTuple):
    """A user's request for training; recipes and defaults fill in the rest.

    `chosen` are settings by name, and the `model` if that was chosen, or complete `Settings`, which are taken as they
    are. `default_model` is that for the format of the data, if the user chooses neither a model nor a recipe.
    """

    chosen: Mapping[str, Any] | Settings
    recipe: Recipe | None = None
    default_model: str | None = None

    def settings(self, dataset: Dataset, folder: ModelFolder | None = None) -> tuple[Settings, list[str]]:
        """Return complete settings for a data set, and messages to the user about them.

        What a `folder` with preprocessed points was preprocessed with takes the place of defaults.
        """
        chosen = self.chosen
        notes: list[str] = []
        if isinstance(chosen, Settings):
            return chosen, notes
        settings = self._over(folder, chosen) if folder else None
        if settings is None:
            if self.default_model and not self.recipe and "model" not in chosen:
                chosen = {"model": self.default_model, **chosen}
                if self.default_model != DEFAULT_MODEL:
                    notes.append(f"the model is {self.default_model}, the default for data of this format")
            settings, entry = resolve(load_catalogue(), self.recipe, dataset.shape, chosen)
            if entry and self.recipe:
                notes.append(f"recipe {self.recipe} of the model {settings.model} with its settings for {entry.name}")
        unused = settings.unused()
        notes += [f"{name} has no effect with {unused[name]}" for name in sorted(unused.keys() & set(chosen))]
        return settings, [*notes, *MODELS[settings.model].notes(settings, dataset)]

    def _over(self, folder: ModelFolder, chosen: Mapping[str, Any]) -> Settings | None:
        """Return the settings of a preprocessed model with those chosen in their place, or None if others are asked."""
        is_other = chosen.get("model", folder.settings.model) != folder.settings.model
        if self.recipe or is_other or folder.stage != "preprocessed":
            return None
        return settings_from({**folder.settings.with_model(), **chosen}, str(folder.path))


def check_recipe_is_known(recipe: Recipe | None) -> None:
    """Raise SettingsError for a recipe that is unknown, before data are read, which can take minutes."""
    if recipe is not None:
        check_recipe(load_catalogue(), recipe)


def model_to_replace(path: Path, dataset: Dataset, overwrite: bool, may_replace: bool = False) -> ModelFolder | None:
    """Return the model in a folder if it is of the same data; ModelFolderError if one of other data would be lost."""
    try:
        folder = ModelFolder(path)
    except ModelFolderError as error:
        if overwrite or may_replace or not ModelFolder.exists(path):
            return None
        raise ModelFolderError(f"{error}; choose another folder, or replace it with `overwrite=True`") from None
    data = folder.description["data"]
    if data == dataset.facts:
        return folder
    if overwrite or may_replace or folder.stage != "trained":
        return None
    raise ModelFolderError(
        f"{path}: the model here was trained on other data ({counted(data['N'], 'point')}); choose another folder, or "
        "replace it with `overwrite=True`"
    )
