"""Options that several subcommands share, as decorators, so that each has the same name and help everywhere."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click

from xmlgp.api.source import Source
from xmlgp.api.train import CHECKPOINT_SECONDS
from xmlgp.cli import with_options
from xmlgp.cluster.connection import open_executor
from xmlgp.runtime.executor import Executor
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, Reporter, between_bars, ignore
from xmlgp.runtime.threads import limit_threads
from xmlgp.text.corpus import FORMATS
from xmlgp.text.documents import CorpusOptions
from xmlgp.text.word_counts import ANALYZERS, LONGEST, Analysis

if TYPE_CHECKING:
    from xmlgp.cluster.cluster import DaskCluster

__all__ = [
    "ALL",
    "INPUT",
    "Cluster",
    "Decorator",
    "Function",
    "NonEmptyPath",
    "OptionValue",
    "add_options",
    "analysis_options",
    "check_finite",
    "check_standard_input",
    "checkpoint_option",
    "cluster_options",
    "corpus_options",
    "dense_option",
    "label_count",
    "overwrite_option",
    "quiet_option",
    "rare_option",
    "reading_options",
    "source_of",
    "show_note",
    "threads_option",
    "vocabulary_options",
    "executor_of",
]

#: The value of an option, whose type Click has checked.
OptionValue: TypeAlias = Any

#: The function of a command, and a decorator that adds options to it.
Function: TypeAlias = Callable[..., object]
Decorator: TypeAlias = Callable[[Function], Function]

#: The values of the `cluster_options` by name, which are arguments of `open_executor`.
Cluster: TypeAlias = dict[str, OptionValue]

#: The most minutes between checkpoints, a year: more is a typing error.
MOST_MINUTES = 525_600

#: The most threads, more than any machine has cores: a larger number is a typing error.
MOST_THREADS = 4096

#: The key in the facts of a context that says that its help shows all options.
ALL = "xmlgp.all_options"


class RareOption(click.Option):
    """An option that `--help` leaves out, and `--help-all` shows."""

    def get_help_record(self, context: click.Context) -> tuple[str, str] | None:
        """Return the names and the help of the option, if all are asked for."""
        return super().get_help_record(context) if context.meta.get(ALL) else None


#: Adds an option that only `--help-all` shows.
rare_option = functools.partial(click.option, cls=RareOption)


def _show_all(context: click.Context, option: click.Parameter, is_asked: bool) -> None:
    """Show the whole help, and end the command."""
    if is_asked:
        context.meta[ALL] = True
        # Click leaves out what follows a form feed.
        command = copy.copy(context.command)
        command.help = (command.help or "").replace("\f", "")
        click.echo(command.get_help(context))
        context.exit()


class NonEmptyPath(click.Path):
    """The type of a path that must not be empty.

    A shell passes an empty text for a variable that is not set, and `Path("")` would be the current folder.
    """

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, context: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path as `click.Path` does."""
        if not os.fspath(value):
            self.fail("the path is empty.", param, context)
        return super().convert(value, param, context)


#: The type of a path that is read, or of standard input.
INPUT = NonEmptyPath(allow_dash=True)


def check_finite(context: click.Context, option: click.Parameter, number: float | None) -> float | None:
    """Return the number of an option if it is finite; a callback for `click.FloatRange`, which accepts inf and NaN."""
    if number is not None and not math.isfinite(number):
        raise click.BadParameter(f"{number} is not a finite number.")
    return number


def label_count(context: click.Context, option: click.Parameter, value: str | None) -> int | str | None:
    """Return the positive integer, or "all", that an option has."""
    if value is None or value == "all":
        return value
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a positive integer nor all.")
    return int(value)


def check_standard_input(*paths: str | None) -> None:
    """Raise UsageError if more than one of the paths is `-`, standard input."""
    if paths.count("-") > 1:
        raise click.UsageError("Only one of the files can be standard input.")


def add_options(command: Function, options: Sequence[Decorator]) -> Function:
    """Return a command with more options, which its help lists in the order of `options`."""
    # The decorator that is applied last adds the option that comes first.
    return functools.reduce(lambda decorated, decorate: decorate(decorated), reversed(options), command)


