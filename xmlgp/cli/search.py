"""`xmlgp search`: compare settings on held-out points."""

import json
from dataclasses import replace
from typing import Any

import click

from xmlgp import api
from xmlgp.cli.evaluate import columns
from xmlgp.cli.help import Subcommand, option
from xmlgp.cli.options import (
    COLUMNS,
    INPUT,
    NonEmptyPath,
    Note,
    OptionValue,
    analysis_options,
    check_standard_input,
    dense_option,
    encoder_options,
    reading_options,
    resume_advice,
    source_of,
    threads_option,
)
from xmlgp.cli.settings_options import settings_options
from xmlgp.runs.search import FOLDS, Compared, SearchResult
from xmlgp.runs.search_metric import shown

__all__ = ["search"]


@click.command(
    cls=Subcommand, common=["--metric", "--folds", "--validation", *COLUMNS, "--model", "--set", "--json", "--quiet"]
)
@click.argument("data", type=INPUT)
@click.argument("out", type=NonEmptyPath(file_okay=False), required=False)
@settings_options(compared=True)
@option(
    "--metric",
    metavar="NAME",
    group="Measures",
    help="The measure to compare by, such as psp@5. It is of the K best labels: p@K, ndcg@K, psp@K, psndcg@K, "
    "recall@K, coverage@K, macro-precision@K, macro-recall@K or macro-f1@K; or log-loss, of the probabilities of all "
    "labels.  "
    "[default: ndcg@5, or log-loss for a single label]",
)
@option(
    "--folds",
    type=click.IntRange(2),
    metavar="N",
    group="Split",
    help=f"Hold out each of so many parts of DATA once.  [default: {FOLDS}]",
)
@option(
    "--validation",
    type=INPUT,
    metavar="FILE",
    group="Split",
    help="Train on all of DATA, and compare on the points in this file.",
)
@option("--json", "as_json", is_flag=True, group="Output", help="Print one JSON object, in full precision.")
@analysis_options
@dense_option
@reading_options()
@encoder_options()
@threads_option
def search(
    data: str, folds: int | None, validation: str | None, as_json: bool, note: Note, **options: OptionValue
) -> None:
    """Compare settings on points of DATA that training does not see, and say whether the best are worth it.

    Each value of --set is compared with the default settings of `xmlgp train`. OUT is a folder for the results and for
    recipe.yaml, the settings to use; without it nothing is kept.

    \b
    Examples:
      xmlgp search tickets.csv searches/tickets --set factors=50,200
      xmlgp train tickets.csv models/tickets --recipe searches/tickets/recipe.yaml
      xmlgp search news.jsonl --set label_weights=false --metric psp@5

    The default settings are those of the same --model, --recipe and other options. All settings are trained on the same
    folds. After each fold, settings that are worse than the best ones beyond noise are dropped. An interrupted search
    resumes with the same command, and one of more values trains only these.

    Prints for each settings the metric and its difference from the default, both with 95 % intervals over points, the
    folds that were trained, and the mean time of a training. The last line, on standard error, says what the best
    settings are worth, allowing for the choice among several, or that it may be noise: then the recipe has the default
    settings. Intervals do not cover what another seed changes.

    DATA is as for `xmlgp train`. The words of a corpus are counted once, for all folds.

    \b
    More examples:
      xmlgp search data/bibtex searches/bibtex --set factors=50,200 --set weighting=root-idf,idf
      xmlgp search articles.jsonl --set label_weights=false --metric psp@5 --validation later.jsonl
    """
    check_standard_input(data, validation)
    if folds and validation:
        raise click.UsageError("--folds and --validation exclude each other.")
    source = source_of(data, options)
    held_out = replace(source, data=validation, dense=None, analysis=None) if validation else folds or FOLDS
    with resume_advice(data):
        result = api.search(source, held_out=held_out, note=note, **options)
    click.echo(json.dumps(_facts(result)) if as_json else _table(result))
    note(result.worth)


def _facts(result: SearchResult) -> dict[str, Any]:
    """Return a result for JSON."""
    rows = [
        vars(row) | {"settings": row.settings.with_model(), "difference": row.difference._asdict()}
        for row in result.rows
    ]
    return vars(result) | {"best": result.best.name, "rows": rows}


def _table(result: SearchResult) -> str:
    """Format the rows of a result, the best first."""
    heads = ["settings", result.metric, "difference", "folds", "training"]
    return columns([heads, *(_cells(row, result) for row in result.rows)])


def _cells(row: Compared, result: SearchResult) -> list[str]:
    """Return the cells of settings in the table; the default has no difference from itself."""
    metric = result.metric
    difference = row.difference
    return [
        row.name,
        shown(metric, row.value, row.interval),
        "" if row.is_default else shown(metric, difference.difference, difference.interval, "+"),
        f"{row.folds} of {result.folds}",
        f"{row.seconds:.1f} s",
    ]
