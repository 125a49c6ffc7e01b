"""Options of subcommands that read corpora of text."""

import functools
import re

import click

from xmlgp.errors import SettingsError
from xmlgp.text.analysis import ANALYZERS, LONGEST, Analysis
from xmlgp.text.corpus import FORMATS, has_corpus_ending, is_corpus
from xmlgp.text.documents import Columns

__all__ = ["ChosenColumns", "analysis_options", "corpus_arguments", "corpus_options", "is_text"]


class _Lengths(click.ParamType):
    """The lengths of n-grams, `N` or `SHORTEST-LONGEST`."""

    name = "n|n-n"

    def convert(self, value, param, context):
        """Return the shortest and the longest length."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", value)
        lengths = found and (int(found[1]), int(found[2] or found[1]))
        if not lengths or not 1 <= lengths[0] <= lengths[1] <= LONGEST:
            self.fail(f"{value!r} is neither a length from 1 to {LONGEST} nor two, such as 1-2.", param, context)
        return lengths


class ChosenColumns(dict):
    """The columns that a user chose, by the names of `Columns`; empty if none is chosen."""

    def over(self, usual=None):
        """Return the `Columns` with these in place of the usual ones, or None if none is chosen."""
        return (usual or Columns())._replace(**self, id_needed="id" in self) if self else None


def corpus_options(command):
    """Add the options that say where a corpus has its texts, labels and identifiers.

    The command gets them as `columns`, the `ChosenColumns`, and `corpus_format`.
    """

    @click.option(
        "--text-column",
        "text",
        multiple=True,
        metavar="NAME",
        help="The column or JSON field with the text. It may be given several times: the texts are joined.  [default: "
        "text, or that of MODEL]",
    )
    @click.option(
        "--label-column", metavar="NAME", help="The one with the labels.  [default: labels, or that of MODEL]"
    )
    @click.option(
        "--label-separator",
        metavar="TEXT",
        help="What separates labels within their column.  [default: ; in tables; in JSON, text is one label]",
    )
    @click.option(
        "--id-column",
        metavar="NAME",
        help="The one with the identifier.  [default: that of MODEL or id, if there is one]",
    )
    @click.option(
        "--corpus-format",
        type=click.Choice(list(FORMATS)),
        help="The format of text.  [default: told by the first line and the ending of the name]",
    )
    @functools.wraps(command)
    def wrapped(*arguments, text, label_column, label_separator, id_column, **options):
        if label_separator == "":
            raise click.UsageError("--label-separator is empty.")
        # A model keeps them in a description that may hold nothing else.
        for name in filter(None, (*text, label_column, label_separator, id_column)):
            if not name.isprintable():
                raise click.UsageError(f"{name!r} has a character that cannot be printed.")
        given = {"text": text, "labels": label_column, "separator": label_separator, "id": id_column}
        columns = ChosenColumns({name: value for name, value in given.items() if value})
        return command(*arguments, columns=columns, **options)

    return wrapped


def analysis_options(command):
    """Add the options that say what the features of a text are.

    The command gets them as `analysis`, an `Analysis`, `min_count` and `max_features`.
    """

    @click.option(
        "--analyzer",
        type=click.Choice(ANALYZERS),
        default="word",
        show_default=True,
        help="Features are words of at least two letters or digits, characters, or characters within words (char-wb).",
    )
    @click.option(
        "--ngrams",
        type=_Lengths(),
        default="1",
        show_default=True,
        help="How many consecutive words or characters a feature has: a number, or from one to another, such as 1-2.",
    )
    @click.option(
        "--min-count",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Leave out features that occur less often in the corpus.",
    )
    @click.option(
        "--max-features",
        type=click.IntRange(1),
        help="Keep at most so many features, the most frequent.  [default: all]",
    )
    @functools.wraps(command)
    def wrapped(*arguments, analyzer, ngrams, **options):
        return command(*arguments, analysis=Analysis(analyzer, *ngrams), **options)

    return wrapped


def corpus_arguments(columns, corpus_format):
    """Return the arguments of a command with which `corpus_options` gives these values."""
    given = [part for name in columns.get("text", ()) for part in ("--text-column", name)]
    for name, option in ("labels", "--label-column"), ("separator", "--label-separator"), ("id", "--id-column"):
        if name in columns:
            given += [option, columns[name]]
    return given + (["--corpus-format", corpus_format] if corpus_format else [])


def is_text(reader, given, folder, data):
    """Return whether a file is text, for a model that was trained already.

    Parameters
    ----------
    reader : LineReader
        At the first line.
    given : object
        True if options about text are given.
    folder : ModelFolder
    data : str
        What the user calls the file.

    Raises
    ------
    SettingsError
        If the file is text, but the model has not been trained on text.
    """
    first = reader.peek_line()
    named = bool(given) or has_corpus_ending(reader.path)
    if not named and not (first and is_corpus(reader.path, first)):
        return False
    if "vectorizer" in folder.description:
        return True
    if named:
        raise SettingsError(f"{data} is text, but {folder.path} was not trained on text")
    # As rows it gets an error that says what is wrong with its first line.
    return False
