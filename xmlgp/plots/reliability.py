"""Reliability diagrams: observed frequency against predicted probability."""

import itertools
import textwrap

import numpy as np

from xmlgp.plots.figure import MARKERS, new_figure, save_figure

__all__ = ["plot_reliability", "plot_reliability_by_group"]

#: Characters of the legend's font that fit on one line above a panel.
LEGEND_WIDTH = 64

#: Most groups that the horizontal axis names.
MOST_TICKS = 20


def plot_reliability(curves, out, title=""):
    """Plot frequency against probability, with the diagonal of perfect calibration, above the counts of the bins.

    Parameters
    ----------
    curves : mapping of str to ReliabilityCurve
        Name in the legend → bins of equal width (`xmlgp.metrics.calibration.reliability_curve`).
    out : path or binary file
        File to write; its suffix chooses the format, PNG without one.
    title : str

    Raises
    ------
    XmlgpError
        If Matplotlib is not installed or cannot write the format.
    """
    figure, named = _figure_of(curves, 7)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    upper.plot([0, 1], [0, 1], "--", color="gray", linewidth=1, label="calibrated")
    for name, curve, style in named:
        filled = curve.count > 0
        edges = np.linspace(0, 1, len(curve.count) + 1)
        (line,) = upper.plot(curve.confidence[filled], curve.frequency[filled], label=name, clip_on=False, **style)
        # An empty bin leaves a gap on the logarithmic axis.
        counts = np.where(filled, curve.count, np.nan)
        lower.stairs(counts, edges, baseline=None, color=line.get_color(), linewidth=1.2)
        lower.plot((edges[1:] + edges[:-1]) / 2, counts, style["marker"], color=line.get_color(), markersize=3)
    upper.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", ylabel="frequency", title=title)
    upper.set_xticks(np.linspace(0, 1, 6))
    upper.set_yticks(np.linspace(0, 1, 6))
    lower.set(yscale="log", xlabel="mean probability", ylabel="entries a bin")
    lower.set_ylim(bottom=0.5)
    _save(figure, [upper, lower], out)


def plot_reliability_by_group(curves, out, xlabel):
    """Plot mean probabilities (dashed) and frequencies (solid) of groups of labels; see `plot_reliability`.

    `xlabel` says what the labels are grouped by, such as their rank.
    """
    figure, named = _figure_of(curves, 4.4)
    axis = figure.subplots()
    for name, curve, style in named:
        filled = np.flatnonzero(curve.count > 0)
        (line,) = axis.plot(filled, curve.frequency[filled], label=name, **style)
        axis.plot(filled, curve.confidence[filled], color=line.get_color(), linestyle="--", **style)
    groups = max((curve.names for curve in curves.values()), key=len)
    ticks = np.unique(np.linspace(0, len(groups) - 1, min(len(groups), MOST_TICKS)).round().astype(int))
    axis.set_xticks(ticks, [groups[tick] for tick in ticks], rotation=45 if len(groups[-1]) > 2 else 0)
    axis.set(xlabel=xlabel, ylabel="probability (dashed), frequency (solid)")
    axis.set_ylim(bottom=0)
    _save(figure, [axis], out)


def _figure_of(curves, height):
    """Return a figure with room for a legend above its panels, and the name, the curve and the style of each curve."""
    # Curves can be anywhere in the panels; a name as long as a path takes several lines.
    names = [textwrap.fill(name, LEGEND_WIDTH) for name in curves]
    figure = new_figure(5, height + sum(0.18 + 0.16 * name.count("\n") for name in names))
    styles = [{"marker": marker, "markersize": 4, "linewidth": 1.2} for marker in MARKERS]
    return figure, list(zip(names, curves.values(), itertools.cycle(styles), strict=False))


def _save(figure, axes, out):
    for axis in axes:
        axis.set_axisbelow(True)
        axis.grid(color="0.9", linewidth=0.6)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", fontsize="small", frameon=False)
    save_figure(figure, out)
