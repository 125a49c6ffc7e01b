"""The report of an experiment: its table as Markdown and JSON, and its figure."""

from typing import NamedTuple

from xmlgp.experiments.figures import draw_experiment
from xmlgp.experiments.tables import collect, write_table

__all__ = ["Report", "write_report"]


class Report(NamedTuple):
    """The files that were written."""

    markdown: str
    figures: list


def write_report(experiment, entries, results):
    """Write the table and the figure of an experiment from the results of its cells.

    Parameters
    ----------
    experiment : Experiment
    entries : mapping of str to Entry
        Of the catalogue.
    results : Path
        Folder of results; created if missing.

    Returns
    -------
    Report
    """
    results.mkdir(parents=True, exist_ok=True)
    rows = collect(experiment, entries, results)
    markdown = write_table(experiment, rows, results)
    return Report(markdown, draw_experiment(experiment, results) if rows and experiment.kind.figure else [])
