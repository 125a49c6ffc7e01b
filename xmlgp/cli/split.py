"""`xmlgp split`: divide data into training and test points."""

from __future__ import annotations

import shlex

import click

from xmlgp.api.split import split as split_files
from xmlgp.cli.options import INPUT, NonEmptyPath, OptionValue, reading_options, source_of
from xmlgp.runtime.progress import Reporter

__all__ = ["split"]


@click.command()
@click.argument("data", type=INPUT)
@click.argument("out", type=NonEmptyPath(file_okay=False))
@click.option(
    "--test",
    type=float,
    default=0.25,
    show_default=True,
    metavar="SHARE|N",
    help="The share of test points, below 1, or their number.",
)
@click.option(
    "--group-column",
    "group",
    metavar="NAME",
    help="Keep the documents with the same value in a column or JSON field in one part, such as those of an author.",
)
@click.option("--in-order", is_flag=True, help="Take the last points for testing, such as the latest ones.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random choice.")
@click.option("--overwrite", is_flag=True, help="Replace files in OUT.")
@reading_options
def split(data: str, out: str, reporter: Reporter, **options: OptionValue) -> None:
    """Divide the points in DATA into those for training and those for testing, in files in the folder OUT.

    DATA is a file of rows of numbers, CSV, TSV or JSON Lines, as for `xmlgp train`. OUT gets train and test with the
    ending of DATA, and `xmlgp train OUT MODEL` and `xmlgp evaluate MODEL OUT` find them. The points are divided at
    random, unless an option says otherwise, and copied as they are, in their order; rows of several labels in libsvm
    format get a first line `N D K`. Names of labels and features beside rows go along.

    \b
    Examples:
      xmlgp split tickets.csv data/tickets --test 0.2
      xmlgp split notes.jsonl data/notes --group-column author

    Options that say where DATA has its texts and labels are kept in OUT/corpus.json. Commands that read OUT follow
    them, unless they are given others.
    """
    source = source_of(data, options)
    for file in split_files(source, out, reporter=reporter, **options):
        click.echo(file)
    reporter.note(f"next, `{shlex.join(['xmlgp', 'train', out, 'MODEL'])}`")
