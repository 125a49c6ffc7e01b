"""`xmlgp predict`: score points with a trained model."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

import click

from xmlgp.api import predict as api
from xmlgp.api.predict import DEFAULT_K
from xmlgp.api.trained_model import as_trained_model
from xmlgp.cli.options import (
    INPUT,
    Cluster,
    NonEmptyPath,
    OptionValue,
    check_finite,
    check_standard_input,
    cluster_options,
    corpus_options,
    dense_option,
    executor_of,
    label_count,
    quiet_option,
    rare_option,
    source_of,
    threads_option,
)
from xmlgp.data.files import check_outputs, format_ending
from xmlgp.prediction.label_writer import FORMATS
from xmlgp.prediction.predictor import OUTPUTS
from xmlgp.runtime.errors import SettingsError, XmlgpError
from xmlgp.runtime.progress import Reporter, silent
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.corpus import ENDINGS
from xmlgp.text.document_folder import WholeFiles
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.tables import TABLE_ENDINGS

__all__ = ["predict"]

#: The number of words that a table for people has for each label.
WORDS = 3

#: Endings of files that have many points.
OF_MANY = {*ENDINGS, *TABLE_ENDINGS, ".tsv", ".svm"}


@click.command()
@click.argument("model", type=NonEmptyPath())
@click.argument("data", nargs=-1, type=INPUT)
@click.option("--whole", is_flag=True, help="Take each file, or standard input, as one document.")
@click.option(
    "-k",
    "k",
    callback=label_count,
    metavar="K|ALL",
    help=f"Write the K best labels of each point, or all labels.  [default: {DEFAULT_K}]",
)
@click.option(
    "--threshold",
    type=float,
    callback=check_finite,
    metavar="SCORE",
    help="Assign the labels with at least this score.",
)
@click.option("--assign", is_flag=True, help="Assign to each point the labels of highest expected F1.")
@click.option(
    "-o", "--out", type=NonEmptyPath(allow_dash=True), default="-", show_default=True, help="The output file."
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(("scores", *FORMATS, "table")),
    metavar="FORMAT",
    help="scores, a scores file; jsonl, an object for each point; tsv or csv, a row for each label; table, for "
    "people.  [default: told by the ending of --out; otherwise scores, or of text jsonl, and on a terminal table]",
)
@rare_option(
    "--output",
    type=click.Choice(OUTPUTS),
    help="Scores, by which labels are ranked: the probability p, integrated over the posterior (bmlpl: over the "
    "activations of topics), or the mean utility (bmlpl: −log(1 − p)).  [default: probability; bmlpl, and models "
    "trained with --ranking utility: utility]",
)
@click.option(
    "--explain",
    type=click.IntRange(1),
    metavar="N",
    help="Add for each label the N words, or other features, that speak most for it and against it, with their "
    "contributions, and the N nearest training documents that have it. Needs a linear kernel.",
)
@rare_option("--with-std", is_flag=True, help="Add the predictive standard deviation: label:score:std.")
@cluster_options
@dense_option
@corpus_options
@quiet_option
@threads_option
def predict(
    model: str,
    data: tuple[str, ...],
    whole: bool,
    out: str,
    output_format: str | None,
    cluster: Cluster,
    reporter: Reporter,
    **options: OptionValue,
) -> None:
    """Write the labels of highest score for each point in DATA, with the model in the folder MODEL.

    A model of text reads documents, such as .csv or lines of text, and others read rows of numbers. Several files
    are a document each, and - or a pipe is standard input. Labels in DATA are not used.

    \b
    Examples:
      echo "My screen is dark" | xmlgp predict models/tickets - -k 3
      xmlgp predict models/tickets new.csv -o new.jsonl
      man ls | xmlgp predict models/tickets - --whole
      xmlgp predict models/tickets new.csv --assign --format csv -o labels.csv
      xmlgp predict models/bibtex data/bibtex/test.txt -k 5 -o bibtex.scores

    \f
    Rows of numbers are in the format of the Extreme Classification Repository or in libsvm format (perhaps compressed),
    or in a folder with test.txt or test.svm. Points in libsvm format may have fewer features than the model, and count
    them from 0 or 1 as the training data do. If MODEL was trained on text, DATA may be a corpus as for `xmlgp
    vectorize`, or lines of text, each a document. With --whole, or if several files are named, each file is one
    document, whose identifier is its name. On a terminal, the answer to text is a table: for each label its probability
    in percent, the standard deviation of that, and the words that speak most for it, if the model can explain. In a
    pipe or a file, it is JSON Lines, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`, with documents
    numbered from 1 where they have no identifier. A scores file has the header `N K`, or `N K assigned` if labels are
    assigned, and a line for each point, `label:score ...`, best first. JSON Lines of assigned labels have `"assigned":
    true`. Lines of a pipe or terminal are answered as they come.

    With -k, every point has the same number of labels, a ranking. --threshold assigns the labels with at least this
    score, which may be none, and --assign those of the highest expected F1, at least one, if labels are independent; a
    K limits both. --assign scores all labels, which takes longer if they are many.

    With --scheduler or --workers, points are scored on a Dask cluster. The output is the same, to the last digit.

    \b
    More examples:
      echo "My screen is dark" | xmlgp predict models/tickets - --explain 3
      xmlgp predict models/amazoncat data/amazoncat --scheduler tcp://head:8786 -o amazoncat.scores
      xmlgp predict models/bibtex data/bibtex/test.txt --threshold 0.2 -o bibtex.labels
      zcat new.txt.gz | xmlgp predict models/bibtex - --with-std | head
    """
    data = data or _piped(model)
    check_standard_input(*data)
    _check_exist(data, model)
    trained = as_trained_model(model)
    if out == "-" and not os.path.isfile(1):
        # A bar would be drawn among the answers, which show the progress themselves and may come to the same terminal.
        reporter = reporter._replace(progress=silent)
    if out == "-" and sys.stdout and sys.stdout.isatty() and trained.names.vectorizer:
        output_format = output_format or "table"
    if output_format == "table":
        options["with_std"] = True
        with contextlib.suppress(SettingsError):
            trained.predictor.check_explainable()
            options["explain"] = options["explain"] or WORDS
    with executor_of(cluster, reporter) as executor:
        source = source_of(data[0], options)
        if whole or len(data) > 1:
            if not trained.names.vectorizer:
                raise SettingsError(f"{model} was not trained on text: name one file of rows, without --whole")
            check_outputs([out], data)
            source = replace(source, data=_whole(data, whole, source.corpus or NO_OPTIONS), corpus=None)
        predictions = api.predict(trained, source, reporter=reporter, executor=executor, **options)
        api.write(predictions, out, output_format)


def _check_exist(files: Sequence[str], model: str) -> None:
    """Raise XmlgpError, which says how a text is given, if there is no such file; `-` is standard input."""
    for file in files:
        if file != "-" and not os.path.exists(file):
            advice = f'for a text, type: echo "a text" | xmlgp predict {model} -'
            raise XmlgpError(f"there is no file or folder {excerpt(file)}; {advice}")


def _piped(model: str) -> tuple[str, ...]:
    """Return standard input as the data of a command that names none; XmlgpError if nothing is piped into it."""
    if sys.stdin is None or sys.stdin.isatty():
        command = f"xmlgp predict {model}"
        raise XmlgpError(f'there are no data: type {command} FILE, or echo "a text" | {command} -')
    return ("-",)


def _whole(files: Sequence[str], is_asked: bool, corpus: CorpusOptions) -> WholeFiles:
    """Return files as one document each; UsageError for corpora, unless they are asked for as texts."""
    if any(corpus._replace(encoding=None)):
        raise click.UsageError("Whole files have no columns and no --corpus-format: leave these out, or name one file.")
    for file in files:
        if not is_asked and format_ending(file) in OF_MANY:
            reason = "has many documents; name one such file at a time, or take each file as one document with --whole"
            raise click.UsageError(f"{file} {reason}.")
    return WholeFiles(files, corpus.encoding)
