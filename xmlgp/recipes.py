"""Recipes: named settings of the catalogue, adapted to the data set that they are used on."""

from xmlgp.errors import SettingsError
from xmlgp.models import DEFAULT_MODEL, MODELS, settings_from
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["DEFAULT_RECIPE", "resolve", "resolve_for"]

DEFAULT_RECIPE = "default"


def resolve(catalogue, name, shape, chosen):
    """Return the settings of a recipe on a data set and the catalogue's entry of that data set, if any.

    Later ones win: the defaults of the model; the recipe; what its paper states for the data set; what the catalogue
    says of this recipe on this data set; what the user chose. The model is the recipe's, mlgpf where it names none.

    Parameters
    ----------
    catalogue : Catalogue
    name : str or None
        The recipe; of `DEFAULT_RECIPE`, or None, the defaults of the model that the user chose, where it is of another.
    shape : tuple of int
        N, D, K of the training data, by which the catalogue knows a data set.
    chosen : mapping
        Settings that the user gave, and the model, as `model`, if that was given.

    Returns
    -------
    Settings
    Entry or None
    """
    entry = catalogue.find_by_shape(*shape)
    return resolve_for(catalogue, name, entry, chosen), entry


def resolve_for(catalogue, name, entry, chosen):
    """Return the settings of a recipe on an entry of the catalogue, or on None of them, as `resolve` does.

    Raises
    ------
    SettingsError
        For an unknown recipe, one of another model than the user chose, or a setting that is not allowed.
    """
    merged = _merged(catalogue, name or DEFAULT_RECIPE, entry)
    model = merged.get("model", DEFAULT_MODEL)
    if chosen.get("model", model) == model:
        return settings_from(merged | chosen, f"recipe {name or DEFAULT_RECIPE}")
    if name in (None, DEFAULT_RECIPE):
        return settings_from(chosen, f"model {chosen['model']}")
    # In a catalogue the model may be anything.
    shown = model if model in list(MODELS) else excerpt(model)
    raise SettingsError(f"recipe {name} is of the model {shown}, not of {chosen['model']}")


def _merged(catalogue, name, entry):
    """Return what the catalogue says of a recipe on a data set."""
    # A catalogue without recipes still has the defaults.
    recipes = {DEFAULT_RECIPE: {"settings": {}}} | catalogue.recipes
    if name not in recipes:
        raise SettingsError(f"{name} is not a recipe; there are {', '.join(sorted(map(str, recipes)))}")
    recipe = recipes[name]
    if not isinstance(recipe, dict) or not isinstance(recipe.get("settings"), dict):
        raise SettingsError(f"{catalogue.path}: recipe {name} must have settings, a mapping of names to values")
    specific = entry.recipes if entry else {}
    # Compared as text, for YAML may hold anything in place of a paper's letter.
    paper = str(recipe.get("paper"))
    merged = {}
    for layer in (recipe["settings"], specific.get(paper, {}), specific.get(name, {})):
        if not isinstance(layer, dict):
            raise SettingsError(f"{catalogue.path}: recipes of {entry.name} must map names of settings to values")
        merged |= layer
    return merged
