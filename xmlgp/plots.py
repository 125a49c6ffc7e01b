"""Figures of training and of calibration in one style, drawn with Matplotlib (the extra `plot`).

Functions that plot write into `out`: a path, whose suffix chooses the format, PNG without one, or a binary file, as
PNG. XmlgpError is raised if Matplotlib is not installed or cannot write the format.
"""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmlgp.data.streams import open_output
from xmlgp.errors import XmlgpError
from xmlgp.metrics.intervals import FEW_POINTS
from xmlgp.metrics.probabilities import ReliabilityCurve
from xmlgp.runtime.untrusted_text import escape_undecodable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "MARKERS",
    "Panel",
    "Run",
    "axis_label",
    "finish_panels",
    "panels_in_a_row",
    "plot_line",
    "plot_objective",
    "plot_reliability",
    "plot_reliability_by",
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

#: Characters of a note that fit below a panel.
NOTE_WIDTH = 78

#: What the groups of `plot_reliability_by` are.
QUANTITIES = {"rank": "rank of the label for its point", "frequency": "training points of the label"}

#: Where labels without training points are on a logarithmic axis.
NO_POINTS = 0.4

#: Most ranks on a linear axis. On a logarithmic one, those after them share points, this much further each.
SINGLE_RANKS = 20
RANK_RATIO = 1.1

#: Ratio of the highest and the lowest share from which the axis is logarithmic.
WIDE = 50

#: The largest ratio on that axis.
WIDEST = 1e5

#: Characters of the legend's font that fit on one line above a panel, and above one of several side by side.
LEGEND_WIDTH = 64
PANEL_LEGEND_WIDTH = 44


class Run(NamedTuple):
    """The history of a training run, those of the batches learned after it, and the entries that are burn-in."""

    history: Sequence[Mapping[str, float]]
    learned: Sequence[Sequence[Mapping[str, float]]] = ()
    burned: int = 0


class Panel(NamedTuple):
    """Training runs with comparable objectives: the objective's name, runs by their names, the name of a pass."""

    objective: str
    runs: dict[str, Run]
    epoch: str = "epoch"


class _Phase(NamedTuple):
    """Consecutive values of an objective that are comparable: what they are of, and numbers from 1 that continue."""

    kind: str
    numbers: list[int]
    values: list[float]

    @property
    def start(self) -> float:
        """Where the phase begins on the axis of the epochs."""
        return self.numbers[0] - 0.5


class _Kind(NamedTuple):
    """How a kind of phase is named and drawn, and what the reader of a figure should know."""

    title: str
    style: Mapping[str, Any]
    note: str = ""


#: The phases of a run. A line joins the values of stochastic or iterated steps; others are points by themselves.
KINDS = {
    "epochs": _Kind("{epoch}s", {}),
    "burn-in": _Kind("burn-in", {"linestyle": "--"}, "Samples of the burn-in are not in the model."),
    "samples": _Kind("samples", {}),
    "dense": _Kind(
        "with dense features",
        {"linestyle": "--"},
        "Epochs with dense features train other latent functions, which see words and dense features together.",
    ),
    "sweeps": _Kind(
        "sweeps",
        {"linestyle": "", "marker": "D"},
        "A sweep updates the weights of the labels; its bound is another one, and the last sweep also has the held-out "
        "points: compare it with the same sweep of other models.",
    ),
    "learned": _Kind(
        "learned",
        {"linestyle": "", "marker": "s", "markersize": 4},
        "What was learned later is measured on its own points.",
    ),
}

#: Share of a panel's width that the name of a phase may need, and share of its height.
NARROW = 0.2
NAME_HEIGHT = 0.07


def plot_objective(panels: Mapping[str, Panel], out: Out) -> None:
    """Plot the objective of training against the epoch, in a panel for each title; a single one gets no title.

    A line joins values of the same quantity only. Phases of different quantities are shaded and named where all runs of
    a panel have the same ones; otherwise each run has dotted lines between them, and the legend names the marks.
    """
    figure, axes = panels_in_a_row(len(panels))
    kinds: dict[str, None] = {}
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        phases_of = {name: _phases(run, panel.objective) for name, run in panel.runs.items()}
        kinds |= dict.fromkeys(phase.kind for phases in phases_of.values() for phase in phases)
        name_lines = _draw_runs(axis, phases_of, panel.epoch)
        axis.set_ylabel(axis_label(panel.objective))
        axis.set_xlabel(panel.epoch)
        axis.locator_params(axis="x", integer=True)
        # Curves and names of phases can be anywhere in the panel.
        axis.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.02 + NAME_HEIGHT * name_lines),
            fontsize="small",
            frameon=False,
            title=title if len(panels) > 1 else None,
            alignment="left",
        )
    lines = [line for kind in kinds for line in textwrap.wrap(KINDS[kind].note, NOTE_WIDTH * len(panels))]
    if lines:
        figure.supxlabel("\n".join(lines), fontsize="x-small", color="0.35", x=0.02, ha="left", linespacing=1.3)
    above = max(_lines_of(axis) for axis in axes)
    figure.set_figheight(3.4 + 0.18 * above + 0.14 * len(lines))
    save_figure(figure, out)


