"""`xmlgp predict`: score points with a trained model."""

from __future__ import annotations

import sys

import click

from xmlgp.api import predict as api
from xmlgp.api.predict import DEFAULT_K
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
from xmlgp.prediction.label_writer import FORMATS
from xmlgp.prediction.predictor import OUTPUTS
from xmlgp.runtime.progress import Reporter, silent

__all__ = ["predict"]


@click.command()
@click.argument("model", type=NonEmptyPath())
@click.argument("data", type=INPUT)
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
@click.option(
    "--assign",
    is_flag=True,
    help="Assign to each point the labels with the highest expected F1, given the probabilities of all labels.",
)
@click.option(
    "-o", "--out", type=NonEmptyPath(allow_dash=True), default="-", show_default=True, help="The output file."
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(("scores", *FORMATS)),
    metavar="FORMAT",
    help="scores, a scores file; jsonl, JSON Lines with an object for each point; or tsv or csv, a table with a row "
    "for each label.  [default: told by the ending of --out, otherwise jsonl for text and scores for numbers]",
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
    "contributions to its utility, and the N nearest training documents that have it. Needs a linear kernel.",
)
@rare_option("--with-std", is_flag=True, help="Add the predictive standard deviation: label:score:std.")
@cluster_options
@dense_option
@corpus_options
@quiet_option
@threads_option
def predict(
    model: str,
    data: str,
    out: str,
    output_format: str | None,
    cluster: Cluster,
    reporter: Reporter,
    **options: OptionValue,
) -> None:
    """Write the labels of highest score for each point in DATA, with the model in the folder MODEL.

    A model of text reads documents, such as .csv or lines of text, and others read rows of numbers; - is standard
    input. Labels in DATA are not used. The answer is a JSON object for each document, or a scores file for rows.

    \b
    Examples:
      echo "My screen is dark" | xmlgp predict models/tickets - -k 3
      xmlgp predict models/tickets new.csv -o new.jsonl
      xmlgp predict models/tickets new.csv --assign --format csv -o labels.csv
      xmlgp predict models/bibtex data/bibtex/test.txt -k 5 -o bibtex.scores

    \f
    Rows of numbers are in the format of the Extreme Classification Repository or in libsvm format (perhaps compressed),
    or in a folder with test.txt or test.svm. Points in libsvm format may have fewer features than the model, and count
    them from 0 or 1 as the training data do. If MODEL was trained on text, DATA may be a corpus as for `xmlgp
    vectorize`, or lines of text. The answer to text is JSON Lines, `{"id": ..., "labels": [{"label": ...,
    "probability": ...}]}`, with documents numbered from 1 where they have no identifier. A scores file has the header
    `N K`, or `N K assigned` if labels are assigned, and a line for each point, `label:score ...`, best first. JSON
    Lines of assigned labels have `"assigned": true`. Lines of a pipe or terminal are answered as they come.

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
    check_standard_input(data)
    if out == "-" and sys.stdout and sys.stdout.isatty():
        # A bar would be drawn over the answers, which show the progress themselves.
        reporter = reporter._replace(progress=silent)
    with executor_of(cluster, reporter) as executor:
        predictions = api.predict(model, source_of(data, options), reporter=reporter, executor=executor, **options)
        api.write(predictions, out, output_format)
