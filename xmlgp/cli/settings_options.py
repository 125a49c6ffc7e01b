"""The options that choose a model and its settings."""

import functools
from collections.abc import Collection

import click

from xmlgp.cli.options import Decorator, Function, OptionValue, add_options
from xmlgp.models.fields import kind
from xmlgp.models.table import DEFAULT_MODEL, MODELS, fields_of, read_settings
from xmlgp.runtime.errors import SettingsError

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
    "posterior": ("", "shared-diagonal, diagonal or cholesky."),
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


def settings_options(preprocess_only: bool = False) -> Decorator:
    """Add `--model`, `--recipe`, `--set` and the options of `FLAGS`, perhaps only those that preprocessing depends on.

    The command gets `settings`, a mapping.
    """
    specs = {name: spec for model in MODELS for name, spec in fields_of(model).items()}
    flags = [name for name in FLAGS if specs[name].metadata["preprocess"] or not preprocess_only]
    others = sorted(name for name, spec in specs.items() if spec.metadata["preprocess"] or not preprocess_only)
    summaries = "; ".join(f"{name} ({model.summary})" for name, model in MODELS.items())
    formats = {model.name: model.data_format for model in MODELS.values() if model.data_format}
    defaults = [f"{name} for data in {data_format} format" for name, data_format in formats.items()]
    options: list[Decorator] = [
        click.option(
            "--recipe",
            metavar="NAME|FILE",
            help="Named settings of the catalogue, such as s-LINEAR, or a .yaml file of settings. Other options "
            "override them.",
        ),
        click.option(
            "--model",
            "model_name",
            type=click.Choice(list(MODELS)),
            help=f"{summaries}.  [default: {'; '.join([DEFAULT_MODEL, *defaults])}]",
        ),
        *map(_setting_option, flags),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="NAME=VALUE",
            help=f"Set any setting, such as calibration=false; it may be given several times. The names are "
            f"{', '.join(name for name in others if name not in flags)}.",
        ),
    ]

    def decorate(command: Function) -> Function:
        @functools.wraps(command)
        def wrapped(model_name: str | None, assignments: tuple[str, ...], **options: OptionValue) -> object:
            texts = {name: str(value) for name in flags if (value := options.pop(name)) is not None}
            model = {"model": model_name} if model_name else {}
            try:
                settings = read_settings(texts | _assigned({**model, **texts}, assignments), model_name)
            except SettingsError as error:
                raise click.UsageError(str(error)) from error
            recipe = {} if options["recipe"] is None else {"recipe": options["recipe"]}
            del options["recipe"]
            return command(settings=recipe | model | settings, **options)

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


def _setting_option(name: str) -> Decorator:
    """Return the option of a setting; `read_settings` checks its value."""
    letter, text = FLAGS[name]
    models = [model for model in MODELS if name in fields_of(model)]
    text = f"{text[0].upper()}{text[1:]}" if len(models) == len(MODELS) else f"{', '.join(models)}: {text}"
    flag = name.replace("_", "-")
    if name == "label_weights":
        return click.option(f"--{flag}/--no-{flag}", name, default=None, help=text)
    metavar = "N" if kind(fields_of(models[0])[name]) is int else "VALUE"
    return click.option(*filter(None, [letter]), f"--{flag}", name, metavar=metavar, help=text)
