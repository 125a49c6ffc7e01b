"""Figures of experiments, as PNG and PDF."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import linregress

from xmlgp.experiments.cells import read_result
from xmlgp.experiments.tables import training_seconds
from xmlgp.plots import MARKERS, axis_label, finish_panels, panels_in_a_row, plot_line, save_figure

__all__ = ["ACCURACY", "BARS", "BOUND", "CURVE", "INTERVAL", "RACE", "SHARE", "Figure", "draw_experiment"]

#: Ratio of the seconds of two successive markers of a curve, approximately.
MARKER_SPACING = 1.6


def _dataset_and_sizes(dataset, method, variant, results):
    return ", ".join([dataset, *(f"{letter} = {results[0]['sizes'][letter]}" for letter in "ndm")])


@dataclasses.dataclass(frozen=True)
class Figure:
    """How a kind of experiment is drawn. Rows are (data set, method, variant, list of results)."""

    #: Draws rows into a panel: `draw(axis, rows, styles)`.
    draw: Callable

    #: Label of the vertical axis of the first panel; empty where `draw` sets the labels.
    ylabel: str

    #: Returns the title of a row's panel; rows with the same title share a panel.
    title: Callable = lambda dataset, *others: dataset


def draw_experiment(experiment, results):
    """Draw an experiment's figure from the results of its cells and return the files written, PNG and PDF."""
    figure_kind = experiment.kind.figure
    rows = [
        (dataset, method, variant, [r for cell in cells if (r := read_result(cell, results)) is not None])
        for dataset, method, variant, cells in experiment.rows
    ]
    rows = [row for row in rows if row[-1]]
    titles = list(dict.fromkeys(figure_kind.title(*row) for row in rows))
    figure, axes = panels_in_a_row(len(titles))
    for axis, title in zip(axes, titles, strict=True):
        figure_kind.draw(axis, [row for row in rows if figure_kind.title(*row) == title], experiment.styles)
    finish_panels(axes, titles, figure_kind.ylabel)
    files = [results / f"{experiment.name}.{suffix}" for suffix in ("png", "pdf")]
    for file in files:
        save_figure(figure, file)
    return files


def _draw_lines(axis, rows, styles, part, value):
    """Draw the values of a part of each result, `history` or `curve`, against the epoch."""
    for _, method, variant, results in rows:
        points = results[0][part]
        epochs, values = [point["epoch"] for point in points], [point[value] for point in points]
        plot_line(axis, epochs, values, f"{method} {variant}".strip(), styles.get(method, {}))
    axis.set_xlabel("epoch")


def _draw_bars(axis, rows, styles):
    names = [variant or method for _, method, variant, _ in rows]
    axis.bar(names, [results[0]["measures"]["P@1"] for *_, results in rows], color="tab:blue", width=0.6)
    axis.set_ylabel("P@1 in % (bars)")
    right = axis.twinx()
    right.plot(names, [results[0]["history"][-1]["bound"] for *_, results in rows], "D", color="tab:red")
    right.set_ylabel("lower bound (diamonds)")
    axis.tick_params(axis="x", labelrotation=20)


def _draw_interval(axis, rows, styles):
    for *_, results in rows:
        bounds = np.array([[epoch["bound"] for epoch in result["history"]] for result in results])
        epochs, mean = np.arange(1, bounds.shape[1] + 1), bounds.mean(axis=0)
        half = 1.96 * bounds.std(axis=0, ddof=min(1, len(bounds) - 1)) / np.sqrt(len(bounds))
        axis.fill_between(epochs, mean - half, mean + half, color="cyan", label="95% interval")
        axis.plot(epochs, mean, color="black", label=f"mean of {len(bounds)}")
    axis.set_xlabel("epoch")


def _draw_share(axis, rows, styles):
    shares = [results[0]["settings"]["revealed"] for *_, results in rows]
    seconds = [training_seconds(results) for *_, results in rows]
    axis.plot(shares, seconds, "o", color="tab:blue", label="xmlgp")
    if len(shares) > 1:
        fit = linregress(shares, seconds)
        ends = np.array([0, max(shares)])
        label = f"{fit.intercept:.2f} + {fit.slope:.2f} × share, R² {fit.rvalue**2:.3f}"
        axis.plot(ends, fit.intercept + fit.slope * ends, "--", color="gray", linewidth=1, label=label)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("share of the positive labels")


def _draw_race(axis, rows, styles):
    for (_, method, variant, results), marker in zip(rows, itertools.cycle(MARKERS), strict=False):
        curve = results[0]["curve"]
        seconds, areas = [point["seconds"] for point in curve], [point["AUC_instance"] for point in curve]
        # There can be a hundred points, too many for a marker each.
        style = {"marker": marker, "markersize": 4, "markevery": 0.1} | styles.get(method, {})
        axis.plot(seconds, areas, label=f"{method} {variant}".strip(), **style)
    axis.set_xscale("log")
    axis.set_xlabel("seconds of training")


def _draw_accuracy(axis, rows, styles):
    for (_, method, _, results), marker in zip(rows, itertools.cycle(MARKERS), strict=False):
        history = results[0]["history"]
        seconds, accuracy = [moment["seconds"] for moment in history], [moment["accuracy"] for moment in history]
        # Markers at even distances on the logarithmic axis, and one at the last point.
        marked = {
            *np.unique(np.log(seconds) // np.log(MARKER_SPACING), return_index=True)[1].tolist(),
            len(seconds) - 1,
        }
        style = {"marker": marker, "markersize": 4, "markevery": sorted(marked), "linewidth": 1.2}
        style |= styles.get(method, {})
        axis.plot(seconds, accuracy, label=method, **style)
    axis.set_xscale("log")
    axis.set_xlabel("seconds of training")


BOUND = Figure(partial(_draw_lines, part="history", value="bound"), axis_label("bound"))
CURVE = Figure(partial(_draw_lines, part="curve", value="P@1"), "P@1 in %")
BARS = Figure(_draw_bars, "")
INTERVAL = Figure(_draw_interval, axis_label("bound"), lambda dataset, method, *others: f"{dataset}, {method}")
SHARE = Figure(_draw_share, "seconds of training")
RACE = Figure(_draw_race, "AUC, mean over points")
ACCURACY = Figure(_draw_accuracy, "accuracy on the test points in %", _dataset_and_sizes)
