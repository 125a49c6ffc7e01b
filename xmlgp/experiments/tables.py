"""Tables of results: JSON with every number, and Markdown with the paper's number, ours and the difference."""

import contextlib
import json
import os
import platform
from datetime import date

import numpy as np
from scipy.stats import linregress

from xmlgp.experiments.cells import read_result
from xmlgp.runtime.atomic_files import atomic_write

__all__ = [
    "accuracy_table",
    "auc_table",
    "collect",
    "minutes_table",
    "precision_table",
    "restarts_table",
    "seconds_until_settled",
    "share_table",
    "training_seconds",
    "write_table",
]

PRECISIONS = ("P@1", "P@3", "P@5")

#: The measures of [L] besides precision.
FURTHER_MEASURES = ("nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "PSnDCG@3", "PSnDCG@5")

#: Percentage points: a method has arrived when its accuracy stays this close to the best.
NEAR = 0.5


def collect(experiment, entries, results):
    """Return the rows of an experiment that have results, as plain data."""
    rows = []
    for dataset, method, variant, cells in experiment.rows:
        done = [result for cell in cells if (result := read_result(cell, results)) is not None]
        if not done:
            continue
        measures = {
            name: {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=min(1, len(values) - 1)))}
            for name in done[0]["measures"]
            for values in [[result["measures"][name] for result in done]]
        }
        objective = experiment.kind.cell.model.objective
        reported = entries[dataset].results.get(experiment.compare, {})
        rows.append(
            {
                "dataset": dataset,
                "method": method,
                "variant": variant,
                "restarts": len(done),
                "settings": done[0]["settings"],
                "measures": measures,
                objective: [result["history"][-1][objective] for result in done],
                "minutes_an_epoch": float(np.median([result["epoch_s"] for result in done])) / 60,
                **cells[0].columns(done),
                "threads": done[0]["threads"],
                "training_s": training_seconds(done),
                "seconds": float(sum(map(_seconds, done))),
                "paper": reported.get(method),
                "others": {name: value for name, value in reported.items() if name != method},
            }
        )
    return rows


def training_seconds(results):
    """Return the seconds of a training run: its epochs times their median seconds, the least of all restarts.

    The minimum is the least disturbed by other work on the machine, which can only add to it.
    """
    return float(min(result["history"][-1]["epoch"] * result["epoch_s"] for result in results))


def seconds_until_settled(history, least):
    """Return the seconds from which on every accuracy of a history is at least a given one, or None."""
    settled = None
    for moment in reversed(history):
        if moment["accuracy"] < least:
            break
        settled = moment["seconds"]
    return settled


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


def precision_table(rows):
    """Yield the lines of a table of precision in %, and of the seconds of the bound and of its KL terms."""
    yield from _head("data set", "method", *(f"{n} paper / ours / difference" for n in PRECISIONS), "bound s", "KL s")
    for row in rows:
        paper = (row["paper"] or {}).get("p") if isinstance(row["paper"], dict) else row["paper"]
        cells = []
        for i, name in enumerate(PRECISIONS):
            ours = row["measures"][name]["mean"]
            cells.append(f"{paper[i]:.2f} / {ours:.2f} / {ours - paper[i]:+.2f}" if paper else f"— / {ours:.2f} / —")
        theirs = row["paper"] if isinstance(row["paper"], dict) else {}
        times = [
            f"{theirs[key]} / {row[key]:.4f}" if key in theirs else f"{row[key]:.4f}" for key in ("bound_s", "kl_s")
        ]
        yield _line(row["dataset"], row["method"], *cells, *times)
    for dataset, method, paper in _published(rows):
        if isinstance(paper, list):
            yield _line(dataset, method, *(f"{value:.2f} / — / —" for value in paper), "", "")


def _published(rows):
    """Yield data set, method and the paper's numbers of the methods that have no row of their own."""
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        others = next(row["others"] for row in rows if row["dataset"] == dataset)
        ran = {row["method"] for row in rows if row["dataset"] == dataset}
        yield from ((dataset, f"{method} (published)", paper) for method, paper in others.items() if method not in ran)


