"""Options that several subcommands share, each a decorator, so that they read the same everywhere."""

import contextlib
import functools
from dataclasses import fields

import click

from xmlgp.errors import ClashError, OtherModelError
from xmlgp.settings import DEFAULT_MODEL, MODELS, check_names, kind, models_with

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
    "L-LR, L-SE, L-SE+LR, L-SE-F, B-EM-CG, B-EM, B-Gibbs, B-online-EM "
    "or your own; options given beside it win.  [default: default]",
)


model_option = click.option(
    "--model",
    "model_name",
    type=click.Choice(list(MODELS)),
    help="Model: mlgpf (Gaussian-process factor model) or bmlpl (topics of labels, learned from positive labels alone)."
    f"  [default: {DEFAULT_MODEL}]",
)


class SettingsCommand(click.Command):
    """A command with `settings_options`, whose help has a section for those of each model."""

    def format_options(self, context, formatter):
        """Write the options that are no settings, then the settings of all models, then those of each."""
        sections = {"Options": [], "Settings of all models": []}
        sections |= {f"Settings of {model}": [] for model in MODELS}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record and isinstance(parameter, click.Option):
                sections.setdefault(_section(parameter.name), []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _section(name):
    models = models_with(name)
    if len(models) == len(MODELS):
        return "Settings of all models"
    return f"Settings of {' and '.join(models)}" if models else "Options"


def settings_options(preprocess_only=False):
    """Add `--model` and an option for every setting of a model; the command gets those given as `chosen`, a mapping.

    `OtherModelError` and `ClashError` of one of them are wrong usage. The command has `recipe_option` as well.

    Parameters
    ----------
    preprocess_only : bool
        Only the settings that preprocessing depends on.
    """
    specs = {spec.name: spec for settings in MODELS.values() for spec in fields(settings)}
    specs = [spec for spec in specs.values() if spec.metadata["preprocess"] or not preprocess_only]

    def decorate(command):
        @functools.wraps(command)
        def wrapped(**values):
            chosen = {"model": values.pop("model_name")} | {spec.name: values.pop(spec.name) for spec in specs}
            chosen = {name: value for name, value in chosen.items() if value is not None}
            try:
                if "model" in chosen:
                    # At once, not when the data have been read.
                    check_names(chosen.keys() - {"model"}, "options", chosen["model"])
                return command(chosen=chosen, **values)
            except OtherModelError as error:
                if error.name not in chosen:
                    raise
                told = error.reason(_flag(error.name))
                if not ("model" in chosen or values["recipe"]):
                    told += f"; --model {error.models[0]} chooses it"
                raise click.UsageError(told) from error
            except ClashError as error:
                if chosen.keys().isdisjoint(error.names):
                    raise
                told = error.reason(lambda name: _flag(name) if name in chosen else name)
                raise click.UsageError(told) from error

        for spec in reversed(specs):
            wrapped = _option(spec)(wrapped)
        return model_option(wrapped)

    return decorate


def _flag(name):
    return "--" + name.replace("_", "-")


def _option(spec):
    meta, flag = spec.metadata, _flag(spec.name)
    symbol = [f"-{meta['symbol']}"] if meta["symbol"] else []
    text = meta["help"]
    if kind(spec) is bool:
        if spec.default is not None:
            text += f"  [default: {'' if spec.default else 'no-'}{flag.removeprefix('--')}]"
        return click.option(f"{flag}/--no-{flag[2:]}", spec.name, default=None, help=text)
    if meta["choices"]:
        type_ = click.Choice(meta["choices"])
    elif kind(spec) is int:
        type_ = click.IntRange(meta["minimum"], meta["maximum"])
    elif meta["minimum"] is not None:
        type_ = click.FloatRange(meta["minimum"], meta["maximum"])
    else:
        type_ = click.FloatRange(min=meta["above"], min_open=True, max=meta["maximum"])
    if spec.default is not None:
        text += f"  [default: {spec.default}]"
    return click.option(*symbol, flag, spec.name, type=type_, help=text)


def note(text, quiet):
    """Tell the user something on standard error, unless quiet."""
    if not quiet:
        with contextlib.suppress(OSError):  # a log on a full disk is no reason to fail
            click.echo(text, err=True)
