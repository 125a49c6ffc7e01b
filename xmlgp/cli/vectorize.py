"""`xmlgp vectorize`: turn a corpus of text into a data set."""

import os

import click

from xmlgp.cli.corpus_options import analysis_options, corpus_options
from xmlgp.cli.options import OutputPath, note, quiet_option
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.runtime.progress import terminal_progress
from xmlgp.text.data_folder import FEATURES, LABELS, TRAIN, VECTORIZER, check_folder, test_name, write_folder
from xmlgp.text.vectorize import vectorize as vectorize_corpus
from xmlgp.text.vectorizer import Vectorizer

__all__ = ["vectorize"]


@click.command(short_help="Turn a corpus of text into a data set.")
@click.argument("path", metavar="CORPUS", type=click.Path(allow_dash=True))
@click.argument("data", type=OutputPath(file_okay=False))
@click.option(
    "--test",
    "tests",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="A corpus of test documents; may be given several times.",
)
@corpus_options
@analysis_options
@quiet_option
def vectorize(path, data, tests, corpus, analysis, min_count, max_features, quiet):
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
    progress, paths = terminal_progress(quiet), [path, *tests]
    if paths.count("-") > 1:
        raise click.UsageError("Standard input can be read only once.")
    check_folder(data)
    _check_kept(data, paths)
    vectorizer, labels, files = Vectorizer(analysis, [], corpus.columns()), [], {}
    for place, path in enumerate(paths, -1):
        new = {"min_count": min_count, "max_features": max_features} if place < 0 else {}
        with open_input(path) as stream:
            reader = LineReader(stream, path)
            found = vectorize_corpus(reader, vectorizer, labels, corpus, extend=place < 0, progress=progress, **new)
        vectorizer, labels = found.vectorizer, found.labels
        files[TRAIN if place < 0 else test_name(place)] = found
    written = write_folder(data, files, progress)
    for vectorized, path in zip(files.values(), paths, strict=True):
        note(f"{path}: {vectorized.summary()}", quiet)
    for path in written:
        click.echo(path)


def _check_kept(data, paths):
    """Raise UsageError if a file of the data set would replace a corpus."""
    for name in (TRAIN, *map(test_name, range(len(paths) - 1)), FEATURES, LABELS, VECTORIZER):
        file = os.path.join(data, name)
        for path in paths:
            if path != "-" and os.path.exists(path) and os.path.exists(file) and os.path.samefile(path, file):
                raise click.UsageError(f"{path} would be replaced; choose another folder for the data set.")
