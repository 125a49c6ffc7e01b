"""The command line: one module for each subcommand, which parses, calls one library function and prints."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import io
import os
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any

import click

from xmlgp.runtime.errors import UsageError, XmlgpError, nearest
from xmlgp.runtime.interrupts import Interrupted, handle_signals, ignore_signals
from xmlgp.runtime.progress import end_bars
from xmlgp.runtime.untrusted_text import ForTerminal, visible
from xmlgp.version import __version__

__all__ = ["COMMANDS", "CONTEXT_SETTINGS", "Command", "main", "with_options"]

#: Subcommands in the order of a first session, each `xmlgp.cli.NAME:NAME`. They are imported when used, so that
#: `xmlgp --help` need not import SciPy.
COMMANDS = {
    "fetch": "Download a data set of the catalogue.",
    "split": "Divide data into training and test points.",
    "vectorize": "Turn a corpus of text into a data set.",
    "preprocess": "Prepare a data set for training.",
    "train": "Train a model.",
    "learn": "Go on with a trained model.",
    "predict": "Score points with a trained model.",
    "evaluate": "Compare a model or scores with the true labels, or with others.",
    "show": "Describe a model folder.",
    "report": "Write a page about a model.",
    "serve": "Suggest labels over HTTP.",
}

CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

#: An argument of a Python function, as messages name it.
ARGUMENT = re.compile(r"`(\w+)=(\w+|\*)`")


def with_options(text: str) -> str:
    """Return a message in a line, with the options of commands in the place of the arguments of functions."""

    def option(argument: re.Match[str]) -> str:
        name = argument[1].replace("_", "-")
        flag = f"-{name}" if len(name) == 1 else f"--{name}"
        return {"True": flag, "False": f"--no-{name}"}.get(argument[2], f"{flag} {argument[2]}")

    # A path, which the user may have from a stranger, can have any characters.
    return visible(ARGUMENT.sub(option, text))


class Command(click.Command):
    """A command that prints every error of a user as one sentence."""

    def invoke(self, context: click.Context) -> object:
        """Run the parsed command, and handle its signals and errors."""
        _prepare_streams()
        # Twice, because a second signal may arrive while the first is handled.
        with handle_signals(), _errors_shown(), _errors_shown():
            result = super().invoke(context)
            # At exit Python would print a full disk as an ignored exception.
            if sys.stdout is not None:  # closed
                sys.stdout.flush()
            return result


class _Commands(Command, click.Group):
    """The group of all subcommands. It imports a subcommand when it is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context | None, name: str) -> click.Command | None:
        if name in COMMANDS:
            return _command(name)
        if near := nearest(name, COMMANDS):
            raise click.UsageError(f"No such command {name!r}. Did you mean {near}?", context)
        return None

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _command(name: str) -> click.Command:
    """Return a subcommand, whose module is imported."""
    module = f"xmlgp.cli.{name}"
    if module not in sys.modules:
        # What is imported stays. To look for garbage in it would take a fifth of the time of a short command.
        gc.disable()
        importlib.import_module(module)
        gc.freeze()
        gc.enable()
    return getattr(sys.modules[module], name)  # type: ignore[no-any-return]


def _prepare_streams() -> None:
    """Make the standard streams take every character, and hide control characters from a terminal."""
    if sys.stderr is None:  # closed by the user
        sys.stderr = io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        # A locale without ℓ or Σ prints a question mark.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if sys.stdout is not None and sys.stdout.isatty():
        terminal = ForTerminal(io.FileIO(sys.stdout.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(terminal, sys.stdout.encoding, errors="replace", write_through=True)


@contextlib.contextmanager
def _errors_shown() -> Iterator[None]:
    """Turn errors of users and of their machines into Click's errors, which are printed as one sentence."""
    try:
        with _bars_ended():
            yield
    except BrokenPipeError as error:
        # The reader of a pipe (`| head`) closed it.
        _abandon_stdout()
        raise click.exceptions.Exit(128 + 13) from error
    except (OSError, MemoryError) as error:
        # Before those of users: a missing file is both, and the other sentence is for Python.
        _abandon_stdout()
        raise click.ClickException(visible(_describe(error))) from error
    except UsageError as error:
        raise click.UsageError(with_options(str(error)), _context_of_command()) from error
    except XmlgpError as error:
        raise click.ClickException(with_options(str(error))) from error
    except Interrupted as error:
        raise _ended(error) from error
    except KeyboardInterrupt as error:
        raise _ended(Interrupted(signal.SIGINT)) from error
    except click.ClickException as error:
        # A text of Click itself, in one line; the help, which a command without arguments shows, has many.
        if not isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.message = visible(error.message)  # type: ignore[misc]  # Click calls it final
        raise


def _describe(error: OSError | MemoryError) -> str:
    """Return what the system says, and of which file."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error}".removesuffix(": ")
    if error.errno == errno.ENOSPC:
        return f"no space left on the disk of {error.filename or 'the output'}"
    reason = str(error.strerror or error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _context_of_command() -> click.Context | None:
    """Return the context of the subcommand that was called, which has ended, so that its usage is shown."""
    context = click.get_current_context(silent=True)
    if context and context.invoked_subcommand:
        return click.Context(_command(context.invoked_subcommand), context, context.invoked_subcommand)
    return context


def _ended(error: Interrupted) -> click.exceptions.Exit:
    """Say that a signal has interrupted the command; return what ends it."""
    ignore_signals()
    _abandon_stdout()
    with contextlib.suppress(OSError):  # the terminal may be gone
        end_bars()
        click.echo(f"Note: interrupted; {error.advice}" if error.advice else "Note: interrupted", err=True)
    return click.exceptions.Exit(error.status)


@contextlib.contextmanager
def _bars_ended() -> Iterator[None]:
    """Remove the bars that an error left, so that its message begins a line."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            end_bars()
        raise


def _abandon_stdout() -> None:
    """Discard the rest of standard output, which Python would otherwise flush at exit and fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings=CONTEXT_SETTINGS)
@click.version_option(__version__, "-V", "--version", prog_name="xmlgp")
def main() -> None:
    """Scalable Bayesian models for extreme multi-label data.

    \b
    A first session with text:
      xmlgp fetch tickets
      xmlgp train data/tickets models/tickets
      echo "My screen is dark" | xmlgp predict models/tickets - -k 3
      xmlgp report models/tickets data/tickets -o report.html

    A CSV file of your own, with the columns text and labels, takes the place of data/tickets. For rows of numbers,
    begin with `xmlgp fetch bibtex`. `xmlgp COMMAND --help` describes a command.
    """