def quiet_option(command: Function) -> Function:
    """Add `--quiet`; the command gets a `reporter`, which reports on standard error, or nothing."""

    @click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes.")
    @functools.wraps(command)
    def wrapped(quiet: bool, **options: OptionValue) -> object:
        note = ignore if quiet else show_note
        return command(reporter=Reporter(Progress(is_shown=not quiet), note), **options)

    return wrapped


def show_note(text: str) -> None:
    """Print a note or a warning on standard error, in which the names of arguments become those of options."""
    # If standard error is a log on a full disk, the note is lost, but the command goes on.
    with contextlib.suppress(OSError), between_bars():
        click.echo(with_options(text if text.startswith("Warning: ") else f"Note: {text}"), err=True)


def _seconds(context: click.Context, option: click.Parameter, minutes: float) -> float:
    """Convert the minutes of an option to seconds, as a callback."""
    check_finite(context, option, minutes)
    return 60 * minutes


checkpoint_option = rare_option(
    "--checkpoint-every",
    "checkpoint_seconds",
    type=click.FloatRange(0, MOST_MINUTES),
    callback=_seconds,
    default=CHECKPOINT_SECONDS / 60,
    show_default=True,
    metavar="MINUTES",
    help="Time between checkpoints within an epoch; there is also one at the end of each epoch, unless writing it "
    "takes more than a twentieth of the time. 0 for no checkpoints.",
)

overwrite_option = click.option("--overwrite", is_flag=True, help="Replace a model of other data or settings in MODEL.")


def threads_option(command: Function) -> Function:
    """Add `--threads`, which limits the threads of the whole command."""

    @click.option(
        "--threads",
        type=click.IntRange(1, MOST_THREADS),
        metavar="N",
        help="Compute with N threads.  [default: one for each core]",
    )
    @functools.wraps(command)
    def wrapped(threads: int | None, **options: OptionValue) -> object:
        with limit_threads(threads):
            return command(**options)

    return wrapped


#: The options that `cluster_options` adds.
CLUSTER = [
    rare_option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the Dask cluster with the scheduler at this address, such as tcp://HOST:8786.",
    ),
    rare_option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Run on N processes of this machine, as on a Dask cluster.",
    ),
]


def cluster_options(command: Function) -> Function:
    """Add `--scheduler` and `--workers`; the command gets both as `cluster`, for `executor_of`."""

    @functools.wraps(command)
    def wrapped(scheduler: str | None, workers: int | None, **options: OptionValue) -> object:
        if scheduler is not None and workers is not None:
            raise click.UsageError("--scheduler and --workers exclude each other.")
        return command(cluster={"scheduler": scheduler, "workers": workers}, **options)

    return add_options(wrapped, CLUSTER)


@contextlib.contextmanager
def executor_of(cluster: Cluster, reporter: Reporter) -> Iterator[Executor]:
    """Yield the `DaskCluster` that the options of `cluster` ask for, or this machine; note its dashboard."""
    # Errors of the cluster are shown as one sentence, so its own log would only repeat them with tracebacks.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with open_executor(**cluster) as executor:
        if executor.is_cluster:
            dask = cast("DaskCluster", executor)
            dashboard = f"; dashboard {dask.dashboard}" if dask.dashboard else ""
            reporter.note(f"{counted(dask.workers, 'worker')} of a Dask cluster{dashboard}")
        yield executor


#: The options of a corpus. Their parameters have the names of the fields of `CorpusOptions`.
CORPUS = [
    click.option(
        "--text-column",
        "text",
        multiple=True,
        metavar="NAME",
        help="The column or JSON field with the text; several are joined.  [default: text]",
    ),
    click.option(
        "--label-column",
        "labels",
        multiple=True,
        metavar="NAME",
        help="The column or JSON field with the labels, or several.  [default: labels]",
    ),
    rare_option(
        "--label-separator",
        "separator",
        metavar="TEXT",
        help="What separates labels within their column.  [default: ; in tables, none in JSON]",
    ),
    rare_option(
        "--id-column",
        "id",
        metavar="NAME",
        help="The column or JSON field with the identifier.  [default: id, if there is one]",
    ),
    rare_option(
        "--corpus-format",
        "format",
        type=click.Choice(list(FORMATS)),
        help="The format of the corpus.  [default: recognised by the first line and the ending of the name]",
    ),
    rare_option("--encoding", metavar="NAME", help="The encoding of text, such as latin-1.  [default: utf-8]"),
    click.option(
        "--help-all",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show the whole help and exit.",
    ),
]


