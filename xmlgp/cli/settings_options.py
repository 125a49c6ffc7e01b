"""The options that choose a model and its settings."""

from __future__ import annotations

import functools
from dataclasses import Field
from typing import Any

import click

from xmlgp.cli.options import Decorator, Function, OptionValue, add_options, rare_option
from xmlgp.models.fields import help_of, in_words, kind
from xmlgp.models.table import DEFAULT_MODEL, MODELS, fields_of, read_settings
from xmlgp.runtime.errors import SettingsError

__all__ = ["SETTINGS", "settings_options"]

#: The fields of each setting by its name and the model.
SETTINGS: dict[str, dict[str, Field[Any]]] = {}
for _model in MODELS:
    for _name, _field in fields_of(_model).items():
        SETTINGS.setdefault(_name, {})[_model] = _field

#: Settings with a letter: the sizes of models in the papers.
LETTERS = {"inducing_count": "-M", "basis_size": "-R", "factors": "-P", "topics": "-T"}


def settings_options(command: Function) -> Function:
    """Add `--model`, `--recipe`, and an option for each setting; the command gets `settings`, a mapping."""

    @functools.wraps(command)
    def wrapped(recipe: str | None, model_name: str | None, **options: OptionValue) -> object:
        texts = {name: str(value) for name in SETTINGS if (value := options.pop(name)) is not None}
        choice = {"recipe": recipe, "model": model_name}
        try:
            settings = read_settings(texts, model_name)
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
        return command(settings={name: value for name, value in choice.items() if value} | settings, **options)

    return add_options(wrapped, [RECIPE, _model_option(), *map(_setting_option, sorted(SETTINGS))])


RECIPE = click.option(
    "--recipe",
    metavar="NAME|FILE",
    help="Named settings of the catalogue, such as s-LINEAR, or a .yaml file; other options override them.",
)


def _model_option() -> Decorator:
    """Return the option of the model."""
    formats = [f"{model.name} for data in {model.data_format} format" for model in MODELS.values() if model.data_format]
    text = f"The model.  [default: {'; '.join([DEFAULT_MODEL, *formats])}]"
    return click.option("--model", "model_name", type=click.Choice(list(MODELS)), help=text)


def _setting_option(name: str) -> Decorator:
    """Return the option of a setting; `read_settings` checks its value."""
    models: dict[str, list[str]] = {}
    for model, field in SETTINGS[name].items():
        models.setdefault(_description(field), []).append(model)
    text = " ".join(f"{', '.join(owners)}: {description}" for description, owners in models.items())
    flag = f"--{name.replace('_', '-')}"
    if kind(field) is bool:
        return rare_option(f"{flag}/--no-{flag[2:]}", name, default=None, help=text)
    return rare_option(*filter(None, [LETTERS.get(name)]), flag, name, metavar="VALUE", help=text)


def _description(field: Field[Any]) -> str:
    """Return the help and the default of a setting."""
    return help_of(field) + ("" if field.default is None else f"  [default: {in_words(field.default)}]")
