"""Options that several subcommands share, each a decorator, so that they read the same everywhere."""

import contextlib
import math
import os
import shlex

import click

from xmlgp.runtime.progress import ignore, terminal_progress

__all__ = [
    "OutputPath",
    "advise",
    "cache_option",
    "check_finite",
    "given_options",
    "learn_command",
    "note",
    "quiet_option",
    "reporting",
    "check_standard_input",
    "show_command",
    "train_command",
]

quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes on standard error.")

cache_option = click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Keep a parsed binary copy of text files in the user's cache folder and use it while the text is unchanged.",
)


class OutputPath(click.Path):
    """The path of a file or folder to write; not empty, because `Path("")` is the current folder.

    A shell gives an empty path for a variable that is not set.
    """

    def convert(self, value, param, context):
        """Return the path as `click.Path` does."""
        if not os.fspath(value):
            self.fail("the path is empty.", param, context)
        return super().convert(value, param, context)


def check_finite(context, option, number):
    """Return the number of an option, the callback of a `click.FloatRange`, which accepts infinity and NaN."""
    if number is not None and not math.isfinite(number):
        raise click.BadParameter(f"{number} is not a finite number.")
    return number


def given_options(context, options):
    """Return the options that are given on the command line, of a mapping of parameters to the names of options."""
    given = click.core.ParameterSource.COMMANDLINE
    return [option for name, option in options.items() if context.get_parameter_source(name) == given]


def note(text, quiet):
    """Print a note on standard error, unless quiet."""
    if not quiet:
        with contextlib.suppress(OSError):  # a log on a full disk is no reason to fail
            click.echo(text, err=True)


def reporting(quiet):
    """Return the options `progress` and `note` of the façade, which report on standard error."""
    return {"progress": terminal_progress(quiet), "note": ignore if quiet else lambda text: note(text, False)}


def check_standard_input(*paths):
    """Raise wrong usage if more than one of some paths is standard input."""
    if paths.count("-") > 1:
        raise click.UsageError("Only one of the files can be standard input.")


def advise(error, command, data):
    """Add to the advice of `Interrupted` the command that resumes the run, if there is something to resume."""
    if error.advice:
        error.advice += f"; resume with `{command}`" + " and the same input" * (data == "-")


def train_command(data, model, *options):
    """Return the command that trains on `data` into `model`, quoted for a shell."""
    return shlex.join(["xmlgp", "train", _argument(data), _argument(model), *options])


def learn_command(model, data, *options):
    """Return the command with which `model` learns from `data`, quoted for a shell."""
    paths = [model] if data is None else [model, data]
    return shlex.join(["xmlgp", "learn", *map(_argument, paths), *options])


def show_command(model):
    """Return the command that describes the folder `model`, quoted for a shell."""
    return shlex.join(["xmlgp", "show", _argument(model)])


def _argument(path):
    # A name that starts with a dash would be read as an option.
    return f"./{path}" if path.startswith("-") and path != "-" else path
