"""The command line: one module for each subcommand, which parses, calls one library function and prints."""

import contextlib
import errno
import io
import os
import re
import signal
import sys

import click

from xmlgp.errors import DataFormatError, UsageError, XmlgpError, memory_errors_reported, nearest
from xmlgp.runtime.interrupts import Interrupted, defer_signals, handle_signals, ignore_signals
from xmlgp.runtime.memory import check_address_space
from xmlgp.runtime.progress import end_bars
from xmlgp.runtime.threads import prefer_avx512
from xmlgp.runtime.untrusted_text import ForTerminal, visible
from xmlgp.version import __version__

__all__ = ["CONTEXT_SETTINGS", "Command", "main", "with_options"]

#: Subcommands in the order of a first session, each `xmlgp.cli.NAME:NAME`. They are imported when used, so that
#: `xmlgp --help` need not import SciPy.
COMMANDS = {
    "fetch": "Download a data set of the catalogue.",
    "vectorize": "Turn a corpus of text into a data set.",
    "preprocess": "Prepare a data set for training.",
    "train": "Train a model.",
    "learn": "Go on with a trained model.",
    "predict": "Score points with a trained model.",
    "evaluate": "Compare scores with the true labels.",
    "tune": "Choose how many labels to assign.",
    "settings": "List the settings of models.",
    "show": "Describe a model folder.",
    "topics": "List the labels of each topic.",
    "plot": "Plot training and calibration.",
    "report": "Write a page about a model.",
    "serve": "Suggest labels over HTTP.",
}


CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

#: An argument of a Python function, as messages name it.
ARGUMENT = re.compile(r"`(\w+)=(\w+)`")


def with_options(text):
    """Return a message in a line, with the options of commands in the place of the arguments of functions."""

    def option(found):
        name = found[1].replace("_", "-")
        value = found[2]
        own = f"-{name}" if len(name) == 1 else f"--{name}"
        return {"True": own, "False": f"--no-{name}"}.get(value, f"{own} {value}")

    # A path, which the user may have from a stranger, can have any characters.
    return visible(ARGUMENT.sub(option, text))


class Command(click.Command):
    """A command that prints every error of a user as one sentence."""

    def main(self, *arguments, **options):
        """Run the command with streams that take every character."""
        if sys.stderr is None:  # closed by the user
            sys.stderr = io.StringIO()
        for stream in (sys.stdout, sys.stderr):
            # A locale without ℓ or Σ prints a question mark.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        if sys.stdout is not None and sys.stdout.isatty() and hasattr(sys.stdout, "buffer"):
            encoding = sys.stdout.encoding
            sys.stdout = io.TextIOWrapper(ForTerminal(sys.stdout), encoding, errors="replace", write_through=True)
        return super().main(*arguments, **options)

    def make_context(self, *arguments, **options):
        """Parse the arguments, or print the help."""
        with _errors_shown():
            return super().make_context(*arguments, **options)

    def invoke(self, context):
        """Run the parsed command, and handle its signals and errors."""
        # Twice, because a second signal may arrive while the first is handled.
        with handle_signals(), _errors_shown(), _errors_shown():
            result = super().invoke(context)
            # At exit Python would print a full disk as an ignored exception.
            if sys.stdout is not None:  # closed
                sys.stdout.flush()
            return result


