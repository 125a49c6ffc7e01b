"""The kinds of experiments: how their cells are run, and which table and figure they make."""

import dataclasses
from collections.abc import Callable

from xmlgp.experiments import figures, tables
from xmlgp.experiments.bmlpl import BMLPLCell
from xmlgp.experiments.gpc import GPCCell
from xmlgp.experiments.mlgpf import MLGPFCell

__all__ = ["KINDS", "Kind"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of experiment: the class of its cells, its table, its figure, and whether its cells run alone."""

    cell: type
    table: Callable
    figure: figures.Figure | None = None
    timed: bool = False


#: By the name in the catalogue.
KINDS = {
    "precision": Kind(MLGPFCell, tables.precision_table),
    "minutes": Kind(MLGPFCell, tables.minutes_table),
    "restarts": Kind(MLGPFCell, tables.restarts_table),
    "bound": Kind(MLGPFCell, tables.restarts_table, figures.BOUND),
    "curve": Kind(MLGPFCell, tables.restarts_table, figures.CURVE),
    "bars": Kind(MLGPFCell, tables.restarts_table, figures.BARS),
    "interval": Kind(MLGPFCell, tables.restarts_table, figures.INTERVAL),
    "auc": Kind(BMLPLCell, tables.auc_table),
    "share": Kind(BMLPLCell, tables.share_table, figures.SHARE, timed=True),
    "race": Kind(BMLPLCell, tables.auc_table, figures.RACE, timed=True),
    "accuracy": Kind(GPCCell, tables.accuracy_table, figures.ACCURACY, timed=True),
}