def corpus_options(command: Function) -> Function:
    """Add the options that say where a corpus has its texts, labels and identifiers, and `--help-all`.

    The command gets them as `corpus`, a `CorpusOptions`.
    """

    @functools.wraps(command)
    def wrapped(**options: OptionValue) -> object:
        corpus = CorpusOptions(**{name: options.pop(name, None) for name in CorpusOptions._fields})
        if corpus.separator == "":
            raise click.UsageError("--label-separator is empty.")
        # A model stores these texts in its description, which must be printable.
        for text in filter(None, (*corpus.text, *corpus.labels, corpus.separator, corpus.id)):
            if not text.isprintable():
                raise click.UsageError(f"{text!r} has a character that cannot be printed.")
        return command(corpus=corpus, **options)

    return add_options(wrapped, CORPUS)


#: The options that `analysis_options` adds.
ANALYSIS = [
    rare_option(
        "--analyzer",
        type=click.Choice(ANALYZERS),
        default="word",
        show_default=True,
        help="Features of text are words of at least two letters or digits, characters, or characters within words "
        "(char-wb).",
    ),
    rare_option(
        "--ngrams",
        default="1",
        show_default=True,
        metavar="N|N-N",
        help="How many consecutive words or characters a feature has: a number, or from one to another, such as 1-2.",
    ),
    rare_option(
        "--min-count",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Leave out features that occur less often.",
    ),
    rare_option(
        "--max-features",
        type=click.IntRange(1),
        help="Keep only the most frequent features, at most so many.  [default: all]",
    ),
]


def analysis_options(command: Function) -> Function:
    """Add the options that say which words of text are features; the command gets them as `analysis`, an `Analysis`."""

    @functools.wraps(command)
    def wrapped(analyzer: str, ngrams: str, min_count: int, max_features: int | None, **options: OptionValue) -> object:
        match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", ngrams)
        shortest, longest = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= shortest <= longest <= LONGEST:
            reason = f"{ngrams!r} is neither a length from 1 to {LONGEST} nor two, such as 1-2."
            raise click.BadParameter(reason, param_hint="'--ngrams'")
        return command(analysis=Analysis(analyzer, shortest, longest, min_count, max_features), **options)

    return add_options(wrapped, ANALYSIS)


#: The options that `vocabulary_options` adds.
VOCABULARY = [
    rare_option(
        "--vocabulary",
        type=INPUT,
        metavar="FILE",
        help="Name labels by their preferred labels in FILE: lines <URI><TAB>label, or SKOS (.ttl, .rdf, .nt; pip "
        "install 'xmlgp[text]').",
    ),
    rare_option(
        "--vocabulary-language",
        metavar="LANGUAGE",
        help="The language of preferred labels.  [default: en if there is one, otherwise that of most labels]",
    ),
]


def vocabulary_options(command: Function) -> Function:
    """Add `--vocabulary` and `--vocabulary-language`."""
    return add_options(command, VOCABULARY)


dense_option = rare_option(
    "--dense",
    type=NonEmptyPath(),
    metavar="FILE",
    help="Dense features beside those of DATA, such as embeddings: a .npy file with a row for each point. They are "
    "used by the regression on the nearest training points.",
)


def source_of(data: str | None, options: dict[str, OptionValue]) -> Source:
    """Return the points in a file, read as the options of a command say; these are removed from `options`."""
    names = [field.name for field in dataclasses.fields(Source) if field.name in options]
    return Source(data, **{name: options.pop(name) for name in names})


def reading_options(command: Function) -> Function:
    """Add the options of every command that reads points: those of a corpus, and `--quiet`."""
    return corpus_options(quiet_option(command))
