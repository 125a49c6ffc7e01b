"""`xmlgp evaluate`: compare scores with the true labels and print the measures."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict
from itertools import starmap
from typing import Any

import click

from xmlgp import api
from xmlgp.cli.options import (
    INPUT,
    NonEmptyPath,
    OptionValue,
    check_finite,
    check_standard_input,
    reading_options,
    source_of,
)
from xmlgp.metrics.intervals import about_intervals
from xmlgp.runs.evaluate import Measured

__all__ = ["columns", "digits_of", "evaluate", "filter_option", "ks_option"]

POSITIVE = click.FloatRange(min=0, min_open=True)


def _parse_ks(context: click.Context, option: click.Parameter, value: str) -> list[int]:
    """Parse a list of ranks such as `1,3,5`; return them without repetitions, in ascending order."""
    try:
        ks = sorted({int(k) for k in value.split(",")})
    except ValueError:
        ks = [0]
    if ks[0] < 1:
        raise click.BadParameter(f"{value!r} is not a list of positive whole numbers such as 1,3,5.")
    return ks


ks_option = click.option(
    "-k",
    "ks",
    callback=_parse_ks,
    default="1,3,5",
    show_default=True,
    metavar="K,K,...",
    help="Values of k for the measures @k.",
)

filter_option = click.option(
    "--filter-labels",
    type=INPUT,
    metavar="FILE",
    help="Leave out pairs of a point and a label, neither scores nor true labels: lines `point label`, from 0.",
)


@click.command()
@click.argument("scores", type=INPUT)
@click.argument("data", type=INPUT)
@click.option(
    "--train",
    type=INPUT,
    help="Training data or a model, for names of labels, PSP and PSnDCG. Its numbers of points per label are also for "
    "--reliability, --deciles and --by-label.",
)
@ks_option
@click.option("--propensity-a", type=POSITIVE, callback=check_finite, help="A of the propensity model.")
@click.option("--propensity-b", type=POSITIVE, callback=check_finite, help="B of the propensity model.")
@click.option("--auc", is_flag=True, help="Also print the area under the ROC curve: micro, macro and per instance.")
@click.option("--calibration", is_flag=True, help="Also print log loss and calibration error of probabilities.")
@click.option("--reliability", is_flag=True, help="Also print mean probability and share of true labels, by rank.")
@click.option("--macro", is_flag=True, help="Also print recall, coverage, and macro precision, recall and F1, each @k.")
@click.option("--deciles", is_flag=True, help="Also print P and recall @k by how frequent labels are in training.")
@click.option(
    "--by-label",
    type=NonEmptyPath(),
    metavar="FILE",
    help="Also write a table with a row for each label: .csv, .tsv, .xlsx or .parquet.",
)
@click.option(
    "--assigned/--ranking",
    default=None,
    help="Take the labels in SCORES as assigned, for precision, recall and F1, or as a ranking.  [default: as SCORES "
    "says]",
)
@filter_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, in full precision, with `intervals`.")
@reading_options()
def evaluate(scores: str, data: str, train: str | None, ks: list[int], as_json: bool, **options: OptionValue) -> None:
    """Compare SCORES with the true labels in DATA.

    SCORES is what `xmlgp predict` or another program wrote; DATA has the same points with their labels. Prints P@k and
    nDCG@k in percent, or of assigned labels precision, recall and F1, each with its interval.

    \b
    Examples:
      xmlgp predict models/tickets new.csv -o new.jsonl
      xmlgp evaluate new.jsonl new.csv --train models/tickets
      xmlgp predict models/bibtex data/bibtex/test.txt -k 5 -o bibtex.scores
      xmlgp evaluate bibtex.scores data/bibtex --train data/bibtex

    SCORES is a scores file, or JSON Lines as predict writes for text: objects with `labels`, which are names or objects
    with `label` and `probability`, `utility` or `score`, and perhaps `id`. Both say whether they have a ranking or
    assigned labels; --assigned and --ranking take them as the other. Labels without scores are assigned.

    SCORES may also be a table as predict writes it, with a row for each label of a point, lines of `label:score` or of
    omikuji without `N K` before them, or a matrix N×K in .npz or .npy.

    DATA may be a corpus. Its labels are matched by name with those in SCORES; for the numbers of a scores file, the
    names are those of the model that --train names. Its points are matched by identifier if SCORES has them, otherwise
    by their order. Identifiers such as 003, 3 and 3.0 are the same unless a file has several of them. True labels that
    --train does not know count as missed.

    Prints P@k and nDCG@k in percent, and with --train their propensity-scored forms PSP@k and PSnDCG@k, as defined by
    the Extreme Classification Repository. Points without labels are left out. Labels with equal scores are ranked by
    number, the lower first. DATA may be a folder with test.txt or test.svm, or a file of labels alone such as
    tst_X_Y.txt, TRAIN a folder with train.txt, or a model. Every file may be compressed, and one of them may be -
    for standard input.

    The brackets after a value are its 95 % interval: what chance may have done in the choice of the test points.
    Measures have a row each if the terminal is too narrow for a column for each k.

    A and B of the propensity model default to the catalogue's values for a data set of the same shape as the training
    data, otherwise to 0.55 and 1.5.

    --auc adds the area under the ROC curve: the probability that a true label has a higher score than a label that is
    not true, where ties count one half. It is 1 for a perfect ranking and 0.5 for random scores. AUC_micro is over all
    pairs of point and label. AUC_macro is the mean over labels, without those that all or no points have. AUC_instance
    is the mean over points, without those that have all or no labels. Labels that SCORES does not list are tied below
    all listed labels; predict -k all lists every label.

    --calibration needs probabilities. It adds log_loss, in nats per label, and ECE, the expected calibration error with
    15 bins. Both are over the labels listed in SCORES, including those of points without true labels; predict -k all
    lists every label. ECE@k is the same error over the k highest probabilities of each point, with 10 bins. ECE and
    ECE@k are from 0 to 1.

    --macro adds recall@k, the mean over points of the share of their labels that is among the first k; coverage@k, the
    share of the labels that points have for which that is so at least once; and macro-precision@k, macro-recall@k and
    macro-F1@k, the means over these labels, so that a rare label counts as much as a frequent one.

    --deciles needs --train. Labels are sorted by training points and divided so that each tenth has about a tenth of
    all pairs of a training point and a label. For each it prints what its labels add to P@k, and recall@k, the share of
    its true labels that is among the first k, for the greatest k.

    --by-label writes a row for each label, those with most test points first: training points, with --train; test
    points; points for which it is predicted, among the first k for the greatest k or assigned; points for which that is
    right; precision, recall and F1, from 0 to 1.

    --reliability needs probabilities too. For each rank up to the greatest k, it prints the mean probability of the
    labels of that rank and the share of them that is true. With --train it prints the same for groups of labels with
    similar numbers of training points.

    Data with a single label, such as all data in libsvm format, have other measures: accuracy, in percent, log_loss, in
    nats, and AUC, from 0 to 1; with --calibration also ECE. Scores that all lie in [0, 1] are taken as probabilities,
    with a threshold of 0.5; other scores are utilities, with a threshold of 0 and no log_loss. Every point must have a
    score.

    Of assigned labels, which predict --threshold, --limit, --assign or tune chose, it prints precision, recall and F1,
    from 0 to 1: `micro` over all pairs of point and label, `macro` the mean over labels, `point` the mean over points.
    A measure with denominator 0 is 0. The mean over points leaves out points without labels; the mean over labels
    leaves out labels that no point has and none is assigned.

    \b
    More examples:
      xmlgp predict models/bibtex data/bibtex -k all -o all.scores
      xmlgp evaluate all.scores data/bibtex --auc --calibration
      xmlgp evaluate bibtex.scores data/bibtex --train data/bibtex --macro --by-label labels.csv
      xmlgp evaluate titles.scores tst_X_Y.txt --filter-labels filter_labels_test.txt
      xmlgp predict models/bibtex data/bibtex --assign | xmlgp evaluate - data/bibtex
    """
    check_standard_input(scores, data, train, options["filter_labels"])
    result = api.evaluate(scores, source_of(data, options), train=train, ks=ks, **options)
    curves = {name: [asdict(row) for row in rows] for name, rows in result.reliability.items()}
    if as_json:
        additions = {
            "intervals": _for_programs(result),
            "deciles": [
                dict(zip(("decile", "labels", "training points", "true"), row, strict=False)) | _for_programs(measured)
                for row, measured in zip(result.deciles, result.decile_measures, strict=True)
            ],
            "reliability": curves,
            "unknown_labels": result.unknown,
        }
        click.echo(json.dumps(result.measures | {name: value for name, value in additions.items() if value}))
    else:
        options["note"](about_intervals(result.points))
        tenths = [_decile_table(result)] if result.deciles else []
        tables = [_measures_table(result, ks), *tenths, *starmap(_reliability_table, curves.items())]
        click.echo("\n\n".join(tables))


def columns(rows: list[list[str]], gap: str = "  ") -> str:
    """Format rows of cells: the first column is aligned to the left, the others to the right."""
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = (gap.join([f"{name:<{first}}", *map(str.rjust, cells, widths)]) for name, *cells in rows)
    return "\n".join(map(str.rstrip, lines))


def _reliability_table(title: str, rows: list[dict[str, Any]]) -> str:
    """Format a reliability curve, one bin per row."""
    cells = [[row["bin"], str(row["count"]), f"{row['probability']:.4f}", f"{row['true']:.4f}"] for row in rows]
    return columns([[title, "labels", "probability", "true"], *cells])


def _measures_table(result: api.Evaluation, ks: list[int]) -> str:
    """Format the measures with their intervals.

    Those @k in percent have a column for each k, unless the terminal, or 80 characters where there is none, are too
    narrow. All others have a row each.
    """
    at_k = [name for name in result.measures if "@" in name and not name.startswith("ECE")]
    by_k: dict[str, list[str]] = {}
    for name, cell in _cells(result, at_k).items():
        by_k.setdefault(name.partition("@")[0], []).append(cell)
    grid = [["", *(f"@{k}" for k in ks)], *([name, *cells] for name, cells in by_k.items())]
    for gap in ("  ", " ") if at_k else ():
        table = columns(grid, gap)
        if max(map(len, table.splitlines())) <= shutil.get_terminal_size().columns:
            others = _cells(result, [name for name in result.measures if name not in at_k])
            return "\n\n".join([table, columns([*map(list, others.items())])] if others else [table])
    return columns([*map(list, _cells(result, list(result.measures)).items())])


def digits_of(name: str) -> int:
    """Return the decimals of a measure: two in percent, otherwise five."""
    return 2 if name == "accuracy" or ("@" in name and not name.startswith("ECE")) else 5


def _decile_table(result: api.Evaluation) -> str:
    """Format the measures by deciles of labels, one decile per row."""
    names = list(dict.fromkeys(name for row in result.deciles for name in row.statistics))
    grid = [["decile", "labels", "training", "true", *names]]
    for row, measured in zip(result.deciles, result.decile_measures, strict=True):
        cells = _cells(measured, list(row.statistics))
        grid.append([*map(str, row[:4]), *(cells.get(name, "") for name in names)])
    return columns(grid)


def _cells(result: api.Evaluation | Measured, names: list[str]) -> dict[str, str]:
    """Format the values of measures with their intervals, as wide as each other; the values end where others do."""
    texts = {}
    for name in names:
        low, high = result.intervals[name]
        digits = digits_of(name)
        texts[name] = (f"{result.measures[name]:.{digits}f}", f"[{low:.{digits}f}, {high:.{digits}f}]")
    widths = [max(map(len, column)) for column in zip(*texts.values(), strict=True)]
    return {name: f"{value:>{widths[0]}} {interval:<{widths[1]}}" for name, (value, interval) in texts.items()}


def _for_programs(result: api.Evaluation | Measured) -> dict[str, dict[str, Any]]:
    """Return the value and the interval of each measure; an end without a bound is null."""
    return {
        name: {"value": value, "interval": [end if math.isfinite(end) else None for end in result.intervals[name]]}
        for name, value in result.measures.items()
    }
