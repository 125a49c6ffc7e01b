"""The panels of figures of experiments; each row has a method, a variant in words, and its results."""

import itertools

import numpy as np
from scipy.stats import linregress

from xmlgp.experiments.cells import training_seconds
from xmlgp.plots import MARKERS, plot_line

__all__ = ["draw_accuracy", "draw_bars", "draw_interval", "draw_lines", "draw_race", "draw_share"]

#: Ratio of the seconds of two successive markers of a curve, approximately.
MARKER_SPACING = 1.6


def draw_lines(axis, rows, styles, part, value):
    """Draw the values of a part of each result, `history` or `curve`, against the epoch."""
    for method, variant, results in rows:
        points = results[0][part]
        epochs, values = [point["epoch"] for point in points], [point[value] for point in points]
        plot_line(axis, epochs, values, f"{method} {variant}".strip(), styles.get(method, {}))
    axis.set_xlabel("epoch")


def draw_bars(axis, rows, styles):
    """Draw P@1 of each row as a bar, and its bound as a diamond."""
    names = [variant or method for method, variant, _ in rows]
    axis.bar(names, [results[0]["measures"]["P@1"] for *_, results in rows], color="tab:blue", width=0.6)
    axis.set_ylabel("P@1 in % (bars)")
    right = axis.twinx()
    right.plot(names, [results[0]["history"][-1]["bound"] for *_, results in rows], "D", color="tab:red")
    right.set_ylabel("lower bound (diamonds)")
    axis.tick_params(axis="x", labelrotation=20)


def draw_interval(axis, rows, styles):
    """Draw the mean bound of restarts against the epoch, with its 95% interval."""
    for *_, results in rows:
        bounds = np.array([[epoch["bound"] for epoch in result["history"]] for result in results])
        epochs, mean = np.arange(1, bounds.shape[1] + 1), bounds.mean(axis=0)
        half = 1.96 * bounds.std(axis=0, ddof=min(1, len(bounds) - 1)) / np.sqrt(len(bounds))
        axis.fill_between(epochs, mean - half, mean + half, color="cyan", label="95% interval")
        axis.plot(epochs, mean, color="black", label=f"mean of {len(bounds)}")
    axis.set_xlabel("epoch")


def draw_share(axis, rows, styles):
    """Draw the seconds of training against the share of positive labels, and the straight line through them."""
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


def draw_race(axis, rows, styles):
    """Draw AUC of each row against the seconds of training."""
    for (method, variant, results), marker in zip(rows, itertools.cycle(MARKERS), strict=False):
        curve = results[0]["curve"]
        seconds, areas = [point["seconds"] for point in curve], [point["AUC_instance"] for point in curve]
        # There can be a hundred points, too many for a marker each.
        style = {"marker": marker, "markersize": 4, "markevery": 0.1} | styles.get(method, {})
        axis.plot(seconds, areas, label=f"{method} {variant}".strip(), **style)
    axis.set_xscale("log")
    axis.set_xlabel("seconds of training")


def draw_accuracy(axis, rows, styles):
    """Draw the accuracy of each row against the seconds of training."""
    for (method, _, results), marker in zip(rows, itertools.cycle(MARKERS), strict=False):
        history = results[0]["history"]
        seconds, accuracy = [moment["seconds"] for moment in history], [moment["accuracy"] for moment in history]
        # Markers at even distances on the logarithmic axis, and one at the last point.
        _, marked = np.unique(np.log(seconds) // np.log(MARKER_SPACING), return_index=True)
        marked = sorted({*marked.tolist(), len(seconds) - 1})
        style = {"marker": marker, "markersize": 4, "markevery": marked, "linewidth": 1.2}
        style |= styles.get(method, {})
        axis.plot(seconds, accuracy, label=method, **style)
    axis.set_xscale("log")
    axis.set_xlabel("seconds of training")
