"""Figures, as PNG and PDF, drawn with Matplotlib (the extra `plot`)."""

import io
import itertools
import textwrap
from pathlib import Path

import numpy as np

from xmlgp.data.streams import open_output
from xmlgp.errors import XmlgpError
from xmlgp.experiments.cells import read_cell
from xmlgp.experiments.tables import linear_fit, steady_seconds
from xmlgp.training.history import OBJECTIVES

__all__ = ["draw_bounds", "draw_experiment", "draw_reliability"]

#: What training raises, as a history names it and as an axis does.
LABELS = {"bound": "lower bound", "log_posterior": "log posterior"}

#: Width of a panel in inches.
PANEL = 4.2

#: Markers that tell curves apart where they lie on each other.
MARKERS = "osD^vPX"

#: Factor of seconds from one marker of a curve to the next, about.
SPACING = 1.6

#: Characters of small print that fit beside each other into the legend above a panel.
LEGEND_WIDTH = 64


def draw_bounds(histories, out):
    """Draw what training raises against the epoch, the bound or the log posterior: each kind of model in its own panel.

    Parameters
    ----------
    histories : mapping of str to mapping of str to list of dict
        One of `OBJECTIVES` → name in the legend → history of a model folder.
    out : path or binary file
        File to write; its suffix chooses the format, PNG without one.
    """
    figure, axes = _panels(len(histories))
    for axis, (model, lines) in zip(axes, histories.items(), strict=True):
        for name, history in lines.items():
            _draw_line(axis, *_course(history, OBJECTIVES[model]), name, {})
        axis.set_ylabel(LABELS[OBJECTIVES[model]])
    _finish(figure, axes, list(histories) if len(axes) > 1 else [""], "", [out])


def draw_reliability(curves, out, title=""):
    """Draw frequency against probability, beside the diagonal of the calibrated, and how many entries each bin has.

    Parameters
    ----------
    curves : mapping of str to ReliabilityCurve
        Name in the legend → bins of equal width.
    out : path or binary file
        File to write; its suffix chooses the format, PNG without one.
    title : str
    """
    # The legend is above the panels, for curves may be anywhere, and a name as long as a path takes several lines.
    names = [textwrap.fill(name, LEGEND_WIDTH) for name in curves]
    figure = _figure(5, 7 + sum(0.18 + 0.16 * name.count("\n") for name in names))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    upper.plot([0, 1], [0, 1], "--", color="gray", linewidth=1, label="calibrated")
    for name, curve, marker in zip(names, curves.values(), itertools.cycle(MARKERS), strict=False):
        filled = curve.count > 0
        edges = np.linspace(0, 1, len(curve.count) + 1)
        style = {"marker": marker, "markersize": 4, "linewidth": 1.2}
        (line,) = upper.plot(curve.confidence[filled], curve.frequency[filled], label=name, clip_on=False, **style)
        # A bin without entries leaves a gap, for there is no logarithm of 0.
        counts = np.where(filled, curve.count, np.nan)
        lower.stairs(counts, edges, baseline=None, color=line.get_color(), linewidth=1.2)
        lower.plot((edges[1:] + edges[:-1]) / 2, counts, marker, color=line.get_color(), markersize=3)
    upper.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", ylabel="frequency", title=title)
    upper.set_xticks(np.linspace(0, 1, 6))
    upper.set_yticks(np.linspace(0, 1, 6))
    lower.set(yscale="log", xlabel="mean probability", ylabel="entries a bin")
    lower.set_ylim(bottom=0.5)
    for axis in (upper, lower):
        axis.set_axisbelow(True)
        axis.grid(color="0.9", linewidth=0.6)
    figure.legend(*upper.get_legend_handles_labels(), loc="outside upper left", fontsize="small", frameon=False)
    _save(figure, [out])


def draw_experiment(experiment, results):
    """Draw an experiment's figure from its finished cells and return the files written, PNG and PDF.

    Parameters
    ----------
    experiment : Experiment
        Of a kind other than "precision" and "minutes".
    results : Path
    """
    done = [
        (dataset, method, variant, [r for cell in cells if (r := read_cell(cell, results)) is not None])
        for dataset, method, variant, cells in experiment.rows
    ]
    done = [row for row in done if row[-1]]
    draw, label = {
        "bound": (_draw_bound, "lower bound"),
        "curve": (_draw_curve, "P@1 in %"),
        "bars": (_draw_bars, ""),
        "interval": (_draw_interval, "lower bound"),
        "share": (_draw_share, "seconds of training"),
        "race": (_draw_race, "AUC, mean over points"),
        "accuracy": (_draw_accuracy, "accuracy on the test points in %"),
    }[experiment.kind]
    panels = list(dict.fromkeys(_panel(experiment.kind, row) for row in done))
    figure, axes = _panels(len(panels))
    for axis, panel in zip(axes, panels, strict=True):
        draw(axis, [row for row in done if _panel(experiment.kind, row) == panel], experiment.styles)
    files = [results / f"{experiment.name}.{suffix}" for suffix in ("png", "pdf")]
    _finish(figure, axes, panels, label, files)
    return files


def _panel(kind, row):
    dataset, method, _, done = row
    if kind == "accuracy":
        return ", ".join([dataset, *(f"{letter} = {done[0]['sizes'][letter]}" for letter in "ndm")])
    return f"{dataset}, {method}" if kind == "interval" else dataset


