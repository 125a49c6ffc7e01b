"""The experiments of the catalogue: kinds of tables and figures, and the cells that make up each experiment."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.papers import layout
from benchmarks.papers.bmlpl import BMLPLCell
from benchmarks.papers.cells import other_data, read_result
from benchmarks.papers.gpc import GPCCell
from benchmarks.papers.mlgpf import MLGPFCell
from xmlgp.data.catalogue import Catalogue, load_catalogue
from xmlgp.data.checked_yaml import MAPPING, Optional, check, integer, load_yaml, text
from xmlgp.errors import CatalogueError, SettingsError
from xmlgp.models import resolve_for
from xmlgp.plots import axis_label

__all__ = ["KINDS", "PARTIAL", "Experiment", "Kind", "PapersCatalogue", "load_experiment", "load_papers"]


class Kind(NamedTuple):
    """A kind of experiment: the class of its cells, its table, its figure, and whether its cells run alone to be timed.

    `table(rows)` yields the lines of the table. `draw(axis, rows, styles)` draws rows into a panel. `ylabel` is the
    label of the vertical axis, unless `draw` sets one. Rows with the same `title` share a panel.
    """

    cell: type
    table: Callable
    draw: Callable | None = None
    ylabel: str = ""
    title: str = "{dataset}"
    timed: bool = False


BOUND_LABEL = axis_label("bound")
RESTARTS_TABLE = layout.restarts_table
ACCURACY_LABEL = "accuracy on the test points in %"
SIZES_TITLE = "{dataset}, n = {n}, d = {d}, m = {m}"

#: Kinds by their names in the catalogue.
KINDS = {
    "precision": Kind(MLGPFCell, layout.precision_table),
    "minutes": Kind(MLGPFCell, layout.minutes_table),
    "restarts": Kind(MLGPFCell, RESTARTS_TABLE),
    "bound": Kind(MLGPFCell, RESTARTS_TABLE, partial(layout.draw_lines, part="history", value="bound"), BOUND_LABEL),
    "curve": Kind(MLGPFCell, RESTARTS_TABLE, partial(layout.draw_lines, part="curve", value="P@1"), "P@1 in %"),
    "bars": Kind(MLGPFCell, RESTARTS_TABLE, layout.draw_bars),
    "interval": Kind(MLGPFCell, RESTARTS_TABLE, layout.draw_interval, BOUND_LABEL, "{dataset}, {method}"),
    "auc": Kind(BMLPLCell, layout.auc_table),
    "share": Kind(BMLPLCell, layout.share_table, layout.draw_share, "seconds of training", timed=True),
    "race": Kind(BMLPLCell, layout.auc_table, layout.draw_race, "AUC, mean over points", timed=True),
    "accuracy": Kind(GPCCell, layout.accuracy_table, layout.draw_accuracy, ACCURACY_LABEL, SIZES_TITLE, timed=True),
}

#: The schema of an experiment in datasets.yaml; some classes of cells add keys (`Cell.schema`).
SCHEMA = {
    "title": text(),
    "paper": text(),
    "kind": text(f"one of {', '.join(KINDS)}", "|".join(KINDS)),
    "datasets": [text()],
    "methods": [text()],
    "settings": Optional(MAPPING, {}),
    "variants": Optional([MAPPING], []),
    "restarts": Optional(integer(1), 1),
    "test_every": Optional(integer(0), 0),
    "compare": Optional(text(), ""),
    "styles": Optional({None: MAPPING}, {}),
}

#: Share of the points held out as test points if a data set has no test points ([I] section 2).
HELD_OUT = 0.2

#: The folder within that of the results for experiments with other numbers of epochs or other data than the papers'.
PARTIAL = "partial"

#: Symbols of settings in the papers.
SYMBOLS = {"factors": "P", "inducing_count": "M", "basis_size": "R"}


@dataclasses.dataclass(frozen=True)
class PapersCatalogue(Catalogue):
    """The catalogue with its experiments by name, which are not checked."""

    experiments: dict


class Experiment(NamedTuple):
    """A table or a figure.

    Each of the `rows` has a data set, a method, a variant in words, and a tuple with a cell for each restart. `chosen`
    names the data sets that are to be run, `missing` those of them whose files are missing. `compare` is the key of the
    paper's numbers in `results` of a data set, or empty. `styles` has the line style of each method, as Matplotlib's
    keyword arguments. `epochs_scale` is 1 for the experiment of the paper. `others` says of data sets, by their names,
    which sizes they have that are not those of the catalogue; it is empty if none of these is to be run, so that
    the rows of the catalogue's data stay.
    """

    name: str
    title: str
    kind: Kind
    rows: tuple
    chosen: tuple
    missing: tuple
    compare: str
    styles: dict
    epochs_scale: float
    others: dict

    @property
    def cells(self):
        """The cells to be run, in order."""
        available = set(self.chosen).difference(self.missing)
        return [cell for dataset, *_, cells in self.rows if dataset in available for cell in cells]

    def finished_rows(self, results):
        """Return the rows with results in a folder; each has a list of its results in place of its cells."""
        rows = [
            (*row, [result for cell in cells if (result := read_result(cell, results)) is not None])
            for *row, cells in self.rows
        ]
        return [row for row in rows if row[-1]]


def load_papers():
    """Read the catalogue of data sets and its experiments; see `load_catalogue`."""
    catalogue = load_catalogue()
    return PapersCatalogue(**vars(catalogue), experiments=load_yaml(catalogue.path).get("experiments") or {})


def load_experiment(catalogue, name, data, only=(), epochs_scale=1.0):
    """Return an `Experiment` of the catalogue, with data sets in the folder `data`; those in `only` are run, or all.

    `epochs_scale` multiplies all numbers of epochs, and all time limits of training. SettingsError if the experiment
    is unknown or has none of the data sets, CatalogueError if its entry is malformed.
    """
    if name not in catalogue.experiments:
        known = ", ".join(map(str, catalogue.experiments))
        raise SettingsError(f"{name} is not an experiment; choose from {known}")
    where = f"{catalogue.path}: experiment {name}"
    raw = catalogue.experiments[name]
    kind = KINDS.get(str(raw.get("kind"))) if isinstance(raw, dict) else None
    spec = check(raw, SCHEMA | (kind.cell.schema if kind else {}), where)
    chosen = tuple(dataset for dataset in spec["datasets"] if not only or dataset in only)
    if not chosen:
        raise SettingsError(f"{name} has none of these data sets; it has {', '.join(spec['datasets'])}")
    # Maps methods to recipes. L-BFGS-B over all points has no recipe of GPC, so it uses that of another method.
    recipes = {method: method for method in spec["methods"]} | spec.get("full_batch", {})
    rows = []
    missing = []
    others = {each: other for each in spec["datasets"] if (other := other_data(catalogue[each], Path(data) / each))}
    if others.keys().isdisjoint(chosen):
        others = {}
    for dataset in spec["datasets"]:
        entry = catalogue[dataset]
        folder = Path(data) / dataset
        if dataset in chosen and not all((folder / file.name).exists() for file in entry.files):
            missing.append(dataset)
        propensity = tuple(entry.propensity) if entry.propensity else None
        for method, recipe in recipes.items():
            try:
                options = kind.cell.options(spec, dataset, method, epochs_scale)
            except CatalogueError as error:
                raise CatalogueError(f"{where}: {error}") from error
            options |= {
                "held_out": 0.0 if entry.shape.N_test else HELD_OUT,
                "timed": kind.timed,
                "other_data": others.get(dataset, ()),
            }
            for variant in spec["variants"] or [{}]:
                settings = resolve_for(catalogue, recipe, entry, spec["settings"] | variant)
                if settings.model != kind.cell.model.name:
                    raise CatalogueError(
                        f"{where}: {recipe} is a recipe of {settings.model}; kind {spec['kind']} needs one "
                        f"of {kind.cell.model.name}"
                    )
                settings = settings.for_shape(entry.shape.N, entry.shape.D, entry.shape.K)
                settings = kind.cell.scale(settings, entry.shape.N, epochs_scale)
                seeded = [dataclasses.replace(settings, seed=seed) for seed in range(spec["restarts"])]
                cells = [kind.cell(dataset, folder, propensity, one, spec["test_every"], **options) for one in seeded]
                description = ", ".join(f"{SYMBOLS.get(key, key)}={value}" for key, value in variant.items())
                rows.append((dataset, method, description, tuple(cells)))
    words = {each: "; ".join(f"{file} has {sizes}" for file, sizes, _ in other) for each, other in others.items()}
    parts = tuple(rows), chosen, tuple(missing), spec["compare"], spec["styles"], epochs_scale, words
    return Experiment(name, spec["title"], kind, *parts)
