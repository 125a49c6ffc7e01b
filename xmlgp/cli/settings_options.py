"""The options that choose a model and its settings."""

import functools
from collections.abc import Collection, Iterable

import click

from xmlgp.cli.help import option
from xmlgp.cli.options import Decorator, Function, OptionValue, add_options
from xmlgp.cli.shells import complete_names
from xmlgp.data.catalogue import load_catalogue
from xmlgp.errors import SettingsError
from xmlgp.models import DEFAULT_MODEL, MODELS, fields_of, read_settings
from xmlgp.settings.fields import in_words, kind

__all__ = ["settings_options"]

#: The settings with an option each, which people and the papers vary: a letter or none, and the help, which begins with
#: the models unless all have the setting.
FLAGS = {
    "kernel": ("", "linear, se or se+linear."),
    "inducing": ("", "inducing inputs, features (the unit vectors), free or subspace."),
    "inducing_count": ("-M", "inducing inputs."),
    "basis_size": ("-R", "basis vectors of the subspace."),
    "factors": ("-P", "latent functions."),
    "label_weights": ("", "weights of each label on features."),
    "replay": ("", "training points that MODEL contains for `xmlgp learn`; 0 for none."),
    "posterior": ("", "shared-diagonal, diagonal or cholesky."),
    "expectations": ("", "quadrature, jj or taylor."),
    "ranking": ("", "rank labels by probability or by utility."),
    "epochs": ("", "passes over the data."),
    "topics": ("-T", "topics of labels."),
    "inference": ("", "the inference method, such as gibbs or svi-adadelta."),
    "iterations": ("", "passes over the data."),
    "weighting": ("", "feature weighting, root-idf, idf, unit or none."),
    "batch_size": ("", "points in a minibatch."),
    "learning_rate": ("", "learning rate."),
    "seed": ("", "seed of all random numbers."),
}


SET = "Set any setting, such as calibration=false; `xmlgp settings` lists them. May be given several times."

SET_SEVERAL = (
    "Compare values of a setting, such as factors=50,100 or model=mlgpf,bmlpl; `xmlgp settings` lists them. If it is "
    "given for several settings, all combinations are compared."
)


def settings_options(preprocess_only: bool = False, compared: bool = False) -> Decorator:
    """Add `--model`, `--recipe`, `--set` and the options of `FLAGS`, perhaps only those that preprocessing depends on.

    The command gets `recipe` and `settings`, a mapping. If settings are `compared`, those of `--set` are lists of
    values.
    """
    specs = {name: spec for model in MODELS for name, spec in fields_of(model).items()}
    flags = [name for name in FLAGS if specs[name].metadata["preprocess"] or not preprocess_only]
    summaries = "; ".join(f"{name} ({model.summary})" for name, model in MODELS.items())
    formats = {model.name: model.data_format for model in MODELS.values() if model.data_format}
    defaults = [f"{name} for data in {data_format} format" for name, data_format in formats.items()]
    options: list[Decorator] = [
        option(
            "--recipe",
            metavar="NAME|FILE",
            shell_complete=complete_names(_recipes, with_files=True),
            group="Model",
            help="Named settings of the catalogue, such as s-LINEAR, or a .yaml file of settings. Other options "
            "override them.",
        ),
        option(
            "--model",
            "model_name",
            type=click.Choice(list(MODELS)),
            group="Model",
            help=f"{summaries}.  [default: {'; '.join([DEFAULT_MODEL, *defaults])}]",
        ),
        *map(_setting_option, flags),
        option(
            "--set",
            "assignments",
            multiple=True,
            metavar="NAME=VALUE,VALUE" if compared else "NAME=VALUE",
            shell_complete=complete_names(functools.partial(_assignments, preprocess_only, compared)),
            group="Model",
            help=SET_SEVERAL if compared else SET,
        ),
    ]

    def decorate(command: Function) -> Function:
        @functools.wraps(command)
        def wrapped(model_name: str | None, assignments: tuple[str, ...], **options: OptionValue) -> object:
            texts = {name: str(value) for name in flags if (value := options.pop(name)) is not None}
            present = {"model": model_name} if model_name else {}
            try:
                assigned = _assigned({**present, **texts}, assignments)
                values = {name: _values(name, text, model_name) for name, text in assigned.items() if compared}
                settings = read_settings(texts if compared else {**texts, **assigned}, model_name)
            except SettingsError as error:
                raise click.UsageError(str(error)) from error
            return command(settings={**present, **settings, **values}, **options)

        return add_options(wrapped, options)

    return decorate


def _assigned(texts: Collection[str], assignments: tuple[str, ...]) -> dict[str, str]:
    """Return the texts of `--set NAME=VALUE` by name; none may be among the names that are set already."""
    assigned: dict[str, str] = {}
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise click.UsageError(f"--set {assignment} is not of the form NAME=VALUE.")
        if name in texts or name in assigned:
            raise click.UsageError(f"{name} is set twice.")
        assigned[name] = text
    return assigned


def _values(name: str, text: str, model: str | None) -> list[object]:
    """Return the values of a setting, or models, that a text with commas lists."""
    texts = [part.strip() for part in text.split(",")]
    return list(texts) if name == "model" else [read_settings({name: part}, model)[name] for part in texts]


def _recipes() -> Iterable[tuple[str, str]]:
    """Return the names of recipes, each with its settings."""
    for name, recipe in load_catalogue().recipes.items():
        settings = recipe.get("settings") if isinstance(recipe, dict) else None
        if isinstance(settings, dict):
            yield str(name), ", ".join(f"{setting}={in_words(value)}" for setting, value in settings.items())


def _assignments(preprocess_only: bool, compared: bool) -> Iterable[tuple[str, str]]:
    """Return `NAME=` and `NAME=VALUE` of the settings, each with what the setting means."""
    if compared:
        yield "model=", "the model"
        yield from ((f"model={name}", model.summary) for name, model in MODELS.items())
    for name, spec in sorted({name: spec for model in MODELS for name, spec in fields_of(model).items()}.items()):
        if spec.metadata["preprocess"] or not preprocess_only:
            meaning = spec.metadata["help"]
            yield f"{name}=", meaning
            yield from ((f"{name}={value}", meaning) for value in _choices(name))


def _choices(name: str) -> list[str]:
    """Return the values of a setting that has a few, of all models that have it."""
    specs = [fields_of(model)[name] for model in MODELS if name in fields_of(model)]
    values = [value for spec in specs for value in spec.metadata["choices"] or ()]
    return list(dict.fromkeys(values)) or (["true", "false"] if kind(specs[0]) is bool else [])


def _setting_option(name: str) -> Decorator:
    """Return the option of a setting; `read_settings` checks its value."""
    letter, text = FLAGS[name]
    models = [model for model in MODELS if name in fields_of(model)]
    specs = [fields_of(model)[name] for model in models]
    text = f"{text[0].upper()}{text[1:]}" if len(models) == len(MODELS) else f"{', '.join(models)}: {text}"
    letters = [letter] if letter else []
    flag = name.replace("_", "-")
    if name == "label_weights":
        return option(f"--{flag}/--no-{flag}", name, default=None, group="Model", help=text)
    complete = complete_names(lambda: [(value, "") for value in _choices(name)])
    metavar = "N" if kind(specs[0]) is int else "VALUE"
    return option(*letters, f"--{flag}", name, metavar=metavar, shell_complete=complete, group="Model", help=text)
