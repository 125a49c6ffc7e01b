"""`xmlgp compare`: compare two methods on the same points."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import click

from xmlgp import api
from xmlgp.cli.evaluate import columns, digits_of, filter_option, ks_option
from xmlgp.cli.help import Subcommand, option
from xmlgp.cli.options import COLUMNS, INPUT, OptionValue, check_standard_input, reading_options, source_of
from xmlgp.metrics.intervals import Difference
from xmlgp.runs.compare import POINTS, Comparison, PointDifference
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import escape

__all__ = ["compare"]

#: The titles of what tables have of a difference.
HEAD = ["A", "B", "A - B", "95 % interval", "p"]

#: Measures of a ranking that are printed by default.
RANKING = ("P", "nDCG", "PSP", "PSnDCG")


@click.command(cls=Subcommand, common=["-k", "--macro", "--train", *COLUMNS, "--points", "--json", "--quiet"])
@click.argument("a", type=INPUT)
@click.argument("b", type=INPUT)
@click.argument("data", type=INPUT)
@option(
    "--train",
    type=INPUT,
    group="Data",
    help="Training data or a model, for PSP and PSnDCG, differences by deciles of labels, and names of labels.",
)
@ks_option
@option(
    "--macro",
    is_flag=True,
    group="Measures",
    help="Also print recall@k, coverage@k and macro precision, recall and F1@k.",
)
@option(
    "--points",
    "count",
    type=click.IntRange(0, POINTS),
    default=10,
    show_default=True,
    group="Output",
    help="Print so many of the points that differ most.",
)
@filter_option
@option("--json", "as_json", is_flag=True, group="Output", help="Print one JSON object, in full precision.")
@reading_options()
def compare(a: str, b: str, data: str, ks: list[int], macro: bool, count: int, **options: OptionValue) -> None:
    """Compare the scores A and B of two methods with the true labels in DATA.

    A, B and DATA are files as for `xmlgp evaluate`, of any program. For each measure it prints A, B, the difference
    A - B with its 95 % interval, and p, the probability that chance makes a difference as large.

    \b
    Examples:
      xmlgp compare ours.jsonl theirs.csv new.csv --points 20
      xmlgp compare ours.scores omikuji.txt data/bibtex --train data/bibtex
      xmlgp compare ours.scores pyxclib.npz tst_X_Y.txt --json

    A and B are scores files, JSON Lines, tables, lines of `label:score`, or .npz. Both rank labels, or both have
    assigned labels.

    Both methods are measured on the same resampled points: what both find hard does not count, so differences are much
    more certain than the measures themselves. An interval without 0 is the same as p < 0.05. Of twenty measures one has
    p < 0.05 by chance, so choose the measure that matters before you look. The intervals are about other test points,
    not about other training points or seeds.

    With --train, it also prints the difference in recall@k by deciles of labels, the most frequent in training first,
    as evaluate --deciles divides them, and what each adds to the difference in P@k, for the greatest k.

    The points that differ most follow, by F1 of the first k labels, for the greatest k, or of assigned labels. A star
    marks true labels.
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
    rows = [[name, *_cells(row, digits_of(name))] for name, row in measures.items()]
    parts = [f"A  {a}\nB  {b}", columns([["", *HEAD], *rows])]
    if result.deciles:
        parts.append(_decile_table(result))
    if points:
        parts.append(_points_text(points, result.k))
    click.echo("\n\n".join([*parts, _conclusion(measures)]))


def _cells(row: Difference, digits: int = 2) -> list[str]:
    """Return what a table has of a difference."""
    low, high = (f"{end:+.{digits}f}" for end in row.interval)
    p = "<0.001" if row.p < 0.001 else f"{row.p:.3f}"
    return [f"{row.a:.{digits}f}", f"{row.b:.{digits}f}", f"{row.difference:+.{digits}f}", f"[{low}, {high}]", p]


def _decile_table(result: Comparison) -> str:
    """Format the differences by deciles of labels, one decile per row."""
    rows = [["decile", "training", "true", *HEAD, f"P@{result.k}"]]
    for row in result.deciles:
        recall = _cells(row.measures[f"recall@{result.k}"])
        added = f"{row.measures[f'P@{result.k}'].difference:+.2f}"
        rows.append([str(row.decile), row.training_points, str(row.true), *recall, added])
    return f"recall@{result.k} by deciles of labels, and what each adds to A - B of P@{result.k}\n{columns(rows)}"


def _points_text(points: Sequence[PointDifference], k: int) -> str:
    """Format points with their true labels and those of both methods."""
    where = f" in their first {counted(k, 'label')}" if k else ""
    lines = [f"points that differ most{where}; * marks true labels"]
    for row in points:
        of_all = f"of {counted(len(row.labels), 'true label')}"
        lines.append(f"point {escape(str(row.point))}: A has {row.hits[0]}, B has {row.hits[1]} {of_all}")
        lines.append(f"  true  {'; '.join(map(str, row.labels))}")
        # Names in one file may be numbers in another.
        marked = {str(label): f"*{label}" for label in row.labels}
        for title, labels in ("A", row.a), ("B", row.b):
            lines.append(
                f"  {title}     {'; '.join([marked.get(str(label), str(label)) for label in labels])}".rstrip()
            )
    return "\n".join(lines)


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
            low, high, gap = (f"{abs(value):.{digits_of(names[0])}f}" for value in ends)
            parts.append(f"{who} in {', '.join([f'{names[0]} by {gap} ({low} to {high})', *names[1:]])}")
    if not parts:
        return "No difference is certain: chance makes differences as large."
    if certain < len(measures):
        parts.append("other differences may be chance")
    return "; ".join(parts) + "."


def _facts(
    measures: Mapping[str, Difference], result: Comparison, points: Sequence[PointDifference]
) -> dict[str, object]:
    """Return a comparison for JSON, without parts that are empty."""
    deciles = []
    for row in result.deciles:
        counts = {"decile": row.decile, "labels": row.labels, "training points": row.training_points, "true": row.true}
        deciles.append(counts | {name: difference._asdict() for name, difference in row.measures.items()})
    additions = {"deciles": deciles, "points": [row._asdict() for row in points], "unknown_labels": result.unknown}
    facts = {name: row._asdict() for name, row in measures.items()}
    return facts | {name: value for name, value in additions.items() if value}
