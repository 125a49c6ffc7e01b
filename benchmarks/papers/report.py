"""The report of an experiment: its table as Markdown and, with every number, as JSON, and its figure as PNG and PDF."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.catalogue import Experiment
from benchmarks.papers.cells import cell_seconds, machine, training_seconds
from benchmarks.papers.layout import comparison_table
from xmlgp.data.catalogue import Entry
from xmlgp.plots import finish_panels, panels_in_a_row, save_figure
from xmlgp.runtime.atomic_files import atomic_write

__all__ = ["beside_kept", "collect", "write_report"]


def write_report(experiment: Experiment, entries: Mapping[str, Entry], results: Path) -> tuple[str, list[Path]]:
    """Write the table and the figure of an experiment from the results of its cells in a folder.

    `entries` are those of the catalogue. Returns the Markdown, and the files of the figure. An experiment without cells
    to be run writes nothing.
    """
    rows = collect(experiment, entries, results)
    markdown = write_table(experiment, rows, results)
    return markdown, draw_figure(experiment, results) if experiment.kind.draw and experiment.cells else []


def beside_kept(experiment: Experiment, entries: Mapping[str, Entry], kept: Path) -> Experiment:
    """Return an experiment whose table has its rows beside those in another folder, and beside the paper's numbers."""
    # Cells that were kept before they had a date have that of the table.
    earlier = _earlier(kept / f"{experiment.name}.json")
    dated = {name: earlier[name] for name in ("date", "machine") if name in earlier}
    rows = [dated | row for row in collect(experiment, entries, kept)]
    compared = experiment.kind.compared
    return experiment._replace(
        title=f"{experiment.title}, trained again",
        kind=experiment.kind._replace(table=lambda again: comparison_table(again, rows, compared)),
    )


def collect(experiment: Experiment, entries: Mapping[str, Entry], results: Path) -> list[dict[str, Any]]:
    """Return the rows of an experiment that have results, as plain data."""
    rows: list[dict[str, Any]] = []
    cell = experiment.kind.cell
    for dataset, method, variant, done in experiment.finished_rows(results):
        measures = {name: [result["measures"][name] for result in done] for name in done[0]["measures"]}
        # Results of the first experiments have no date.
        latest = max(done, key=lambda result: str(result.get("date", "")))
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
                **{name: latest[name] for name in ("threads", "date", "machine") if name in latest},
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


def write_table(experiment: Experiment, rows: Sequence[dict[str, Any]], results: Path) -> str:
    """Write results/NAME.json and results/NAME.md, if there are cells to be run, and return the Markdown.

    Cells that were kept before they had a date have that of the earlier results/NAME.json.
    """
    earlier = _earlier(results / f"{experiment.name}.json")
    measured = {}
    undated = [row for row in rows if "date" not in row]
    if undated:
        usual = date.today().isoformat(), _on(undated[0], machine())
        measured[earlier.get("date", usual[0]), earlier.get("machine", usual[1])] = undated
    for row in rows:
        if "date" in row:
            measured.setdefault((row["date"], _on(row, row["machine"])), []).append(row)
    without_rows = {*experiment.missing, *earlier.get("not_there", ())}.difference(row["dataset"] for row in rows)
    scale = {} if experiment.epochs_scale == 1 else {"epochs_scale": experiment.epochs_scale}
    about = {
        "experiment": experiment.name,
        "title": experiment.title,
        **scale,
        **dict(zip(("date", "machine"), next(iter(measured)), strict=True)),
        "training_s": _seconds_of(rows),
        "not_there": [name for name in dict.fromkeys(row[0] for row in experiment.rows) if name in without_rows],
    }
    lines = [f"# {experiment.title}", ""]
    if scale:
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
    for (day, where), of_them in measured.items():
        which = "" if len(measured) == 1 else f"{', '.join(map(_name, of_them))}: "
        lines.append(f"{which}{day}, {where}; {_seconds_of(of_them):.0f} s of training in all.")
    if about["not_there"]:
        lines.append(f"Not run, as the data are missing: {', '.join(about['not_there'])}.")
    markdown = "\n".join(lines) + "\n"
    if experiment.cells:
        results.mkdir(parents=True, exist_ok=True)
        _write(results / f"{experiment.name}.json", json.dumps(about | {"rows": rows}, indent=1))
        _write(results / f"{experiment.name}.md", markdown)
    return markdown


def _earlier(file: Path) -> dict[str, Any]:
    """Return what an earlier table says about itself."""
    with contextlib.suppress(OSError, ValueError):
        entries: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return entries
    return {}


def _seconds_of(rows: Sequence[Mapping[str, Any]]) -> float:
    return round(float(sum(row["seconds"] for row in rows)), 1)


def _on(row: Mapping[str, Any], processor: str) -> str:
    return f"{processor}, {row['threads']} thread(s) a cell"


def _name(row: Mapping[str, str]) -> str:
    return " ".join(filter(None, (row["dataset"], row["method"], row["variant"])))


def _write(file: Path, text: str) -> None:
    with atomic_write(file) as stream:
        stream.write(text.encode())


def draw_figure(experiment: Experiment, results: Path) -> list[Path]:
    """Draw an experiment's figure from the results of its cells in a folder; return the files written there."""
    rows = experiment.finished_rows(results)
    kind = experiment.kind
    panels: dict[str, list[tuple[str, str, list[dict[str, Any]]]]] = {}
    for dataset, method, variant, done in rows:
        title = kind.title.format(dataset=dataset, method=method, **done[0].get("sizes", {}))
        panels.setdefault(title, []).append((method, variant, done))
    figure, axes = panels_in_a_row(len(panels))
    for axis, panel in zip(axes, panels.values(), strict=True):
        kind.draw(axis, panel, experiment.styles)
    finish_panels(axes, list(panels), kind.ylabel)
    files = [results / f"{experiment.name}.{suffix}" for suffix in ("png", "pdf")]
    for file in files:
        save_figure(figure, file)
    return files
