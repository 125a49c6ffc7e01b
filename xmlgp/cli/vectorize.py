"""`xmlgp vectorize`: turn a corpus of text into a data set."""

import re

import click

from xmlgp.cli.options import INPUT, OutputPath, check_standard_input, corpus_options, quiet_option
from xmlgp.text.analysis import ANALYZERS, LONGEST, Analysis
from xmlgp.text.data_folder import vectorize_files

__all__ = ["vectorize"]


def _lengths(context, option, value):
    """Return the shortest and the longest length of n-grams, of `N` or `SHORTEST-LONGEST`."""
    found = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", value)
    lengths = found and (int(found[1]), int(found[2] or found[1]))
    if not lengths or not 1 <= lengths[0] <= lengths[1] <= LONGEST:
        raise click.BadParameter(f"{value!r} is neither a length from 1 to {LONGEST} nor two, such as 1-2.")
    return lengths


@click.command()
@click.argument("path", metavar="CORPUS", type=INPUT)
@click.argument("data", type=OutputPath(file_okay=False))
@click.option(
    "--test", "tests", multiple=True, type=INPUT, help="A corpus of test documents; may be given several times."
)
@corpus_options
@click.option(
    "--analyzer",
    type=click.Choice(ANALYZERS),
    default="word",
    show_default=True,
    help="Features are words of at least two letters or digits, characters, or characters within words (char-wb).",
)
@click.option(
    "--ngrams",
    callback=_lengths,
    default="1",
    show_default=True,
    metavar="N|N-N",
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
    "--max-features", type=click.IntRange(1), help="Keep at most so many features, the most frequent.  [default: all]"
)
@quiet_option
def vectorize(path, data, tests, corpus, analyzer, ngrams, **options):
    """Count the words of the documents in CORPUS, and write a data set to the folder DATA.

    The format of CORPUS is told by its first line and its ending (also .gz, or - for standard input):

    \b
      text<TAB>label label ...         a document a line, as for Annif; <label> too
      __label__a __label__b text       as for fastText
      3,17<TAB>text                    numbers of labels, as for PECOS
      {"text": ..., "labels": [...]}   JSON Lines
      .csv, or a header with `text`    a table, separated by commas or tabs

    DATA gets train.txt, and test.txt of the test documents (then test-2.txt, ...), in the format of the Extreme
    Classification Repository; features.txt and labels.txt, the names of features and labels; and vectorizer.json,
    with which `xmlgp train` and `xmlgp predict` read text. The features and labels are those of CORPUS; test documents
    keep no others. Prints the paths of the files.

    \b
    Examples:
      xmlgp vectorize articles.jsonl data/articles --test new.jsonl
      xmlgp vectorize products.csv data/products --text-column title --label-column tags --min-count 2
    """
    check_standard_input(path, *tests)
    for file in vectorize_files(path, tests, data, Analysis(analyzer, *ngrams), corpus, **options):
        click.echo(file)
