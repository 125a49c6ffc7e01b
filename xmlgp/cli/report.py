"""`xmlgp report`: write a page about how a model does on test data."""

from __future__ import annotations

import click

from xmlgp.cli.options import INPUT, NonEmptyPath, OptionValue, dense_option, reading_options, source_of, threads_option
from xmlgp.reporting.report import report as make_report

__all__ = ["report"]


@click.command()
@click.argument("model", type=NonEmptyPath())
@click.argument("data", type=INPUT)
@click.option(
    "-o",
    "--out",
    type=NonEmptyPath(dir_okay=False, allow_dash=True),
    default="report.html",
    show_default=True,
    help="The page, or - for standard output.",
)
@click.option("--title", help="Title of the page.  [default: the name of the folder MODEL]")
@dense_option
@reading_options
@threads_option
def report(model: str, data: str, out: str, **options: OptionValue) -> None:
    """Write a page about how the model in the folder MODEL does on DATA; needs Jinja2 (pip install 'xmlgp[report]').

    DATA has points with labels that MODEL was not trained on: documents for a model of text, otherwise rows of numbers,
    or a folder with test.csv, test.txt or the like. The page is one HTML file that loads nothing from elsewhere.

    \b
    Examples:
      xmlgp report models/tickets data/tickets -o tickets.html
      xmlgp report models/bibtex data/bibtex -o bibtex.html

    The page has the measures with their intervals, the calibration of probabilities, precision and recall of frequent
    and rare labels, the labels that are missed most often or given in place of others, and the points with the worst
    errors; for a model of text, also their texts. True labels that MODEL does not know count as missed.
    """
    make_report(model, source_of(data, options), out, **options)
    if out != "-":
        click.echo(out)