def _draw_bound(axis, rows, styles):
    for _, method, variant, done in rows:
        _draw_line(axis, *_course(done[0]["history"], "bound"), f"{method} {variant}".strip(), styles.get(method, {}))


def _draw_curve(axis, rows, styles):
    for _, method, variant, done in rows:
        curve = done[0]["curve"]
        epochs, precision = [point["epoch"] for point in curve], [point["P@1"] for point in curve]
        _draw_line(axis, epochs, precision, f"{method} {variant}".strip(), styles.get(method, {}))
    axis.set_xlabel("epoch")


def _draw_bars(axis, rows, styles):
    names = [variant or method for _, method, variant, _ in rows]
    axis.bar(names, [done[0]["measures"]["P@1"] for *_, done in rows], color="tab:blue", width=0.6)
    axis.set_ylabel("P@1 in % (bars)")
    beside = axis.twinx()
    beside.plot(names, [done[0]["history"][-1]["bound"] for *_, done in rows], "D", color="tab:red")
    beside.set_ylabel("lower bound (diamonds)")
    axis.tick_params(axis="x", labelrotation=20)


def _draw_interval(axis, rows, styles):
    for _, _, _, done in rows:
        bounds = np.array([[epoch["bound"] for epoch in result["history"]] for result in done])
        epochs, mean = np.arange(1, bounds.shape[1] + 1), bounds.mean(axis=0)
        half = 1.96 * bounds.std(axis=0, ddof=min(1, len(bounds) - 1)) / np.sqrt(len(bounds))
        axis.fill_between(epochs, mean - half, mean + half, color="cyan", label="95% interval")
        axis.plot(epochs, mean, color="black", label=f"mean of {len(bounds)}")
    axis.set_xlabel("epoch")


def _draw_share(axis, rows, styles):
    shares = [done[0]["settings"]["revealed"] for *_, done in rows]
    seconds = [steady_seconds(done) for *_, done in rows]
    axis.plot(shares, seconds, "o", color="tab:blue", label="xmlgp")
    if len(shares) > 1:
        fit = linear_fit(shares, seconds)
        ends = np.array([0, max(shares)])
        label = f"{fit.start:.2f} + {fit.slope:.2f} × share, R² {fit.explained:.3f}"
        axis.plot(ends, fit.start + fit.slope * ends, "--", color="gray", linewidth=1, label=label)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("share of the positive labels")


def _draw_race(axis, rows, styles):
    for (_, method, variant, done), marker in zip(rows, itertools.cycle(MARKERS), strict=False):
        curve = done[0]["curve"]
        seconds, areas = [point["seconds"] for point in curve], [point["AUC_instance"] for point in curve]
        # Some markers, for there are up to a hundred points.
        style = {"marker": marker, "markersize": 4, "markevery": 0.1} | styles.get(method, {})
        axis.plot(seconds, areas, label=f"{method} {variant}".strip(), **style)
    axis.set_xscale("log")
    axis.set_xlabel("seconds of training")


def _draw_accuracy(axis, rows, styles):
    for (_, method, _, done), marker in zip(rows, itertools.cycle(MARKERS), strict=False):
        history = done[0]["history"]
        seconds, accuracy = [moment["seconds"] for moment in history], [moment["accuracy"] for moment in history]
        # Marked are the last point and some at even distances.
        marked = {*np.unique(np.log(seconds) // np.log(SPACING), return_index=True)[1].tolist(), len(seconds) - 1}
        style = {"marker": marker, "markersize": 4, "markevery": sorted(marked), "linewidth": 1.2}
        style |= styles.get(method, {})
        axis.plot(seconds, accuracy, label=method, **style)
    axis.set_xscale("log")
    axis.set_xlabel("seconds of training")


def _draw_line(axis, epochs, values, label, style):
    # A line of one point would not be seen.
    axis.plot(epochs, values, label=label, marker="o" if len(epochs) == 1 else None, **style)


def _course(history, objective):
    return [epoch["epoch"] for epoch in history], [epoch[objective] for epoch in history]


def _figure(width, height):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise XmlgpError("figures need Matplotlib: pip install 'xmlgp[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def _panels(count):
    figure = _figure(PANEL * count, 3.4)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _finish(figure, axes, titles, label, files):
    for axis, title in zip(axes, titles, strict=True):
        # Those with all sizes of a data set would be wider than a panel.
        axis.set_title(title, fontsize="medium")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
            axis.set_xlabel(axis.get_xlabel() or "epoch")
    if label:
        axes[0].set_ylabel(label)
    _save(figure, files)


def _save(figure, files):
    for file in files:
        if not isinstance(file, str | Path):
            file.write(_drawn(figure, "png"))
            continue
        suffix = Path(file).suffix[1:]
        if suffix and suffix.lower() not in figure.canvas.get_supported_filetypes():
            raise XmlgpError(f"{file}: figures are written as png, pdf or svg, not as {suffix}")
        content = _drawn(figure, suffix.lower() or "png")
        with open_output(file if suffix else f"{file}.png") as stream:
            stream.write(content)


def _drawn(figure, suffix):
    """Return the content of a file; Matplotlib itself writes to a full disk as if the first failure were none."""
    stream = io.BytesIO()
    figure.savefig(stream, dpi=150, format=suffix)
    return stream.getvalue()
