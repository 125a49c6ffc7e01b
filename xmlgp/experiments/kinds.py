"""The kinds of experiments: how their cells are run, and which table and figure they make."""

import dataclasses
from collections.abc import Callable

from xmlgp.experiments import figures
from xmlgp.experiments.bmlpl import BMLPLCell
from xmlgp.experiments.gpc import GPCCell
from xmlgp.experiments.mlgpf import MLGPFCell
from xmlgp.experiments.tables import (
    accuracy_table,
    auc_table,
    minutes_table,
    precision_table,
    restarts_table,
    share_table,
)

__all__ = ["KINDS", "Kind"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of experiment.

    Parameters
    ----------
    cell : type
        The subclass of `Cell` that trains and measures.
    table : callable
        Yields the lines of the Markdown table of the rows (`tables.collect`).
    figure : Figure, optional
    timed : bool
        Whether seconds of training are the result, so that cells must run one at a time.
    """

    cell: type
    table: Callable
    figure: figures.Figure | None = None
    timed: bool = False


#: By the name in the catalogue.
KINDS = {
    "precision": Kind(MLGPFCell, precision_table),
    "minutes": Kind(MLGPFCell, minutes_table),
    "restarts": Kind(MLGPFCell, restarts_table),
    "bound": Kind(MLGPFCell, restarts_table, figures.BOUND),
    "curve": Kind(MLGPFCell, restarts_table, figures.CURVE),
    "bars": Kind(MLGPFCell, restarts_table, figures.BARS),
    "interval": Kind(MLGPFCell, restarts_table, figures.INTERVAL),
    "auc": Kind(BMLPLCell, auc_table),
    "share": Kind(BMLPLCell, share_table, figures.SHARE, timed=True),
    "race": Kind(BMLPLCell, auc_table, figures.RACE, timed=True),
    "accuracy": Kind(GPCCell, accuracy_table, figures.ACCURACY, timed=True),
}