def _lines_of(axis: Axes) -> int:
    """Return the number of lines of a panel's legend."""
    names = axis.get_legend_handles_labels()[1]
    return sum(1 + name.count("\n") for name in names)


def _phases(run: Run, objective: str) -> list[_Phase]:
    """Return the phases of a run, in order."""
    phases = []
    number = 1
    parts = [(_kind_of(entry, run.burned), entry[objective], 0) for entry in run.history]
    parts += [("learned", entry[objective], batch) for batch, history in enumerate(run.learned) for entry in history]
    for (kind, _), entries in itertools.groupby(parts, key=lambda part: (part[0], part[2])):
        values = [value for _, value, _ in entries]
        phases.append(_Phase(kind, list(range(number, number + len(values))), values))
        number += len(values)
    return phases


def _kind_of(entry: Mapping[str, float], burned: int) -> str:
    """Return the kind of phase of an entry of a history."""
    if "sweep" in entry:
        return "sweeps"
    if "dense_epoch" in entry:
        return "dense"
    if burned:
        return "burn-in" if entry["epoch"] <= burned else "samples"
    return "epochs"


def _draw_runs(axis: Axes, phases_of: Mapping[str, list[_Phase]], epoch: str) -> int:
    """Draw runs, and what separates their phases; return the number of lines of names above the panel."""
    starts = {tuple((phase.kind, phase.start) for phase in phases) for phases in phases_of.values()}
    are_alike = len(starts) == 1
    drawn: dict[str, None] = {}
    for name, phases in phases_of.items():
        color = None
        for phase in phases:
            style = {"color": color, **KINDS[phase.kind].style}
            label = textwrap.fill(escape_undecodable(name), PANEL_LEGEND_WIDTH) if color is None else "_"
            color = plot_line(axis, phase.numbers, phase.values, label, style).get_color()
            if phase is not phases[0] and not are_alike:
                axis.axvline(phase.start, color=color, linestyle=":", linewidth=0.8)
        drawn |= dict.fromkeys(phase.kind for phase in phases)
    if len(drawn) > 1 and are_alike:
        return _shade(axis, next(iter(phases_of.values())), epoch)
    if len(drawn) > 1:
        for kind in drawn:
            style = {"color": "0.35", **KINDS[kind].style}
            axis.plot([], [], label=KINDS[kind].title.format(epoch=epoch), **style)
    return 0


def _shade(axis: Axes, phases: Sequence[_Phase], epoch: str) -> int:
    """Shade every other of several phases, and name each above the panel; batches that were learned are named once.

    Names of narrow neighbours are on several lines, whose number is returned.
    """
    end = phases[-1].numbers[-1] + 0.5
    axis.set_xlim(0.5, end)
    line = 0
    lines = 1
    for number, (kind, group) in enumerate(itertools.groupby(phases, key=lambda phase: phase.kind)):
        alike = list(group)
        start = alike[0].start
        stop = alike[-1].numbers[-1] + 0.5
        if number % 2:
            axis.axvspan(start, stop, color="0.93", zorder=0)
        is_last_and_narrow = stop == end and stop - start < NARROW * (end - 0.5)
        axis.text(
            stop if is_last_and_narrow else (start + stop) / 2,
            1.02 + NAME_HEIGHT * line,
            KINDS[kind].title.format(epoch=epoch),
            ha="right" if is_last_and_narrow else "center",
            va="bottom",
            fontsize="small",
            color="0.35",
            transform=axis.get_xaxis_transform(),
        )
        lines = max(lines, line + 1)
        line = line + 1 if stop - start < NARROW * (end - 0.5) else 0
    return lines


def axis_label(objective: str) -> str:
    """Return the label of an axis that shows an objective: "lower bound" for "bound"."""
    return LABELS.get(objective, objective.replace("_", " "))


