"""Options that several subcommands share, each a decorator, so that they read the same everywhere."""

import contextlib
import functools
from dataclasses import fields

import click

from xmlgp.settings import MLGPFSettings, kind

__all__ = ["cache_option", "note", "quiet_option", "recipe_option", "settings_options"]

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
    "L-LR, L-SE, L-SE+LR, L-SE-F or your own; options given beside it win.  [default: default]",
)


def settings_options(preprocess_only=False):
    """Add an option for every field of `Settings`; the command gets those given as `chosen`, a mapping.

    Parameters
    ----------
    preprocess_only : bool
        Only the settings that preprocessing depends on.
    """
    specs = [spec for spec in fields(MLGPFSettings) if spec.metadata["preprocess"] or not preprocess_only]

    def decorate(command):
        @functools.wraps(command)
        def wrapped(**values):
            chosen = {spec.name: values.pop(spec.name) for spec in specs}
            return command(chosen={name: value for name, value in chosen.items() if value is not None}, **values)

        for spec in reversed(specs):
            wrapped = _option(spec)(wrapped)
        return wrapped

    return decorate


def _option(spec):
    meta, flag = spec.metadata, "--" + spec.name.replace("_", "-")
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
        type_ = click.FloatRange(min=meta["above"], min_open=True)
    if spec.default is not None:
        text += f"  [default: {spec.default}]"
    return click.option(*symbol, flag, spec.name, type=type_, help=text)


def note(text, quiet):
    """Tell the user something on standard error, unless quiet."""
    if not quiet:
        with contextlib.suppress(OSError):  # a log on a full disk is no reason to fail
            click.echo(text, err=True)