class _Commands(Command, click.Group):
    """The group of all subcommands. It imports a subcommand when it is called."""

    def list_commands(self, context):
        return list(COMMANDS)

    def get_command(self, context, name):
        if name not in COMMANDS:
            return None
        # Before the first import of NumPy.
        prefer_avx512()
        if "numpy" not in sys.modules:
            check_address_space("the libraries of xmlgp", os.cpu_count() or 1)
        # A signal within an import could be lost: Python raises it where no code can catch it.
        with defer_signals():
            module = __import__(f"xmlgp.cli.{name}", fromlist=[name])
        return getattr(module, name)

    def resolve_command(self, context, arguments):
        name = arguments[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"No such command {name!r}." + _did_you_mean(nearest(name, COMMANDS)), context)
        return super().resolve_command(context, arguments)

    def format_commands(self, context, formatter):
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@contextlib.contextmanager
def _errors_shown():
    """Turn errors of users and of their machines into click's errors, which are printed as one sentence."""
    try:
        with _bars_ended(), memory_errors_reported():
            yield
    except BrokenPipeError as error:
        # The reader of a pipe (`| head`) closed it.
        _abandon_stdout()
        raise click.exceptions.Exit(128 + 13) from error
    except OSError as error:
        # Before those of users: a missing file is both, and the other sentence is for Python.
        _abandon_stdout()
        text = f"{error.filename}: " * bool(error.filename) + str(error.strerror or error)
        if error.errno == errno.ENOSPC:
            text = f"no space left on the disk of {error.filename or 'the output'}"
        raise click.ClickException(visible(text)) from error
    except DataFormatError as error:
        raise _AtLine(with_options(str(error))) from error
    except UsageError as error:
        context = click.get_current_context(silent=True)
        if context and context.invoked_subcommand:
            # The command that was called has ended; its usage is shown.
            name = context.invoked_subcommand
            context = click.Context(context.command.get_command(context, name), context, name)
        raise click.UsageError(with_options(str(error)), context) from error
    except click.NoSuchOption as error:
        raise click.UsageError(_unknown_option(error), error.ctx) from error
    except XmlgpError as error:
        raise click.ClickException(with_options(str(error))) from error
    except (Interrupted, KeyboardInterrupt) as error:
        ignore_signals()
        if not isinstance(error, Interrupted):
            error = Interrupted(signal.SIGINT)
        _abandon_stdout()
        with contextlib.suppress(OSError):  # the terminal may be gone
            end_bars(echoed=True)
            click.echo("interrupted" + (f"; {error.advice}" if error.advice else ""), err=True)
        raise click.exceptions.Exit(error.status) from error
    except click.ClickException as error:
        # A text of click itself.
        error.message = visible(error.message)
        raise


@contextlib.contextmanager
def _bars_ended():
    """Remove the bars that an error left, so that its message begins a line."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            end_bars()
        raise


def _unknown_option(error):
    """Return what is wrong with an option that its command does not have, and what was probably meant."""
    name = error.option_name
    setting = error.option_name.lstrip("-").replace("-", "_")
    own = _options(error.ctx.command)
    near = _nearest_option(name, own)
    if near:
        return f"No such option {name!r}." + _did_you_mean(near)
    if "--set" in own:
        from xmlgp.models import MODELS, fields_of  # noqa: PLC0415, which imports NumPy

        if any(setting in fields_of(model) for model in MODELS):
            return f"{setting} is a setting without an option of its own; use --set {setting}=VALUE."
    commands = {command: main.get_command(None, command) for command in COMMANDS}
    commands |= {f"plot {command}": found for command, found in commands["plot"].commands.items()}
    elsewhere = {}
    for command, found in commands.items():
        for option in _options(found):
            elsewhere.setdefault(option, []).append(f"`xmlgp {command}`")
    if name in elsewhere:
        return f"{name} is an option of {', '.join(elsewhere[name])}."
    near = _nearest_option(name, elsewhere)
    return f"No such option {name!r}." + _did_you_mean(near and f"{near} of {', '.join(elsewhere[near])}")


def _nearest_option(name, options):
    near = nearest(name.lstrip("-"), [option.lstrip("-") for option in options if option.startswith("--")])
    return near and f"--{near}"


def _options(command):
    """Return the names of the options of a command."""
    params = [param for param in command.params if isinstance(param, click.Option)]
    return [name for param in params for name in (*param.opts, *param.secondary_opts)]


def _did_you_mean(name):
    return f" Did you mean {name}?" if name else ""


class _AtLine(click.ClickException):
    """An error in a file, printed as FILE:LINE: REASON without a prefix, as editors expect it."""

    def show(self, file=None):
        click.echo(self.message, err=True)


def _abandon_stdout():
    """Discard the rest of standard output, which Python would otherwise flush at exit and fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings=CONTEXT_SETTINGS)
@click.version_option(__version__, "-V", "--version", prog_name="xmlgp")
def main():
    """Scalable Bayesian models for extreme multi-label data.

    \b
    A first session:
      xmlgp fetch bibtex
      xmlgp train data/bibtex models/bibtex
      xmlgp predict models/bibtex data/bibtex/test.txt -k 5 -o bibtex.scores
      xmlgp evaluate bibtex.scores data/bibtex/test.txt --train data/bibtex/train.txt
    """
