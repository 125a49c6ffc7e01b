"""Tables of finished cells: JSON with every figure, and Markdown with the paper's number, ours and the difference."""

import contextlib
import json
import os
import platform
from datetime import date
from typing import NamedTuple

import numpy as np

from xmlgp.experiments.cells import read_cell
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.training.history import OBJECTIVES

__all__ = ["LinearFit", "collect", "linear_fit", "settled_after", "steady_seconds", "write_table"]

PRECISIONS = ("P@1", "P@3", "P@5")

#: What [L] reports beside precision.
FURTHER = ("nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "PSnDCG@3", "PSnDCG@5")

#: Points of accuracy within which of the best a method has arrived.
NEAR = 0.5

#: What results of a model have beside what all have.
OWN = {
    "bmlpl": ("topics", "choice"),
    "gpc": ("sizes", "full_batch", "seconds_allowed", "ended", "pilots", "history"),
}


def collect(experiment, entries, results):
    """Return the finished rows of an experiment as plain data.

    Parameters
    ----------
    experiment : Experiment
    entries : mapping of str to Entry
        The catalogue's, with the papers' numbers.
    results : Path
        Folder of finished cells.

    Returns
    -------
    list of dict
        For each row its data set, method, variant, settings, the mean and standard deviation of each measure over
        restarts, the bound or log posterior, minutes an epoch, the two times of the bound, the number of topics and
        how it was chosen or how accuracy went with time, and `paper`, what the paper reports.
    """
    rows = []
    for dataset, method, variant, cells in experiment.rows:
        done = [result for cell in cells if (result := read_cell(cell, results)) is not None]
        if not done:
            continue
        measures = {
            name: {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=min(1, len(values) - 1)))}
            for name in done[0]["measures"]
            for values in [[result["measures"][name] for result in done]]
        }
        objective = OBJECTIVES[cells[0].settings.model]
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
                **_own(done, cells[0].settings.model),
                "threads": done[0]["threads"],
                "training_s": steady_seconds(done),
                "seconds": float(sum(map(_seconds, done))),
                "paper": reported.get(method),
                "others": {name: value for name, value in reported.items() if name != method},
            }
        )
    return rows


def steady_seconds(done):
    """Return the seconds of a training as the median epoch of the least disturbed one has it: others only add to them.

    Parameters
    ----------
    done : list of dict
        Results of cells that differ in their seeds.
    """
    return float(min(result["history"][-1]["epoch"] * result["epoch_s"] for result in done))


def settled_after(history, least):
    """Return the seconds after which all accuracies of a history are no less than so much, or None.

    Parameters
    ----------
    history : list of dict
        With `seconds` and `accuracy`.
    least : float
    """
    settled = None
    for moment in reversed(history):
        if moment["accuracy"] < least:
            break
        settled = moment["seconds"]
    return settled


def _seconds(result):
    """Return how long preprocessing and all training of a cell took."""
    pilots = sum(pilot.get("seconds", 0) for pilot in result.get("pilots", ()))
    return result["preprocess_s"] + result["history"][-1]["seconds"] + pilots


def _own(done, model):
    """Return what the results of a model have that those of others have not."""
    if model == "mlgpf":
        return {name: float(np.median([result["timing"][name] for result in done])) for name in ("bound_s", "kl_s")}
    return {name: done[0][name] for name in OWN[model]}


def write_table(experiment, rows, results):
    """Write results/NAME.json and results/NAME.md and return the Markdown.

    Parameters
    ----------
    experiment : Experiment
    rows : list of dict
        From `collect`.
    results : Path
    """
    about = {
        "experiment": experiment.name,
        "title": experiment.title,
        "date": date.today().isoformat(),
        "machine": f"{_machine()}, {rows[0]['threads'] if rows else '?'} thread(s) a cell",
        "training_s": round(sum(row["seconds"] for row in rows), 1),
        "not_there": list(experiment.missing),
    }
    _write(results / f"{experiment.name}.json", json.dumps(about | {"rows": rows}, indent=1))
    layouts = {"precision": _precision, "minutes": _minutes, "auc": _auc, "share": _shares, "race": _auc}
    layouts["accuracy"] = _accuracies
    layout = layouts.get(experiment.kind, _restarts)
    lines = [f"# {experiment.title}", "", *layout(rows), ""]
    lines.append(f"{about['date']}, {about['machine']}; {about['training_s']:.0f} s of training in all.")
    if experiment.missing:
        lines.append(f"Not run, for the data are not there: {', '.join(experiment.missing)}.")
    markdown = "\n".join(lines) + "\n"
    _write(results / f"{experiment.name}.md", markdown)
    return markdown


