"""`xmlgp compare`: compare two methods on the same points."""

from __future__ import annotations

import json
import math
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

from xmlgp import api
from xmlgp.cli.evaluate import columns, parse_ks
from xmlgp.cli.options import INPUT, OptionValue, check_standard_input, reading_options, source_of
from xmlgp.metrics.intervals import Difference, Interval
from xmlgp.runs.compare import POINTS, Comparison, FrequencyGroup, Listed, PointDifference
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import escape

__all__ = ["compare"]

#: Columns of text, if standard output is no narrower terminal.
WIDTH = 100

#: Measures of a ranking that are printed by default.
RANKING = ("P", "nDCG", "PSP", "PSnDCG")

#: Measures of which less is better.
LOSSES = ("log_loss",)

#: Measures in percent beside those @k.
PERCENT = ("accuracy",)


@click.command()
@click.argument("a", type=INPUT)
@click.argument("b", type=INPUT)
@click.argument("data", type=INPUT)
@click.option(
    "--train",
    type=INPUT,
    help="Training data or a model, for PSP and PSnDCG, differences by training points of labels, and names of labels.",
)
@click.option(
    "-k",
    "ks",
    callback=parse_ks,
    default="1,3,5",
    show_default=True,
    metavar="K,K,...",
    help="Values of k for the measures @k.",
)
@click.option("--macro", is_flag=True, help="Also print recall@k, coverage@k and macro precision, recall and F1@k.")
@click.option(
    "--points",
    "count",
    type=click.IntRange(0, POINTS),
    default=10,
    show_default=True,
    help="Print so many of the points that differ most.",
)
@click.option(
    "--filter-labels",
    type=INPUT,
    metavar="FILE",
    help="Leave out pairs of a point and a label, neither scores nor true labels: lines `point label`, from 0.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, in full precision.")
@reading_options
def compare(a: str, b: str, data: str, ks: list[int], macro: bool, count: int, **options: OptionValue) -> None:
    """Compare the scores A and B of two methods with the true labels in DATA.

    A, B and DATA are files as for evaluate, of any program: scores files, JSON Lines, tables, lines of `label:score`,
    .npz. Both rank labels, or both have assigned labels.

    For each measure of evaluate it prints A, B, the difference A - B with its 95 % interval, and p, the probability
    that chance makes a difference as large. Both methods are measured on the same resampled points: what both find hard
    does not count, so differences are much more certain than the measures themselves. An interval without 0 is the same
    as p < 0.05. Of twenty measures one has p < 0.05 by chance, so choose the measure that matters before you look. The
    intervals are about other test points, not about other training points or seeds.

    With --train, it also prints the share of the true labels among the first k labels, recall, by the number of
    training points of the label, for the greatest k, and what these labels add to the difference in P@k.

    The points that differ most follow, by the discounted hits among the first k labels, or by F1 of assigned labels. A
    * marks true labels.

    \b
    Examples:
      xmlgp predict models/bibtex data/bibtex -k 5 -o ours.scores
      xmlgp compare ours.scores omikuji.txt data/bibtex --train data/bibtex
      xmlgp compare ours.jsonl theirs.csv new.csv --points 20
      xmlgp compare ours.scores pyxclib.npz tst_X_Y.txt --json
    """
    check_standard_input(a, b, data, options["train"], options["filter_labels"])
    as_json = options.pop("as_json")
    result = api.compare(a, b, source_of(data, options), ks=ks, **options)
    are_all = macro or result.kind != "ranking"
    measures = {name: row for name, row in result.measures.items() if are_all or name.partition("@")[0] in RANKING}
    points = result.points[:count]
    if as_json:
        click.echo(json.dumps(_facts(measures, result, points)))
        return
    parts = [f"A  {a}\nB  {b}", _measures_table(measures)]
    if result.groups:
        parts.append(_groups_table(result.groups, result.k))
    if points:
        parts.append(_points_text(points, result.k))
    click.echo("\n\n".join([*parts, _wrapped(_conclusion(measures))]))


def _wrapped(text: str, indent: str = "") -> str:
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns)
    return textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _digits(name: str) -> int:
    """Return the decimals that a measure is printed with."""
    return 2 if "@" in name or name in PERCENT else 5


