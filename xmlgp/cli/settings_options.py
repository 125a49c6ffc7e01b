"""The options that choose a model and its settings, one for each setting of any model."""

import functools
import itertools
from dataclasses import fields

import click

from xmlgp.errors import ChoiceError, ClashError, OtherModelError
from xmlgp.models import DEFAULT_MODEL, MODELS, check_each, models_with
from xmlgp.settings.fields import kind

__all__ = ["SettingsCommand", "recipe_option", "settings_options"]

recipe_option = click.option(
    "--recipe",
    metavar="NAME",
    help="Named settings of the catalogue: default, s-LINEAR, LINEAR, s-SE, SE, sf-LINEAR, f-LINEAR, sf-SE, f-SE, "
    "L-LR, L-SE, L-SE+LR, L-SE-F, B-EM-CG, B-EM, B-Gibbs, B-online-EM, "
    "I-vi-taylor, I-vi-jj, I-vi-jj-hybrid, I-vi-jj-full, I-svi-adadelta "
    "or your own. Options on the command line override it.  "
    "[default: default for mlgpf; the other models have defaults of their own]",
)


def _model_option(command):
    formats = [model for model in MODELS.values() if model.data_format]
    return click.option(
        "--model",
        "model_name",
        type=click.Choice(list(MODELS)),
        help="Model: "
        + "; ".join(f"{name} ({model.summary})" for name, model in MODELS.items())
        + f".  [default: {DEFAULT_MODEL}"
        + "".join(f"; {model.name} for data in {model.data_format} format" for model in formats)
        + "]",
    )(command)


class SettingsCommand(click.Command):
    """A command with `settings_options`, whose help has a section for each combination of models."""

    def format_options(self, context, formatter):
        """Write the other options, then the settings of all models, of several and of each one."""
        sections = {"Options": []}
        for count in range(len(MODELS), 0, -1):
            sections |= {_title(models): [] for models in itertools.combinations(MODELS, count)}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record and isinstance(parameter, click.Option):
                models = models_with(parameter.name)
                sections[_title(models) if models else "Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _title(models):
    return "Settings of " + ("all models" if len(models) == len(MODELS) else " and ".join(models))


def settings_options(preprocess_only=False):
    """Add `--model` and an option for every setting; the command gets the given ones as the mapping `chosen`.

    Settings with the same name have one option, whose help has the text of each model where they differ.
    `OtherModelError`, `ChoiceError` and `ClashError` of a given option are wrong usage. The command needs
    `recipe_option` as well.

    Parameters
    ----------
    preprocess_only : bool
        Only the settings that preprocessing depends on.
    """
    specs = {}
    for name, model in MODELS.items():
        for spec in fields(model.settings):
            if spec.metadata["preprocess"] or not preprocess_only:
                specs.setdefault(spec.name, {})[name] = spec

    def decorate(command):
        @functools.wraps(command)
        def wrapped(**values):
            chosen = {"model": values.pop("model_name")} | {name: values.pop(name) for name in specs}
            chosen = {name: value for name, value in chosen.items() if value is not None}
            try:
                if "model" in chosen:
                    # Before the data are read.
                    given = {name: value for name, value in chosen.items() if name != "model"}
                    check_each(given, "options", chosen["model"])
                return command(chosen=chosen, **values)
            except OtherModelError as error:
                if error.name not in chosen:
                    raise
                reason = error.reason(_flag(error.name))
                if not ("model" in chosen or values["recipe"]):
                    model = _first_with(specs[error.name], chosen[error.name])
                    reason += f"; use --model {model}"
                raise click.UsageError(reason) from error
            except ChoiceError as error:
                if error.name not in chosen:
                    raise
                reason = f"{error.reason(_flag(error.name))} with the model {error.model}"
                raise click.UsageError(reason) from error
            except ClashError as error:
                if chosen.keys().isdisjoint(error.names):
                    raise
                reason = error.reason(lambda name: _flag(name) if name in chosen else name)
                raise click.UsageError(reason) from error

        for of in reversed(specs.values()):
            wrapped = _option(of)(wrapped)
        return _model_option(wrapped)

    return decorate


def _flag(name):
    return "--" + name.replace("_", "-")


def _first_with(of, value):
    """Return the first model that allows a value of a setting, given the setting's field in each model that has it."""
    return next(model for model, spec in of.items() if value in (spec.metadata["choices"] or (value,)))


def _option(of):
    """Return the option of a setting, given its field in each model that has it."""
    spec = next(iter(of.values()))
    meta, flag = spec.metadata, _flag(spec.name)
    symbol = [f"-{meta['symbol']}"] if meta["symbol"] else []
    texts = {model: _text(own, flag) for model, own in of.items()}
    if len(set(texts.values())) == 1:
        text = texts.popitem()[1]
    else:
        text = "  ".join(f"{model}: {own}" for model, own in texts.items())
    if kind(spec) is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", spec.name, default=None, help=text)
    if meta["choices"]:
        type_ = click.Choice(list(dict.fromkeys(choice for own in of.values() for choice in own.metadata["choices"])))
    elif kind(spec) is int:
        type_ = click.IntRange(meta["minimum"], meta["maximum"])
    elif meta["minimum"] is not None:
        type_ = click.FloatRange(meta["minimum"], meta["maximum"])
    else:
        type_ = click.FloatRange(min=meta["above"], min_open=True, max=meta["maximum"])
    return click.option(*symbol, flag, spec.name, type=type_, help=text)


def _text(spec, flag):
    text, default = spec.metadata["help"], spec.default
    if default is None:
        default = spec.metadata["if_unset"]
    elif kind(spec) is bool:
        default = flag.removeprefix("--") if default else f"no-{flag.removeprefix('--')}"
    return f"{text}  [default: {default}]"
