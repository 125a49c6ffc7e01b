"""Options of subcommands that read corpora of text."""

import functools
import re

import click

from xmlgp.text.analysis import ANALYZERS, LONGEST, Analysis
from xmlgp.text.corpus import FORMATS
from xmlgp.text.documents import CorpusOptions

__all__ = ["analysis_options", "corpus_arguments", "corpus_options"]


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


def corpus_options(command):
    """Add the options that say where a corpus has its texts, labels and identifiers.

    The command gets them as `corpus`, the `CorpusOptions`.
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
    def wrapped(*arguments, text, label_column, label_separator, id_column, corpus_format, **options):
        if label_separator == "":
            raise click.UsageError("--label-separator is empty.")
        # A model keeps them in a description that may hold nothing else.
        for name in filter(None, (*text, label_column, label_separator, id_column)):
            if not name.isprintable():
                raise click.UsageError(f"{name!r} has a character that cannot be printed.")
        corpus = CorpusOptions(text, label_column, label_separator, id_column, corpus_format)
        return command(*arguments, corpus=corpus, **options)

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


def corpus_arguments(corpus):
    """Return the arguments of a command with which `corpus_options` gives these options."""
    given = [part for name in corpus.text for part in ("--text-column", name)]
    options = "--label-column", "--label-separator", "--id-column", "--corpus-format"
    for option, value in zip(options, corpus[1:], strict=True):
        if value:
            given += [option, value]
    return given
