"""Figures of training and of calibration in one style, drawn with Matplotlib (the extra `plot`).

Functions that plot write into `out`: a path, whose suffix chooses the format, PNG without one, or a binary file, as
PNG. XmlgpError is raised if Matplotlib is not installed or cannot write the format.
"""

from __future__ import annotations

import io
import itertools
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from xmlgp.data.streams import open_output
from xmlgp.errors import XmlgpError
from xmlgp.metrics.probabilities import ReliabilityCurve
from xmlgp.runtime.untrusted_text import escape_undecodable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "MARKERS",
    "Panel",
    "axis_label",
    "finish_panels",
    "panels_in_a_row",
    "plot_line",
    "plot_objective",
    "plot_reliability",
    "save_figure",
]

#: Where a figure is written.
Out: TypeAlias = str | Path | BinaryIO

#: Width of a panel in inches.
PANEL_WIDTH = 4.2

#: Markers that distinguish curves where they overlap.
MARKERS = "osD^vPX"

#: Labels of objectives that are not their names.
LABELS = {"bound": "lower bound"}

#: Characters of the legend's font that fit on one line above a panel.
LEGEND_WIDTH = 64


class Panel(NamedTuple):
    """Histories of training runs with comparable objectives: the objective's name, and epochs by name in the legend."""

    objective: str
    histories: dict[str, list[dict[str, float]]]


def plot_objective(panels: Mapping[str, Panel], out: Out) -> None:
    """Plot the objective of training against the epoch, in a panel for each title; a single one gets no title."""
    figure, axes = panels_in_a_row(len(panels))
    for axis, panel in zip(axes, panels.values(), strict=True):
        for name, history in panel.histories.items():
            epochs = [entry["epoch"] for entry in history]
            plot_line(axis, epochs, [entry[panel.objective] for entry in history], escape_undecodable(name), {})
        axis.set_ylabel(axis_label(panel.objective))
    finish_panels(axes, list(panels) if len(panels) > 1 else [""])
    save_figure(figure, out)


def axis_label(objective: str) -> str:
    """Return the label of an axis that shows an objective: "lower bound" for "bound"."""
    return LABELS.get(objective, objective.replace("_", " "))


def panels_in_a_row(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, side by side."""
    figure = _new_figure(PANEL_WIDTH * count, 3.4)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def plot_line(axis: Axes, x: ArrayLike, y: ArrayLike, label: str, style: Mapping[str, Any]) -> Line2D:
    """Plot a line with a name and keyword arguments of `Axes.plot`; a single point gets a marker, to be visible."""
    (line,) = axis.plot(x, y, label=label, marker="o" if np.size(x) == 1 else None, **style)
    return line


def finish_panels(axes: Sequence[Axes], titles: Sequence[str], ylabel: str = "") -> None:
    """Add a title and a legend to each panel, and the label of the vertical axis to the first."""
    for axis, title in zip(axes, titles, strict=True):
        # The default size is too wide for a title that lists the sizes of a data set.
        axis.set_title(title, fontsize="medium")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
            axis.set_xlabel(axis.get_xlabel() or "epoch")
    if ylabel:
        axes[0].set_ylabel(ylabel)


def plot_reliability(curves: Mapping[str, ReliabilityCurve], out: Out, title: str = "") -> None:
    """Plot frequency against probability, with the diagonal of perfect calibration, above the counts of the bins.

    `curves` maps names in the legend to curves with bins of equal width.
    """
    # Curves can be anywhere in the panels, so the legend is above them; a name as long as a path takes several lines.
    names = [textwrap.fill(escape_undecodable(name), LEGEND_WIDTH) for name in curves]
    figure = _new_figure(5, 7 + sum(0.18 + 0.16 * name.count("\n") for name in names))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    upper.plot([0, 1], [0, 1], "--", color="gray", linewidth=1, label="calibrated")
    for name, curve, marker in zip(names, curves.values(), itertools.cycle(MARKERS), strict=False):
        filled = curve.count > 0
        edges = np.linspace(0, 1, len(curve.count) + 1)
        (line,) = upper.plot(
            curve.confidence[filled],
            curve.frequency[filled],
            label=name,
            clip_on=False,
            marker=marker,
            markersize=4,
            linewidth=1.2,
        )
        # An empty bin leaves a gap on the logarithmic axis.
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
    save_figure(figure, out)


def _new_figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise XmlgpError("figures need Matplotlib: pip install 'xmlgp[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, out: Out) -> None:
    """Write a figure."""
    if not isinstance(out, str | Path):
        out.write(_render(figure, "png"))
        return
    suffix = Path(out).suffix[1:]
    if suffix and suffix.lower() not in figure.canvas.get_supported_filetypes():
        raise XmlgpError(f"{out}: figures are written as png, pdf or svg, not as {suffix}")
    content = _render(figure, suffix.lower() or "png")
    with open_output(out) as stream:
        stream.write(content)


def _render(figure: Figure, suffix: str) -> bytes:
    """Return the content of a file. If Matplotlib wrote to a full disk itself, the first error would be hidden."""
    stream = io.BytesIO()
    # Without the time, equal figures are equal files.
    figure.savefig(stream, dpi=150, format=suffix, metadata={"CreationDate": None} if suffix == "pdf" else None)
    return stream.getvalue()
