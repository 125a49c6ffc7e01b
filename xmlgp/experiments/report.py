"""The report of an experiment: its table as Markdown and, with every number, as JSON, and its figure as PNG and PDF."""

import contextlib
import json
import os
import platform
from datetime import date

import numpy as np

from xmlgp.experiments.cells import training_seconds
from xmlgp.plots import finish_panels, panels_in_a_row, save_figure
from xmlgp.runtime.atomic_files import atomic_write

__all__ = ["collect", "write_report"]


def write_report(experiment, entries, results):
    """Write the table and the figure of an experiment from the results of its cells in a folder.

    `entries` are those of the catalogue. Returns the Markdown, and the files of the figure.
    """
    results.mkdir(parents=True, exist_ok=True)
    rows = collect(experiment, entries, results)
    markdown = write_table(experiment, rows, results)
    return markdown, draw_figure(experiment, results) if rows and experiment.kind.draw else []


def collect(experiment, entries, results):
    """Return the rows of an experiment that have results, as plain data."""
    rows, cell = [], experiment.kind.cell
    for dataset, method, variant, done in experiment.finished_rows(results):
        measures = {name: [result["measures"][name] for result in done] for name in done[0]["measures"]}
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
                "threads": done[0]["threads"],
                "training_s": training_seconds(done),
                "seconds": float(sum(map(_seconds, done))),
                "paper": reported.get(method),
                "others": {name: value for name, value in reported.items() if name != method},
            }
        )
    return rows


def _std(values):
    """Return the standard deviation with divisor n − 1, zero for a single value."""
    return float(np.std(values, ddof=min(1, len(values) - 1)))


def _seconds(result):
    """Return the seconds of preprocessing and of all training of a cell."""
    pilots = sum(pilot.get("seconds", 0) for pilot in result.get("pilots", ()))
    return result["preprocess_s"] + result["history"][-1]["seconds"] + pilots


def write_table(experiment, rows, results):
    """Write results/NAME.json and results/NAME.md and return the Markdown."""
    about = {
        "experiment": experiment.name,
        "title": experiment.title,
        "date": date.today().isoformat(),
        "machine": f"{_machine()}, {rows[0]['threads'] if rows else '?'} thread(s) a cell",
        "training_s": round(sum(row["seconds"] for row in rows), 1),
        "not_there": list(experiment.missing),
    }
    _write(results / f"{experiment.name}.json", json.dumps(about | {"rows": rows}, indent=1))
    lines = [f"# {experiment.title}", "", *experiment.kind.table(rows), ""]
    lines.append(f"{about['date']}, {about['machine']}; {about['training_s']:.0f} s of training in all.")
    if experiment.missing:
        lines.append(f"Not run, as the data are missing: {', '.join(experiment.missing)}.")
    markdown = "\n".join(lines) + "\n"
    _write(results / f"{experiment.name}.md", markdown)
    return markdown


def _write(file, text):
    with atomic_write(file) as stream:
        stream.write(text.encode())


def _machine():
    """Return the name of the processor, if the system has it, and the number of cores."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores"


def draw_figure(experiment, results):
    """Draw an experiment's figure from the results of its cells in a folder; return the files written there."""
    rows, kind = experiment.finished_rows(results), experiment.kind
    panels = {}
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
