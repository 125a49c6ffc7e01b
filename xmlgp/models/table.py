"""The table of models, their settings by name, and recipes: named settings of the catalogue."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from xmlgp.data.catalogue import Catalogue, Entry, read_yaml
from xmlgp.models.bmlpl.record import BMLPL
from xmlgp.models.fields import Settings, check, from_text, in_words
from xmlgp.models.gpc.record import GPC
from xmlgp.models.mlgpf.record import MLGPF
from xmlgp.runtime.errors import SettingsError, nearest
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["DEFAULT_MODEL", "DEFAULT_RECIPE", "MODELS", "Recipe", "check_names", "check_recipe", "default_model"]
__all__ += ["fields_of", "read_settings", "resolve", "resolve_for", "settings_from", "settings_in_words"]

#: The record of each model, by its name.
MODELS = {model.name: model for model in (MLGPF, BMLPL, GPC)}

DEFAULT_MODEL = "mlgpf"

DEFAULT_RECIPE = "default"

#: A recipe by its name in the catalogue, or a file.
Recipe: TypeAlias = "str | os.PathLike[str]"

#: The endings of files that are recipes, and what they contain.
RECIPE_ENDINGS = (".yaml", ".yml")


def default_model(data_format: str | None) -> str:
    """Return the name of the model that data of a format of `xmlgp.data.formats` are trained with by default."""
    return next((name for name, model in MODELS.items() if model.data_format == data_format), DEFAULT_MODEL)


def settings_from(mapping: Mapping[str, Any], where: str, model: str | None = None) -> Settings:
    """Return the `Settings` of a mapping of names to values, perhaps with the `model`; defaults for the rest.

    A SettingsError names `where`, the source of the mapping, and a model or name that is unknown, a value that is not
    allowed, or settings that contradict each other.
    """
    if model is None:
        mapping = dict(mapping)
        model = mapping.pop("model", DEFAULT_MODEL)
        # A list, because YAML has values that cannot be hashed.
        if model not in list(MODELS):
            raise SettingsError(f"{where}: model is {excerpt(model)}, but must be one of {', '.join(MODELS)}")
    check_names(mapping, where, model)
    try:
        return MODELS[model].settings(**mapping)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def settings_in_words(settings: Settings, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the value of each setting of a model in words, by name; "8 (default)" for one that is unset.

    `facts` are those of its training points.
    """
    shape = (facts[key] for key in "NDK")
    defaults = MODELS[settings.model].default_values(settings, *shape)
    return {
        name: f"{in_words(defaults[name])} (default)" if value is None else in_words(value)
        for name, value in settings.mapping().items()
    }


def check_names(names: Iterable[str], where: str, model: str) -> None:
    """Raise SettingsError for a name that is not a setting of the model."""
    unknown = sorted(set(names) - fields_of(model).keys(), key=excerpt)
    if unknown:
        raise SettingsError(f"{where}: {_reason(unknown[0], [model])}")


def read_settings(texts: Mapping[str, str], model: str | None = None) -> dict[str, object]:
    """Return settings that a user wrote as text, by name, each checked alone: by a model, or allowed by some model.

    A SettingsError is raised for a name that is not a setting, with the most similar one, or for a value.
    """
    models = [model] if model else list(MODELS)
    values = {}
    for name, text in texts.items():
        specs = [fields_of(other)[name] for other in models if name in fields_of(other)]
        if not specs:
            raise SettingsError(_reason(name, models))
        # All models have a setting of the same name with values of the same type.
        values[name] = from_text(specs[0], text)
        for spec in specs[1:]:
            with contextlib.suppress(SettingsError):
                check(spec, values[name])
                break
        else:
            check(specs[0], values[name])
    return values


def fields_of(model: str) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a model's settings, by name."""
    return {spec.name: spec for spec in dataclasses.fields(MODELS[model].settings)}


