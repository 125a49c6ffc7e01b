"""The report of an experiment: its table as Markdown, and its figure as PNG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.catalogue import Experiment
from benchmarks.papers.cells import cell_seconds, read_results, training_seconds
from benchmarks.papers.layout import finish_panels, panels_in_a_row
from xmlgp.data.catalogue import Entry
from xmlgp.runtime.atomic_files import atomic_write

__all__ = ["collect", "table", "write_report"]


def write_report(experiment: Experiment, entries: Mapping[str, Entry], folder: Path) -> str:
    """Write FOLDER/NAME.md, and NAME.png for a figure, from the results of cells in the folder; return the Markdown.

    `entries` are those of the catalogue. An experiment without cells to be run writes nothing.
    """
    results = read_results(folder)
    markdown = table(experiment, collect(experiment, entries, results))
    if experiment.cells:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / f"{experiment.name}.md") as stream:
            stream.write(markdown.encode())
        if experiment.kind.draw:
            draw_figure(experiment, results, folder / f"{experiment.name}.png")
    return markdown


def table(experiment: Experiment, rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of an experiment as Markdown, and below it when and where its rows were measured."""
    lines = [f"# {experiment.title}", ""]
    if experiment.epochs_scale != 1:
        sets = ", ".join(dict.fromkeys(row["dataset"] for row in rows))
        last = max(row["restarts"] for row in rows) - 1
        text = f"Not the experiment of the paper, but {experiment.epochs_scale:g} of its epochs or seconds of training"
        lines += [f"{text}; data sets: {sets}; seeds: {f'0 to {last}' if last else 0}.", ""]
    for name in dict.fromkeys(row["dataset"] for row in rows):
        if name in experiment.other_sizes:
            lines += [f"{name} is not the data set of the catalogue: {experiment.other_sizes[name]}.", ""]
    lines += [*experiment.kind.table(rows), ""]
    if experiment.note:
        lines += [experiment.note, ""]
    measured: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        place = f"{row['date']}, {row['machine']}, {row['threads']} thread(s) a cell"
        measured.setdefault(place, []).append(row)
    for place, of_them in measured.items():
        which = "" if len(measured) == 1 else f"{', '.join(map(_name, of_them))}: "
        lines.append(f"{which}{place}; {_seconds_of(of_them):.0f} s of training in all.")
    with_rows = {row["dataset"] for row in rows}
    without = [name for name in dict.fromkeys(row[0] for row in experiment.rows) if name not in with_rows]
    if without:
        lines.append(f"Not run, as the data are missing: {', '.join(without)}.")
    return "\n".join(lines) + "\n"


def collect(
    experiment: Experiment, entries: Mapping[str, Entry], results: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows of an experiment that have results (`read_results`), as plain data."""
    rows: list[dict[str, Any]] = []
    cell = experiment.kind.cell
    for dataset, method, variant, done in experiment.finished_rows(results):
        measures = {name: [result["measures"][name] for result in done] for name in done[0]["measures"]}
        latest = max(done, key=lambda result: str(result["date"]))
        reported = entries[dataset].results.get(experiment.compare, {})
        rows.append(
            {
                "dataset": dataset,
                "method": method,
                "variant": variant,
                "restarts": len(done),
                "settings": done[0]["settings"],
                "measures": {name: {"mean": float(np.mean(v)), "std": _std(v)} for name, v in measures.items()},
                cell.model.objective: [result["history"][-1][cell.model.objective] for result in done],
                "minutes_an_epoch": float(np.median([result["epoch_s"] for result in done])) / 60,
                **cell.columns(done),
                **{name: latest[name] for name in ("threads", "date", "machine")},
                "training_s": training_seconds(done),
                "seconds": float(sum(map(cell_seconds, done))),
                "paper": reported.get(method),
                "others": {name: value for name, value in reported.items() if name != method},
            }
        )
    return rows


def _std(values: Sequence[float]) -> float:
    """Return the standard deviation with divisor n − 1, zero for a single value."""
    return float(np.std(values, ddof=min(1, len(values) - 1)))


def _seconds_of(rows: Sequence[Mapping[str, Any]]) -> float:
    return round(float(sum(row["seconds"] for row in rows)), 1)


def _name(row: Mapping[str, str]) -> str:
    return " ".join(filter(None, (row["dataset"], row["method"], row["variant"])))


def draw_figure(experiment: Experiment, results: Mapping[str, dict[str, Any]], file: Path) -> None:
    """Draw the figure of an experiment from the results of cells."""
    kind = experiment.kind
    panels: dict[str, list[tuple[str, str, list[dict[str, Any]]]]] = {}
    for dataset, method, variant, done in experiment.finished_rows(results):
        title = kind.title.format(dataset=dataset, method=method, **done[0].get("sizes", {}))
        panels.setdefault(title, []).append((method, variant, done))
    figure, axes = panels_in_a_row(len(panels))
    for axis, panel in zip(axes, panels.values(), strict=True):
        kind.draw(axis, panel, experiment.styles)
    finish_panels(axes, list(panels), kind.ylabel)
    figure.savefig(file, dpi=150)
