"""`xmlgp evaluate`: compare scores with the true labels, or the scores of two methods, and print the measures."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping

import click

from xmlgp.api import evaluate as api
from xmlgp.cli.options import (
    INPUT,
    OptionValue,
    check_standard_input,
    dense_option,
    rare_option,
    reading_options,
    source_of,
)
from xmlgp.metrics.intervals import Difference, Interval, about_intervals

__all__ = ["evaluate"]

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


@click.command()
@click.argument("scores", type=INPUT, nargs=-1, required=True, metavar="SCORES|MODEL [...]")
@click.argument("data", type=INPUT)
@click.option(
    "--train", type=INPUT, help="Training data or a model, for names of labels, PSP and PSnDCG.  [default: MODEL]"
)
@click.option(
    "-k",
    "ks",
    callback=_parse_ks,
    default="1,3,5",
    show_default=True,
    metavar="K,K,...",
    help="Values of k for the measures @k.",
)
@rare_option("--propensity", type=(POSITIVE, POSITIVE), metavar="A B", help="A and B of the propensity model.")
@click.option("--auc", is_flag=True, help="Also print the area under the ROC curve: over all pairs, and per point.")
@click.option("--calibration", is_flag=True, help="Also print log loss and calibration error of probabilities.")
@click.option("--macro", is_flag=True, help="Also print recall, coverage, and macro precision, recall and F1, each @k.")
@rare_option("--assigned", is_flag=True, help="Take the labels in SCORES as assigned, even if ranked.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, in full precision, with `intervals`.")
@dense_option
@reading_options
def evaluate(scores: tuple[str, ...], data: str, as_json: bool, **options: OptionValue) -> None:
    """Compare the labels that MODEL predicts for DATA with the true ones there, or two methods with each other.

    In place of a model, SCORES is what `xmlgp predict` or another program wrote for the same points. Prints P@k and
    nDCG@k in percent, or of assigned labels precision, recall and F1, each with its 95 % interval. With two methods,
    prints the measures of both, A and B, and their difference A - B.

    \b
    Examples:
      xmlgp evaluate models/tickets new.csv
      xmlgp evaluate models/tickets models/tickets-2 new.csv
      xmlgp evaluate ours.scores theirs.txt data/bibtex --train data/bibtex
      xmlgp predict models/bibtex data/bibtex --assign | xmlgp evaluate - data/bibtex

    docs/evaluation.md has the definitions.

    \f
    A model reads DATA as `xmlgp predict` does, with the columns that it was trained on, and is also what --train names,
    unless there is another.

    SCORES is a scores file, JSON Lines, or a table with a row for each label of a point, as predict writes them; lines
    of `label:score` as napkinXC or omikuji write them; or a matrix N×K, sparse in .npz or dense in .npy. DATA is a
    corpus, rows of numbers, a folder with test.txt or the like, or a file of labels alone.

    SCORES and DATA have the same points in the same order, or the same identifiers. Labels with names are matched by
    name; for the numbers of a scores file, the names are those of the model that --train names.

    --train adds PSP@k and PSnDCG@k as defined by the Extreme Classification Repository. A and B of the propensity model
    default to the catalogue's values for training data of the same shape, otherwise to 0.55 and 1.5.

    --auc adds the probability that a true label has a higher score than another, over all pairs of point and label, and
    as the mean over points. --calibration adds log_loss, in nats per label, and the expected
    calibration error ECE of probabilities, also of the k best. Both are over the labels in SCORES; predict -k all lists
    every label. --macro adds recall@k and coverage@k, and means over labels, so that a rare label counts as much as a
    frequent one.

    Data with a single label have other measures: accuracy, in percent, log_loss and AUC.

    Two methods are measured on the same resampled points: what both find hard does not count, so differences are more
    certain than the measures themselves. p is the probability that chance makes a difference as large.
    """
    check_standard_input(*scores, data, options["train"])
    if len(scores) > 2:
        raise click.UsageError("Give the scores of one or two methods, then the data.")
    source = source_of(data, options)
    options["measures"] = [name for name in api.MEASURES if options.pop(name)]
    if len(scores) == 2:
        compared = api.compare(*scores, source, **options).measures
        if as_json:
            rows = {name: row._asdict() | {"interval": _bounds(row.interval)} for name, row in compared.items()}
            click.echo(json.dumps(rows))
        else:
            click.echo(f"A  {scores[0]}\nB  {scores[1]}\n\n{_differences_table(compared)}\n\n{_conclusion(compared)}")
        return
    result = api.evaluate(scores[0], source, **options)
    if as_json:
        facts = {
            name: {"value": value, "interval": _bounds(result.intervals[name])}
            for name, value in result.measures.items()
        }
        click.echo(json.dumps(result.measures | {"intervals": facts}))
    else:
        options["reporter"].note(about_intervals(result.points))
        click.echo(_measures_table(result, options["ks"]))


def _bounds(interval: Interval) -> list[float | None]:
    """Return the ends of an interval for JSON, which has no infinite numbers."""
    return [end if math.isfinite(end) else None for end in interval]


def _columns(rows: list[list[str]], gap: str = "  ") -> str:
    """Format rows of cells: the first column is aligned to the left, the others to the right."""
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = (gap.join([f"{name:<{first}}", *map(str.rjust, cells, widths)]) for name, *cells in rows)
    return "\n".join(map(str.rstrip, lines))


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
        table = _columns(grid, gap)
        if max(map(len, table.splitlines())) <= shutil.get_terminal_size().columns:
            others = _cells(result, [name for name in result.measures if name not in at_k])
            return "\n\n".join([table, _columns([*map(list, others.items())])] if others else [table])
    return _columns([*map(list, _cells(result, list(result.measures)).items())])


def _digits_of(name: str) -> int:
    """Return the decimals of a measure: two in percent, otherwise five."""
    return 2 if name == "accuracy" or ("@" in name and not name.startswith("ECE")) else 5


def _cells(result: api.Evaluation, names: list[str]) -> dict[str, str]:
    """Format the values of measures with their intervals, as wide as each other; the values end where others do."""
    texts = {}
    for name in names:
        low, high = result.intervals[name]
        digits = _digits_of(name)
        texts[name] = (f"{result.measures[name]:.{digits}f}", f"[{low:.{digits}f}, {high:.{digits}f}]")
    widths = [max(map(len, column)) for column in zip(*texts.values(), strict=True)]
    return {name: f"{value:>{widths[0]}} {interval:<{widths[1]}}" for name, (value, interval) in texts.items()}


def _differences_table(measures: Mapping[str, Difference]) -> str:
    """Format the measures of two methods and their differences."""
    rows = [["", "A", "B", "A - B", "95 % interval", "p"]]
    for name, row in measures.items():
        digits = _digits_of(name)
        low, high = (f"{end:+.{digits}f}" for end in row.interval)
        p = "<0.001" if row.p < 0.001 else f"{row.p:.3f}"
        rows.append(
            [name, f"{row.a:.{digits}f}", f"{row.b:.{digits}f}", f"{row.difference:+.{digits}f}", f"[{low}, {high}]", p]
        )
    return _columns(rows)


def _conclusion(measures: Mapping[str, Difference]) -> str:
    """Return in words which differences are beyond chance."""
    parts = []
    certain = 0
    for who, sign in ("A is above B", 1), ("B is above A", -1):
        names = [name for name, row in measures.items() if min(sign * end for end in row.interval) > 0]
        certain += len(names)
        if names:
            row = measures[names[0]]
            ends = (*row.interval[::sign], row.difference)
            low, high, gap = (f"{abs(value):.{_digits_of(names[0])}f}" for value in ends)
            parts.append(f"{who} in {', '.join([f'{names[0]} by {gap} ({low} to {high})', *names[1:]])}")
    if not parts:
        return "No difference is certain: chance makes differences as large."
    if certain < len(measures):
        parts.append("other differences may be chance")
    return "; ".join(parts) + "."
