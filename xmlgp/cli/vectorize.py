"""`xmlgp vectorize`: turn a corpus of text into a data set."""

from __future__ import annotations

import click

from xmlgp.api.vectorize import vectorize as vectorize_files
from xmlgp.cli.options import INPUT, NonEmptyPath, analysis_options, check_standard_input, corpus_options, quiet_option
from xmlgp.runtime.progress import Reporter
from xmlgp.text.documents import CorpusOptions
from xmlgp.text.word_counts import Analysis

__all__ = ["vectorize"]


@click.command()
@click.argument("path", metavar="CORPUS", type=INPUT)
@click.argument("data", type=NonEmptyPath(file_okay=False))
@click.option(
    "--test", "tests", multiple=True, type=INPUT, help="A corpus of test documents; may be given several times."
)
@corpus_options
@analysis_options
@quiet_option
def vectorize(
    path: str, data: str, tests: tuple[str, ...], corpus: CorpusOptions, analysis: Analysis, reporter: Reporter
) -> None:
    """Count the words of the documents in CORPUS, and write a data set to the folder DATA.

    CORPUS is a table with the columns text and labels, JSON Lines, or another format of those below. `xmlgp
    train` reads all of them itself; this command is for those who want the rows of numbers. Prints the paths of the
    files.

    \b
    Examples:
      xmlgp vectorize articles.jsonl data/articles --test new.jsonl
      xmlgp vectorize news.csv data/news --text-column title --label-column tags

    The format of CORPUS (perhaps compressed, or - for standard input) is recognised by its first line and the ending of
    its name:

    \b
      text<TAB>label label ...         a document a line, as for Annif; <label> too
      __label__a __label__b text       as for fastText
      {"text": ..., "labels": [...]}   JSON Lines
      .csv, or a header with `text`    a table, separated by commas or tabs
      .xlsx, .parquet                  a table in an Excel workbook or a Parquet file
      a folder of NAME.txt             labels in NAME.tsv (<URI><TAB>label) or NAME.key (label), a line each

    DATA gets train.txt, and test.txt of the test documents (then test-2.txt, ...), in the format of the Extreme
    Classification Repository; features.txt and labels.txt, the names of features and labels; and vectorizer.json,
    with which `xmlgp train` and `xmlgp predict` read text. The features and labels are those of CORPUS; test documents
    keep no others.
    """
    check_standard_input(path, *tests)
    for file in vectorize_files(path, data, tests, corpus=corpus, analysis=analysis, reporter=reporter):
        click.echo(file)