def panels_in_a_row(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, side by side."""
    figure = _new_figure(PANEL_WIDTH * count, 3.4)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def plot_line(axis: Axes, x: ArrayLike, y: ArrayLike, label: str, style: Mapping[str, Any]) -> Line2D:
    """Plot a line with a name and keyword arguments of `Axes.plot`; a single point gets a marker, to be visible."""
    marker = "o" if np.size(x) == 1 else None
    (line,) = axis.plot(x, y, **{"label": label, "marker": marker, **style})
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

    Frequencies have 95 % intervals, and no line joins them: between bins of few entries it would jump. `curves` maps
    names in the legend to curves with bins of equal width.
    """
    figure, upper, lower, styles = _panels_of(curves, [3, 1])
    upper.plot([0, 1], [0, 1], "--", color="gray", linewidth=1, label="calibrated")
    for curve, style in zip(curves.values(), styles, strict=True):
        edges = np.linspace(0, 1, len(curve.count) + 1)
        _draw_shares(upper, curve.confidence, curve, style)
        # An empty bin leaves a gap on the logarithmic axis.
        counts = np.where(curve.count > 0, curve.count, np.nan)
        lower.stairs(counts, edges, baseline=None, color=style["color"], linewidth=1.2)
        lower.plot((edges[1:] + edges[:-1]) / 2, counts, linestyle="", color=style["color"], **_small(style))
    _explain_few(upper, curves.values())
    upper.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", ylabel="frequency", title=title)
    upper.set_xticks(np.linspace(0, 1, 6))
    upper.set_yticks(np.linspace(0, 1, 6))
    lower.set(xlabel="mean probability", ylabel="entries a bin")
    _finish_reliability(figure, upper, lower)
    save_figure(figure, out)


def plot_reliability_by(quantity: str, curves: Mapping[str, ReliabilityCurve], out: Out) -> None:
    """Plot mean probabilities and the shares that are true, with 95 % intervals, above the counts of the groups.

    The quantity is "rank", of a label for its point, or "frequency", the number of training points of the label. The
    axis of more than twenty ranks is logarithmic, and later ones share points, which would cover each other. That of
    training points is logarithmic, and labels without any have a tick of their own. `curves` maps names in the legend
    to curves with such groups, see `reliability_by_rank` and `reliability_by_frequency`.
    """
    figure, upper, lower, styles = _panels_of(curves, [2, 1])
    if quantity == "rank":
        curves = {name: _joined_ranks(curve) for name, curve in curves.items()}
    for curve, style in zip(curves.values(), styles, strict=True):
        x = np.array([_position(group) for group in curve.names])
        _draw_shares(upper, x, curve, style)
        # Labels without training points do not continue the line of the others.
        without = x < 1
        upper.plot(x, np.where(without, np.nan, curve.confidence), "--", color=style["color"], linewidth=1.2)
        upper.plot(x[without], curve.confidence[without], "_", color=style["color"], markersize=9)
        lower.plot(x, np.where(curve.count > 0, curve.count, np.nan), linestyle="", **style)
    upper.plot([], [], "--", color="0.35", linewidth=1.2, label="mean probability")
    upper.plot([], [], "o", color="0.35", markersize=4, label="share that is true, with its 95 % interval")
    _explain_few(upper, curves.values())
    _scale_shares(upper, curves.values())
    _scale_groups(lower, quantity, [group for curve in curves.values() for group in curve.names])
    upper.set_ylabel("probability and frequency")
    lower.set(xlabel=QUANTITIES[quantity], ylabel="entries")
    _finish_reliability(figure, upper, lower)
    save_figure(figure, out)


def _panels_of(
    curves: Mapping[str, ReliabilityCurve], heights: Sequence[float]
) -> tuple[Figure, Axes, Axes, list[dict[str, Any]]]:
    """Return a figure, its two panels one above the other, and the colour, marker and label of each curve."""
    # Curves can be anywhere in the panels, so the legend is above them; a name as long as a path takes several lines.
    names = [textwrap.fill(escape_undecodable(name), LEGEND_WIDTH) for name in curves]
    figure = _new_figure(5, 7)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    styles = [
        {"color": f"C{number % 10}", "marker": marker, "markersize": 4, "label": name}
        for number, (name, marker) in enumerate(zip(names, itertools.cycle(MARKERS), strict=False))
    ]
    return figure, upper, lower, styles


def _small(style: Mapping[str, Any]) -> dict[str, Any]:
    """Return the marker of a curve for the panel of counts."""
    return {"marker": style["marker"], "markersize": 3}


def _draw_shares(axis: Axes, x: NDArray[np.floating], curve: ReliabilityCurve, style: Mapping[str, Any]) -> None:
    """Draw the share that is true in each bin with its interval; markers of few entries are hollow."""
    filled = curve.count > 0
    positions = x[filled]
    low, high = curve.intervals[filled].T
    axis.vlines(positions, low, high, color=style["color"], linewidth=1, alpha=0.6)
    axis.plot(positions, curve.frequency[filled], linestyle="", clip_on=False, **style)
    few = curve.count[filled] < FEW_POINTS
    # Without points, the line would be at the corner of the figure, which the layout would make room for.
    if few.any():
        hollow = {**style, "label": "_", "markerfacecolor": "white"}
        axis.plot(positions[few], curve.frequency[filled][few], linestyle="", clip_on=False, **hollow)


def _explain_few(axis: Axes, curves: Iterable[ReliabilityCurve]) -> None:
    """Say in the legend what hollow markers are, if there are any."""
    if any(((curve.count > 0) & (curve.count < FEW_POINTS)).any() for curve in curves):
        label = f"fewer than {FEW_POINTS} entries"
        axis.plot([], [], "o", color="0.35", markerfacecolor="white", markersize=4, label=label)


def _joined_ranks(curve: ReliabilityCurve) -> ReliabilityCurve:
    """Return a curve whose ranks after the first `SINGLE_RANKS` are in groups: "21-22", "23-24", …."""
    count = len(curve.names)
    starts = list(range(min(count, SINGLE_RANKS + 1)))
    while (following := round((starts[-1] + 1) * RANK_RATIO)) < count:
        starts.append(following)
    ends = [*starts[1:], count]
    names = [str(end) if end == start + 1 else f"{start + 1}-{end}" for start, end in zip(starts, ends, strict=True)]
    return ReliabilityCurve(names, np.add.reduceat(curve.sums, starts, axis=1))


def _position(group: str) -> float:
    """Return where a group such as "0", "1" or "4-7" is on a logarithmic axis."""
    first, _, last = group.partition("-")
    return math.sqrt(int(first) * int(last or first)) or NO_POINTS


def _scale_groups(axis: Axes, quantity: str, groups: Sequence[str]) -> None:
    """Scale and name the axis of ranks, or of numbers of training points."""
    most = max(int(group.rpartition("-")[2]) for group in groups)
    if quantity == "rank" and most <= SINGLE_RANKS:
        axis.set_xticks(range(1, most + 1))
        axis.set_xlim(0.5, most + 0.5)
        return
    ticks = [float(10**power) for power in range(int(math.log10(most)) + 1)]
    names = [f"{tick:,.0f}" for tick in ticks]
    left = 0.8
    if "0" in groups:
        ticks.insert(0, NO_POINTS)
        names.insert(0, "0")
        left = NO_POINTS / 1.6
        for panel in axis.figure.axes:
            panel.axvline(math.sqrt(NO_POINTS), color="0.6", linestyle=":", linewidth=1)
    axis.set_xscale("log")
    axis.set_xticks(ticks, names)
    axis.set_xticks([first * tick for tick in ticks if tick >= 1 for first in range(2, 10)], minor=True)
    axis.tick_params(axis="x", which="minor", labelbottom=False)
    # Ticks widen the limits.
    axis.set_xlim(left, most * 1.25)


def _scale_shares(axis: Axes, curves: Iterable[ReliabilityCurve]) -> None:
    """Make the axis of probabilities logarithmic if they differ widely; a share of zero is an arrow at the bottom."""
    curves = list(curves)
    values = np.concatenate([array for curve in curves for array in (curve.confidence, curve.frequency)])
    positive = values[values > 0]
    highest = np.nanmax([positive.max(initial=0), *(np.nanmax(curve.intervals[:, 1]) for curve in curves)])
    axis.set_ylim(0, min(1, 1.05 * highest))
    if not len(positive) or positive.max() < WIDE * positive.min():
        return
    bottom = max(positive.min() / 2, positive.max() / WIDEST)
    axis.set_yscale("log")
    axis.set_ylim(bottom, min(1, 1.5 * highest))
    for line in list(axis.get_lines()):
        # The layout cannot place zero.
        line.set_clip_on(True)
        x, y = line.get_data()
        zero = np.asarray(y) == 0
        if zero.any():
            face = line.get_markerfacecolor()
            axis.plot(
                np.asarray(x)[zero],
                np.full(np.count_nonzero(zero), bottom),
                linestyle="",
                marker="v",
                markersize=5,
                color=line.get_color(),
                markerfacecolor=face,
                clip_on=False,
            )


def _finish_reliability(figure: Figure, upper: Axes, lower: Axes) -> None:
    """Add the grid, the scale of the counts and the legend."""
    lower.set_yscale("log")
    lower.set_ylim(bottom=0.5)
    for axis in (upper, lower):
        axis.set_axisbelow(True)
        axis.grid(color="0.9", linewidth=0.6)
    handles, names = upper.get_legend_handles_labels()
    figure.set_figheight(6.82 + sum(0.18 + 0.16 * name.count("\n") for name in names))
    figure.legend(handles, names, loc="outside upper left", fontsize="small", frameon=False)


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