def _reason(name: str, models: Sequence[str]) -> str:
    """Return why a name that is no setting of some models is refused."""
    owners = [model for model in MODELS if name in fields_of(model)]
    if owners:
        return f"{name} is a setting of {' and '.join(owners)}, not of {' or '.join(models)}"
    names = sorted({name for model in models for name in fields_of(model)})
    similar = nearest(name, names) if isinstance(name, str) else None
    advice = f"did you mean {similar}?" if similar else f"there are {', '.join(names)}"
    shown = name if isinstance(name, str) and name.isprintable() else excerpt(name)
    return f"{shown} is not a setting; {advice}"


def resolve(
    catalogue: Catalogue, name: Recipe | None, shape: tuple[int, int, int], chosen: Mapping[str, Any]
) -> tuple[Settings, Entry | None]:
    """Return the `Settings` of a recipe for a data set, and the catalogue's `Entry` that adds to them or None.

    Each of these overrides those before it: the defaults of the model; the recipe; the settings of its paper for the
    data set; the settings of this recipe for this data set; what the user chose, perhaps the `model` too. With
    `DEFAULT_RECIPE` or None and another model than the recipe's, the settings are the defaults of that model. A recipe
    in a file is the same for all data sets.
    """
    entry = None if _is_file(name) else catalogue.find_by_shape(*shape)
    return resolve_for(catalogue, name, entry, chosen).for_shape(*shape), entry


def resolve_for(catalogue: Catalogue, name: Recipe | None, entry: Entry | None, chosen: Mapping[str, Any]) -> Settings:
    """Return the settings of a recipe for an entry of the catalogue, or for none, as `resolve` does.

    A SettingsError is raised for an unknown recipe, one of another model than the user chose, or for a setting.
    """
    merged = _merged(catalogue, name or DEFAULT_RECIPE, entry)
    model = merged.get("model", DEFAULT_MODEL)
    if chosen.get("model", model) == model:
        return settings_from({**merged, **chosen}, f"recipe {name or DEFAULT_RECIPE}")
    if name in (None, DEFAULT_RECIPE):
        return settings_from(chosen, f"model {chosen['model']}")
    # The catalogue may have anything in place of a name.
    shown = model if model in list(MODELS) else excerpt(model)
    raise SettingsError(f"recipe {name} is of the model {shown}, not of {chosen['model']}")


def check_recipe(catalogue: Catalogue, name: Recipe) -> None:
    """Raise SettingsError for an unknown recipe, and CatalogueError for a malformed one, whatever the data are."""
    _merged(catalogue, name, None)


def _is_file(name: Recipe | None) -> bool:
    """Return whether a recipe is a file."""
    return isinstance(name, os.PathLike) or str(name).lower().endswith(RECIPE_ENDINGS)


def _merged(catalogue: Catalogue, name: Recipe, entry: Entry | None) -> dict[str, Any]:
    """Return the settings of a recipe for a data set, of a file or the catalogue's."""
    if _is_file(name):
        recipe = read_yaml(name)
        if set(recipe) != {"settings"} or not isinstance(recipe["settings"], dict):
            raise SettingsError(f"{name}: a recipe must have settings, a mapping of names to values, and nothing else")
        return recipe["settings"]
    # A catalogue without recipes still has the default one.
    recipes = {DEFAULT_RECIPE: {"settings": {}}} | catalogue.recipes
    if name not in recipes:
        names = sorted(map(str, recipes))
        near = nearest(str(name).upper(), names) or nearest(str(name), names)
        advice = f"; did you mean {near}?" if near else ""
        raise SettingsError(f"{name} is not a recipe; there are {', '.join(names)}{advice}")
    recipe = recipes[str(name)]
    specific: Mapping[Any, Any] = entry.recipes if entry else {}
    try:
        return dict(recipe["settings"] | specific.get(str(recipe.get("paper")), {}) | specific.get(name, {}))
    except (AttributeError, KeyError, TypeError):
        reason = f"recipe {name} must have settings, a mapping of names to values"
        raise SettingsError(f"{catalogue.path}: {reason}") from None
