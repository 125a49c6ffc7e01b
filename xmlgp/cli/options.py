"""Options that several subcommands share, each a decorator, so that they read the same everywhere."""

import contextlib
import functools
import itertools
from dataclasses import fields

import click

from xmlgp.errors import ChoiceError, ClashError, OtherModelError
from xmlgp.models import DEFAULT_MODEL, MODELS, check_each, models_with
from xmlgp.settings.fields import kind

__all__ = ["SettingsCommand", "cache_option", "note", "quiet_option", "recipe_option", "settings_options"]

quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes on standard error.")

cache_option = click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Keep a parsed binary copy of text files in the user's cache folder and use it while the text is unchanged.",
)

recipe_option = click.option(
    "--recipe",
    metavar="NAME",
    help="Named settings of the catalogue: default, s-LINEAR, LINEAR, s-SE, SE, sf-LINEAR, f-LINEAR, sf-SE, f-SE, "
    "L-LR, L-SE, L-SE+LR, L-SE-F, B-EM-CG, B-EM, B-Gibbs, B-online-EM, "
    "I-vi-taylor, I-vi-jj, I-vi-jj-hybrid, I-vi-jj-full, I-svi-adadelta "
    "or your own; options given beside it win.  "
    "[default: default, which is of mlgpf; bmlpl and gpc have defaults of their own]",
)


model_option = click.option(
    "--model",
    "model_name",
    type=click.Choice(list(MODELS)),
    help="Model: mlgpf (Gaussian-process factor model), bmlpl (topics of labels, learned from positive labels alone) "
    f"or gpc (Gaussian-process classification into two classes, for data with one label).  "
    f"[default: {DEFAULT_MODEL}; of data in libsvm's format gpc]",
)


class SettingsCommand(click.Command):
    """A command with `settings_options`, whose help has a section for those of each model."""

    def format_options(self, context, formatter):
        """Write the options that are no settings, then the settings of all models, of several and of each alone."""
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
    """Add `--model` and an option for every setting of a model; the command gets those given as `chosen`, a mapping.

    Settings of one name have one option, with what each model says of it where they differ in their choices, defaults
    or texts. `OtherModelError`, `ChoiceError` and `ClashError` of one of them are wrong usage. The command has
    `recipe_option` as well.

    Parameters
    ----------
    preprocess_only : bool
        Only the settings that preprocessing depends on.
    """
    specs = {}
    for model, settings in MODELS.items():
        for spec in fields(settings):
            if spec.metadata["preprocess"] or not preprocess_only:
                specs.setdefault(spec.name, {})[model] = spec

    def decorate(command):
        @functools.wraps(command)
        def wrapped(**values):
            chosen = {"model": values.pop("model_name")} | {name: values.pop(name) for name in specs}
            chosen = {name: value for name, value in chosen.items() if value is not None}
            try:
                if "model" in chosen:
                    # At once, not when the data have been read.
                    given = {name: value for name, value in chosen.items() if name != "model"}
                    check_each(given, "options", chosen["model"])
                return command(chosen=chosen, **values)
            except OtherModelError as error:
                if error.name not in chosen:
                    raise
                told = error.reason(_flag(error.name))
                if not ("model" in chosen or values["recipe"]):
                    model = _fitting(specs[error.name], chosen[error.name])
                    told += f"; --model {model} chooses it"
                raise click.UsageError(told) from error
            except ChoiceError as error:
                if error.name not in chosen:
                    raise
                told = f"{error.reason(_flag(error.name))} with the model {error.model}"
                raise click.UsageError(told) from error
            except ClashError as error:
                if chosen.keys().isdisjoint(error.names):
                    raise
                told = error.reason(lambda name: _flag(name) if name in chosen else name)
                raise click.UsageError(told) from error

        for of in reversed(specs.values()):
            wrapped = _option(of)(wrapped)
        return model_option(wrapped)

    return decorate


def _flag(name):
    return "--" + name.replace("_", "-")


def _fitting(of, value):
    """Return the first of the models that have a setting, with its field in each, which can have a value."""
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
    text = spec.metadata["help"]
    if spec.default is None:
        return text
    default = spec.default
    if kind(spec) is bool:
        default = flag.removeprefix("--") if default else f"no-{flag.removeprefix('--')}"
    return f"{text}  [default: {default}]"


def note(text, quiet):
    """Tell the user something on standard error, unless quiet."""
    if not quiet:
        with contextlib.suppress(OSError):  # a log on a full disk is no reason to fail
            click.echo(text, err=True)
