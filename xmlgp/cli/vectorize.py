"""`xmlgp vectorize`: turn a corpus of text into a data set."""

import os

import click

from xmlgp.cli.corpus_options import analysis_options, corpus_options
from xmlgp.cli.options import OutputPath, note, quiet_option
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.runtime.progress import terminal_progress
from xmlgp.text.data_folder import FEATURES, LABELS, TRAIN, VECTORIZER, check_folder, test_name, write_folder
from xmlgp.text.vectorize import vectorize_known, vectorize_new

__all__ = ["vectorize"]


@click.command(short_help="Turn a corpus of text into a data set.")
@click.argument("corpus", type=click.Path(allow_dash=True))
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
def vectorize(corpus, data, tests, columns, corpus_format, analysis, min_count, max_features, quiet):
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
    progress, columns = terminal_progress(quiet), columns.over()
    if [corpus, *tests].count("-") > 1:
        raise click.UsageError("Standard input can be read only once.")
    check_folder(data)
    _check_kept(data, corpus, tests)

    def read(path, function, *arguments, **options):
        with open_input(path) as stream:
            reader = LineReader(stream, path)
            return function(reader, *arguments, columns, corpus_format, progress=progress, **options)

    trained = read(corpus, vectorize_new, analysis, min_count=min_count, max_features=max_features)
    files = {TRAIN: trained}
    for place, path in enumerate(tests):
        files[test_name(place)] = read(path, vectorize_known, trained.vectorizer, trained.labels)
    written = write_folder(data, files, progress)
    for vectorized, path in zip(files.values(), [corpus, *tests], strict=True):
        note(f"{path}: {vectorized.summary()}", quiet)
    for path in written:
        click.echo(path)


def _check_kept(data, corpus, tests):
    """Raise UsageError if a file of the data set would replace a corpus."""
    for name in (TRAIN, *map(test_name, range(len(tests))), FEATURES, LABELS, VECTORIZER):
        file = os.path.join(data, name)
        for path in (corpus, *tests):
            if path != "-" and os.path.exists(path) and os.path.exists(file) and os.path.samefile(path, file):
                raise click.UsageError(f"{path} would be replaced; choose another folder for the data set.")