def minutes_table(rows):
    """Yield the lines of a table of minutes per epoch."""
    yield from _head("data set", "method", "minutes per epoch, paper", "ours", "times faster")
    for row in rows:
        ours, paper = row["minutes_an_epoch"], row["paper"]
        yield _line(
            row["dataset"],
            row["method"],
            paper if paper else "—",
            f"{ours:.4f}",
            f"{paper / ours:.0f}" if paper else "—",
        )


def auc_table(rows):
    """Yield the lines of a table of AUC, precision in % and seconds."""
    averages = ("AUC_instance", "AUC_micro", "AUC_macro")
    yield from _head("data set", "method", "topics", "AUC, paper", *averages, *PRECISIONS, "seconds")
    for row in rows:
        means = {name: value["mean"] for name, value in row["measures"].items()}
        paper = "—" if row["paper"] is None else f"{row['paper']:.4f}"
        ours = *(f"{means[name]:.4f}" for name in averages), *(f"{means[name]:.2f}" for name in PRECISIONS)
        yield _line(row["dataset"], row["method"], row["topics"], paper, *ours, f"{row['seconds']:.1f}")
    for dataset, method, paper in _published(rows):
        yield _line(dataset, method, "", f"{paper:.4f}", *[""] * 7)


def share_table(rows):
    """Yield the lines of a table of seconds by share of the positive labels, and the straight line through them."""
    yield from _head("data set", "method", "share of the positive labels", "topics", "seconds", "AUC_instance")
    for row in rows:
        area = row["measures"]["AUC_instance"]["mean"]
        share = f"{row['settings']['revealed']:.0%}"
        yield _line(row["dataset"], row["method"], share, row["topics"], f"{row['training_s']:.2f}", f"{area:.4f}")
    if len(rows) > 1:
        fit = linregress([row["settings"]["revealed"] for row in rows], [row["training_s"] for row in rows])
        yield ""
        line = f"{fit.intercept:.2f} + {fit.slope:.2f} × share"
        yield f"Seconds = {line}, which explains {fit.rvalue**2:.1%} of the variance."


def accuracy_table(rows):
    """Yield the lines of a table of final accuracies and of the time to near-best accuracy, then the learning rates."""
    arrived = f"seconds to within {NEAR} of the best"
    yield from _head("data set", "method", "accuracy %", "log loss", "bound", arrived, "seconds", "iterations", "ended")
    best = {}
    for row in rows:
        best[row["dataset"]] = max(best.get(row["dataset"], 0), row["measures"]["accuracy"]["mean"])
    for row in rows:
        last = row["history"][-1]
        settled = seconds_until_settled(row["history"], best[row["dataset"]] - NEAR)
        yield _line(
            row["dataset"],
            row["method"],
            f"{last['accuracy']:.2f}",
            f"{last['log_loss']:.4f}",
            f"{last['bound']:.1f}",
            "—" if settled is None else f"{settled:.3g}",
            f"{last['seconds']:.3g}",
            f"{last['epoch']:.4g}",
            row["ended"],
        )
    for row in rows:
        if row["pilots"]:
            tried = ", ".join(
                f"{pilot['learning_rate']:g}: {pilot['bound']:.1f}"
                if "bound" in pilot
                else f"{pilot['learning_rate']:g}: {pilot['ended']}"
                for pilot in row["pilots"]
            )
            chosen, batch_size = row["settings"]["learning_rate"], row["settings"]["batch_size"]
            yield ""
            yield (
                f"{row['dataset']}, {row['method']}: minibatches of {batch_size}; learning rate {chosen:g}, which had "
                f"the highest bound after a quarter of the time ({tried})."
            )


def restarts_table(rows):
    """Yield the lines of a table of means ± standard deviations over restarts."""
    names = (*PRECISIONS, *FURTHER_MEASURES)
    yield from _head("data set", "method", "", "restarts", *names, "bound")
    for row in rows:
        cells = [_spread(row["measures"][name].values(), 2) for name in names]
        bound = (np.mean(row["bound"]), np.std(row["bound"], ddof=min(1, len(row["bound"]) - 1)))
        yield _line(row["dataset"], row["method"], row["variant"], row["restarts"], *cells, _spread(bound, 0))


def _spread(mean_and_std, digits):
    mean, std = mean_and_std
    return f"{mean:.{digits}f} ± {std:.{digits}f}" if std else f"{mean:.{digits}f}"


def _head(*names):
    return _line(*names), _line(*["---"] * len(names))


def _line(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"