def _write(file, text):
    with atomic_write(file) as stream:
        stream.write(text.encode())


def _machine():
    """Return the processor's name and number of cores, as far as the system tells."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores"


def _precision(rows):
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
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        others = next(row["others"] for row in rows if row["dataset"] == dataset)
        ran = {row["method"] for row in rows if row["dataset"] == dataset}
        for method, paper in others.items():
            if method not in ran and isinstance(paper, list):
                yield _line(dataset, f"{method} (published)", *(f"{value:.2f} / — / —" for value in paper), "", "")


def _minutes(rows):
    yield from _head("data set", "method", "minutes an epoch, paper", "ours", "times faster")
    for row in rows:
        ours, paper = row["minutes_an_epoch"], row["paper"]
        yield _line(
            row["dataset"],
            row["method"],
            paper if paper else "—",
            f"{ours:.4f}",
            f"{paper / ours:.0f}" if paper else "—",
        )


def _auc(rows):
    averages = ("AUC_instance", "AUC_micro", "AUC_macro")
    yield from _head("data set", "method", "topics", "AUC, paper", *averages, *PRECISIONS, "seconds")
    for row in rows:
        means = {name: value["mean"] for name, value in row["measures"].items()}
        paper = "—" if row["paper"] is None else f"{row['paper']:.4f}"
        ours = *(f"{means[name]:.4f}" for name in averages), *(f"{means[name]:.2f}" for name in PRECISIONS)
        yield _line(row["dataset"], row["method"], row["topics"], paper, *ours, f"{row['seconds']:.1f}")
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        others = next(row["others"] for row in rows if row["dataset"] == dataset)
        ran = {row["method"] for row in rows if row["dataset"] == dataset}
        for method, paper in others.items():
            if method not in ran:
                yield _line(dataset, f"{method} (published)", "", f"{paper:.4f}", *[""] * 7)


def _shares(rows):
    """Seconds against the share of positive labels, and the straight line through them."""
    yield from _head("data set", "method", "share of the positive labels", "topics", "seconds", "AUC_instance")
    for row in rows:
        area = row["measures"]["AUC_instance"]["mean"]
        share = f"{row['settings']['revealed']:.0%}"
        yield _line(row["dataset"], row["method"], share, row["topics"], f"{row['training_s']:.2f}", f"{area:.4f}")
    if len(rows) > 1:
        fit = linear_fit([row["settings"]["revealed"] for row in rows], [row["training_s"] for row in rows])
        yield ""
        yield f"Seconds = {fit.start:.2f} + {fit.slope:.2f} × share, of the variance {fit.explained:.1%}."


def _accuracies(rows):
    """Where each method ends, and when it has come near the best of all; then what the learning rates did."""
    arrived = f"seconds to within {NEAR} of the best"
    yield from _head("data set", "method", "accuracy %", "log loss", "bound", arrived, "seconds", "iterations", "ended")
    best = {}
    for row in rows:
        best[row["dataset"]] = max(best.get(row["dataset"], 0), row["measures"]["accuracy"]["mean"])
    for row in rows:
        last = row["history"][-1]
        settled = settled_after(row["history"], best[row["dataset"]] - NEAR)
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
            chosen, own = row["settings"]["learning_rate"], row["settings"]["batch_size"]
            yield ""
            yield (
                f"{row['dataset']}, {row['method']}: minibatches of {own}; learning rate {chosen:g}, that of the "
                f"highest bound after a quarter of the time, with {tried}."
            )


class LinearFit(NamedTuple):
    """A straight line through points: its value at 0, its slope, and the share of the variance that it explains."""

    start: float
    slope: float
    explained: float


def linear_fit(x, y):
    """Return the straight line of least squares.

    Parameters
    ----------
    x, y : sequence of float
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    slope, start = np.polyfit(x, y, 1)
    left, total = np.sum((y - start - slope * x) ** 2), np.sum((y - y.mean()) ** 2)
    return LinearFit(float(start), float(slope), float(1 - left / total) if total else 1.0)


def _restarts(rows):
    names = (*PRECISIONS, *FURTHER)
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
