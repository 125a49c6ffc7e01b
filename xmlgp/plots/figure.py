"""Figures in one style: panels side by side, written as PNG, PDF or SVG."""

import io
from pathlib import Path

from xmlgp.data.streams import open_output
from xmlgp.errors import XmlgpError

__all__ = ["MARKERS", "finish_panels", "new_figure", "panels_in_a_row", "plot_line", "save_figure"]

#: Width of a panel in inches.
PANEL_WIDTH = 4.2

#: Markers that distinguish curves where they overlap.
MARKERS = "osD^vPX"


def new_figure(width, height):
    """Return an empty figure of this size in inches; raise XmlgpError if Matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise XmlgpError("figures need Matplotlib: pip install 'xmlgp[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def panels_in_a_row(count):
    """Return a figure and a list of its panels (`Axes`), side by side."""
    figure = new_figure(PANEL_WIDTH * count, 3.4)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def plot_line(axis, x, y, label, style):
    """Plot a line with a name and keyword arguments of `Axes.plot`; a single point gets a marker, to be visible."""
    axis.plot(x, y, label=label, marker="o" if len(x) == 1 else None, **style)


def finish_panels(axes, titles, ylabel=""):
    """Add a title and a legend to each panel, and the label of the vertical axis to the first."""
    for axis, title in zip(axes, titles, strict=True):
        # The default size is too wide for a title that lists the sizes of a data set.
        axis.set_title(title, fontsize="medium")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
            axis.set_xlabel(axis.get_xlabel() or "epoch")
    if ylabel:
        axes[0].set_ylabel(ylabel)


def save_figure(figure, out):
    """Write a figure into a path, whose suffix chooses the format, or as PNG into a binary file."""
    if not isinstance(out, str | Path):
        out.write(_render(figure, "png"))
        return
    suffix = Path(out).suffix[1:]
    if suffix and suffix.lower() not in figure.canvas.get_supported_filetypes():
        raise XmlgpError(f"{out}: figures are written as png, pdf or svg, not as {suffix}")
    content = _render(figure, suffix.lower() or "png")
    with open_output(out) as stream:
        stream.write(content)


def _render(figure, suffix):
    """Return the content of a file. If Matplotlib wrote to a full disk itself, the first error would be hidden."""
    stream = io.BytesIO()
    figure.savefig(stream, dpi=150, format=suffix)
    return stream.getvalue()
