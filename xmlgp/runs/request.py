"""A user's request for training: some settings, perhaps a recipe."""

from collections.abc import Mapping
from typing import NamedTuple

from xmlgp.data.catalogue import load_catalogue
from xmlgp.models import DEFAULT_MODEL, settings_from
from xmlgp.recipes import resolve
from xmlgp.settings.fields import Settings

__all__ = ["Request"]


class Request(NamedTuple):
    """A user's request for training; recipes and defaults fill in the rest.

    Attributes
    ----------
    chosen : mapping
        Settings that the user chose, and the model, as `model`, if that was chosen.
    recipe : str or None
    default_model : str or None
        The model for the format of the data, if the user chooses neither a model nor a recipe.
    exact : Settings or None
        Complete settings, in place of all others.
    """

    chosen: Mapping
    recipe: str | None = None
    default_model: str | None = None
    exact: Settings | None = None

    @classmethod
    def exactly(cls, settings):
        """Return the request for exactly these settings."""
        return cls({}, exact=settings)

    def asked(self, dataset):
        """Return all settings that the user asked for, those of the recipe included, with the model.

        Parameters
        ----------
        dataset : Dataset
        """
        if self.exact:
            return self.exact.with_model()
        if not self.recipe:
            return self.chosen
        return resolve(load_catalogue(), self.recipe, dataset.shape, self.chosen)[0].with_model()

    def settings(self, dataset):
        """Return complete settings for a data set.

        Parameters
        ----------
        dataset : Dataset

        Returns
        -------
        settings : Settings
        notes : list of str
            Messages to the user about their origin.
        """
        if self.exact:
            return self.exact, []
        chosen, notes = self.chosen, []
        if self.default_model and not self.recipe and "model" not in chosen:
            chosen = {"model": self.default_model} | chosen
            if self.default_model != DEFAULT_MODEL:
                notes.append(f"the model is {self.default_model}, the default for data of this format")
        settings, entry = resolve(load_catalogue(), self.recipe, dataset.shape, chosen)
        if entry is not None and self.recipe:
            notes.append(f"recipe {self.recipe} of the model {settings.model} with its settings for {entry.name}")
        return settings, notes

    def extends(self, settings):
        """Return whether the request leaves it open to use the settings of preprocessing."""
        same_model = self.chosen.get("model", settings.model) == settings.model
        return same_model and not self.recipe and self.exact is None

    def settings_over(self, settings, where):
        """Return settings with those chosen in place of their values.

        Parameters
        ----------
        settings : Settings
        where : str
            The source of these settings, for messages.
        """
        return settings_from(settings.with_model() | self.chosen, where)
