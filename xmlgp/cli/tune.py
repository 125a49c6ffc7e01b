"""`xmlgp tune`: choose how many labels a model assigns."""

import json

import click

from xmlgp import api
from xmlgp.cli.help import Subcommand, option
from xmlgp.cli.options import (
    COLUMNS,
    INPUT,
    NonEmptyPath,
    OptionValue,
    dense_option,
    encoder_options,
    reading_options,
    source_of,
    threads_option,
)
from xmlgp.prediction.tuning import METRICS

__all__ = ["tune"]


@click.command(cls=Subcommand, common=["--metric", *COLUMNS, "--json", "--force", "--quiet"])
@click.argument("model", type=NonEmptyPath())
@click.argument("data", type=INPUT)
@option(
    "--metric",
    type=click.Choice(list(METRICS)),
    default="f1-micro",
    show_default=True,
    group="Measures",
    help="F1 to maximise.",
)
@option("--force", is_flag=True, help="Accept points that MODEL was trained on or has learned.")
@option("--json", "as_json", is_flag=True, group="Output", help="Print one JSON object, in full precision.")
@dense_option
@reading_options(with_model=True)
@encoder_options(with_model=True)
@threads_option
def tune(model: str, data: str, as_json: bool, **options: OptionValue) -> None:
    """Choose the threshold and the limit of highest F1 on the points in DATA, and store them in the folder MODEL.

    From then on `xmlgp predict` assigns labels by them, unless an option says otherwise. Take points that MODEL was not
    trained on, and other ones than those for evaluation.

    \b
    Examples:
      xmlgp split data/tickets parts
      xmlgp train parts models/tickets
      xmlgp tune models/tickets parts/test.csv
      xmlgp predict models/tickets new.csv -o new.jsonl

    A label is assigned to a point if its score is at least the threshold and it is among as many best labels as the
    limit says. All pairs of a threshold and a limit from 1 to 64 are compared. If the best limit is 64, then a limit
    does not help. Training MODEL again removes the pair.

    F1 is that of all pairs of point and label (f1-micro), the mean over labels (f1-macro) or the mean over points
    (f1-point), as `xmlgp evaluate` prints them. True labels that MODEL does not know count as missed.

    DATA is a file of points with labels, also a corpus if MODEL was trained on text, or a folder with validation.txt or
    validation.svm. Probabilities of training points are too good to choose by: xmlgp refuses the complete training
    data, and a batch that MODEL has learned. It does not notice a part of them, or the same points in another order.

    \b
    More examples:
      xmlgp tune models/bibtex held-out.txt
      xmlgp predict models/bibtex data/bibtex -o bibtex.labels
      xmlgp evaluate bibtex.labels data/bibtex
    """
    tuned = api.tune(model, source_of(data, options), **options)
    if as_json:
        click.echo(json.dumps(tuned._asdict()))
    else:
        click.echo(f"threshold  {tuned.threshold:.6g}\nlimit      {tuned.limit}\n{tuned.metric:9}  {tuned.value:.5f}")
