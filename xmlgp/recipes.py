"""Recipes: named settings of the catalogue, adapted to a data set."""

from xmlgp.errors import SettingsError
from xmlgp.models import DEFAULT_MODEL, MODELS, settings_from
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["DEFAULT_RECIPE", "resolve", "resolve_for"]

DEFAULT_RECIPE = "default"


def resolve(catalogue, name, shape, chosen):
    """Return the `Settings` of a recipe for a data set, and the catalogue's `Entry` of the data set or None.

    Each of these overrides those before it: the defaults of the model; the recipe; the settings of its paper for the
    data set; the settings of this recipe for this data set; what the user chose, perhaps the `model` too. With
    `DEFAULT_RECIPE` or None and another model than the recipe's, the settings are the defaults of that model.
    """
    entry = catalogue.find_by_shape(*shape)
    return resolve_for(catalogue, name, entry, chosen).for_shape(*shape), entry


def resolve_for(catalogue, name, entry, chosen):
    """Return the settings of a recipe for an entry of the catalogue, or for none, as `resolve` does.

    A SettingsError is raised for an unknown recipe, one of another model than the user chose, or for a setting.
    """
    merged = _merged(catalogue, name or DEFAULT_RECIPE, entry)
    model = merged.get("model", DEFAULT_MODEL)
    if chosen.get("model", model) == model:
        return settings_from(merged | chosen, f"recipe {name or DEFAULT_RECIPE}")
    if name in (None, DEFAULT_RECIPE):
        return settings_from(chosen, f"model {chosen['model']}")
    # The catalogue may have anything in place of a name.
    shown = model if model in list(MODELS) else excerpt(model)
    raise SettingsError(f"recipe {name} is of the model {shown}, not of {chosen['model']}")


def _merged(catalogue, name, entry):
    """Return the catalogue's settings of a recipe for a data set."""
    # A catalogue without recipes still has the default one.
    recipes = {DEFAULT_RECIPE: {"settings": {}}} | catalogue.recipes
    if name not in recipes:
        raise SettingsError(f"{name} is not a recipe; there are {', '.join(sorted(map(str, recipes)))}")
    recipe = recipes[name]
    if not isinstance(recipe, dict) or not isinstance(recipe.get("settings"), dict):
        raise SettingsError(f"{catalogue.path}: recipe {name} must have settings, a mapping of names to values")
    specific = entry.recipes if entry else {}
    # YAML may hold anything in place of a paper's letter.
    paper = str(recipe.get("paper"))
    merged = {}
    for layer in (recipe["settings"], specific.get(paper, {}), specific.get(name, {})):
        if not isinstance(layer, dict):
            raise SettingsError(f"{catalogue.path}: recipes of {entry.name} must map names of settings to values")
        merged |= layer
    return merged