def _cells(row: Difference, digits: int = 2) -> list[str]:
    """Return what a table has of a difference."""
    interval = f"[{row.interval.low:+.{digits}f}, {row.interval.high:+.{digits}f}]"
    p = "" if math.isnan(row.p) else "<0.001" if row.p < 0.001 else f"{row.p:.3f}"
    return [f"{row.a:.{digits}f}", f"{row.b:.{digits}f}", f"{row.difference:+.{digits}f}", interval, p]


def _measures_table(measures: Mapping[str, Difference]) -> str:
    rows = [[name, *_cells(row, _digits(name))] for name, row in measures.items()]
    return columns([["", "A", "B", "A - B", "95 % interval", "p"], *rows])


def _groups_table(groups: Sequence[FrequencyGroup], k: int) -> str:
    """Format the differences by training points, one group per row."""
    rows = [[row.training_points, str(row.true), *_cells(row.recall), f"{row.precision:+.2f}"] for row in groups]
    title = f"recall@{k} by training points of the label, and what these labels add to A - B of P@{k}"
    head = ["points", "true", "A", "B", "A - B", "95 % interval", "p", f"P@{k}"]
    return f"{_wrapped(title)}\n{columns([head, *rows])}"


def _points_text(points: Sequence[PointDifference], k: int) -> str:
    """Format points with their true labels and those of both methods."""
    where = f" in their first {counted(k, 'label')}" if k else ""
    lines = [_wrapped(f"points that differ most{where}; * marks true labels")]
    for row in points:
        lines.append(
            f"point {escape(str(row.point))}: A has {row.a.hits}, B has {row.b.hits} of {len(row.labels)} true labels"
        )
        lines += [
            _wrapped(f"  {title}  {'; '.join(labels)}".rstrip(), "     ")
            for title, labels in (
                ("true", [escape(str(label)) for label in row.labels]),
                ("A   ", _marked(row.a, row.labels)),
                ("B   ", _marked(row.b, row.labels)),
            )
        ]
    return "\n".join(lines)


def _marked(listed: Listed, true: Sequence[Any]) -> list[str]:
    """Return labels, those that are true with a mark."""
    return [f"{'*' if label in true else ''}{escape(str(label))}" for label in listed.labels]


def _conclusion(measures: Mapping[str, Difference]) -> str:
    """Return in words which differences are beyond chance."""
    ahead: dict[str, list[str]] = {"A is ahead of B": [], "B is ahead of A": []}
    for name, row in measures.items():
        if row.interval.low > 0 or row.interval.high < 0:
            is_better = (row.difference > 0) != (name in LOSSES)
            ahead["A is ahead of B" if is_better else "B is ahead of A"].append(name)
    parts = []
    for who, names in ahead.items():
        if names:
            row = measures[names[0]]
            ends = sorted(map(abs, row.interval))
            low, high, gap = (f"{value:.{_digits(names[0])}f}" for value in (*ends, abs(row.difference)))
            rest = " and ".join(filter(None, [", ".join(names[1:-1]), *names[1:][-1:]]))
            where = "in every measure, " if len(names) == len(measures) > 1 else ""
            also = f", and in {rest}" if rest and not where else ""
            parts.append(f"{who} {where}in {names[0]} by {gap} ({low} to {high}){also}")
    if all(row.difference == 0 and row.p == 1 for row in measures.values()):
        return "A and B are equal in every measure."
    if not parts:
        return "No difference is certain: chance makes differences as large."
    sure = sum(map(len, ahead.values()))
    if sure < len(measures):
        parts.append(f"the other difference{'s' if len(measures) - sure > 1 else ''} may be chance")
    return "; ".join(parts) + "."


def _facts(
    measures: Mapping[str, Difference], result: Comparison, points: Sequence[PointDifference]
) -> dict[str, object]:
    """Return a comparison for JSON, without parts that are empty."""
    groups = [
        {"training_points": row.training_points, "labels": row.labels, "true": row.true}
        | {f"recall@{result.k}": _difference_facts(row.recall), f"P@{result.k}": row.precision}
        for row in result.groups
    ]
    shown = [row._asdict() | {"a": row.a._asdict(), "b": row.b._asdict()} for row in points]
    additions = {"training_points": groups, "points": shown, "unknown_labels": result.unknown}
    return {name: _difference_facts(row) for name, row in measures.items()} | {
        name: value for name, value in additions.items() if value
    }


def _difference_facts(row: Difference) -> dict[str, object]:
    """Return a difference for JSON, which has no NaN."""
    return {
        name: list(value) if isinstance(value, Interval) else None if math.isnan(value) else value
        for name, value in row._asdict().items()
    }
