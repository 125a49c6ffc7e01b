"""The objective of training against the epoch: the bound or the log posterior."""

from typing import NamedTuple

from xmlgp.plots.figure import finish_panels, panels_in_a_row, plot_line, save_figure

__all__ = ["Panel", "axis_label", "plot_objective"]

#: Labels of objectives that are not their names.
LABELS = {"bound": "lower bound"}


class Panel(NamedTuple):
    """Histories of training runs with comparable objectives: the objective's name, and epochs by name in the legend."""

    objective: str
    histories: dict


def axis_label(objective):
    """Return the label of an axis that shows an objective: "lower bound" for "bound"."""
    return LABELS.get(objective, objective.replace("_", " "))


def plot_objective(panels, out):
    """Plot the objective of training against the epoch.

    Parameters
    ----------
    panels : mapping of str to Panel
        Title → content; a single panel gets no title.
    out : path or binary file
        File to write; its suffix chooses the format, PNG without one.

    Raises
    ------
    XmlgpError
        If Matplotlib is not installed or cannot write the format.
    """
    figure, axes = panels_in_a_row(len(panels))
    for axis, panel in zip(axes, panels.values(), strict=True):
        for name, history in panel.histories.items():
            epochs = [entry["epoch"] for entry in history]
            plot_line(axis, epochs, [entry[panel.objective] for entry in history], name, {})
        axis.set_ylabel(axis_label(panel.objective))
    finish_panels(axes, list(panels) if len(panels) > 1 else [""])
    save_figure(figure, out)
