"""The experiments of the catalogue: kinds of tables and figures, and the cells that make up each experiment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from benchmarks.papers import layout
from benchmarks.papers.bmlpl import BMLPLCell
from benchmarks.papers.cells import Cell, other_data
from benchmarks.papers.gpc import GPCCell
from benchmarks.papers.mlgpf import MLGPFCell
from xmlgp.data.catalogue import Catalogue, Entry, load_catalogue
from xmlgp.models.table import resolve_for
from xmlgp.runtime.errors import CatalogueError, SettingsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["KINDS", "PARTIAL", "Experiment", "Kind", "PapersCatalogue", "load_experiment", "load_papers"]


class Kind(NamedTuple):
    """A kind of experiment: the class of its cells, its table, its figure, and whether its cells run alone to be timed.

    `table(rows)` yields the lines of the table. `draw(axis, rows, styles)` draws rows into a panel. `ylabel` is the
    label of the vertical axis, unless `draw` sets one. Rows with the same `title` share a panel.
    """

    cell: type[Cell]
    table: Callable[[layout.Rows], Iterator[str]]
    draw: Callable[[Axes, layout.Panel, layout.Styles], None] | None = None
    ylabel: str = ""
    title: str = "{dataset}"
    timed: bool = False


BOUND_LABEL = "lower bound"
RESTARTS_TABLE = layout.restarts_table
ACCURACY_LABEL = "accuracy on the test points in %"
SIZES_TITLE = "{dataset}, n = {n}, d = {d}, m = {m}"

#: Kinds by their names in the catalogue.
KINDS = {
    "precision": Kind(MLGPFCell, layout.precision_table),
    "minutes": Kind(MLGPFCell, layout.minutes_table),
    "restarts": Kind(MLGPFCell, RESTARTS_TABLE),
    "training": Kind(MLGPFCell, layout.training_table),
    "bound": Kind(MLGPFCell, RESTARTS_TABLE, partial(layout.draw_lines, series="history", value="bound"), BOUND_LABEL),
    "curve": Kind(MLGPFCell, RESTARTS_TABLE, partial(layout.draw_lines, series="curve", value="P@1"), "P@1 in %"),
    "bars": Kind(MLGPFCell, RESTARTS_TABLE, layout.draw_bars),
    "interval": Kind(MLGPFCell, RESTARTS_TABLE, layout.draw_interval, BOUND_LABEL, "{dataset}, {method}"),
    "auc": Kind(BMLPLCell, layout.auc_table),
    "topics": Kind(BMLPLCell, layout.topics_table),
    "share": Kind(BMLPLCell, layout.share_table, layout.draw_share, "seconds of training", timed=True),
    "race": Kind(BMLPLCell, layout.auc_table, layout.draw_race, "AUC, mean over points", timed=True),
    "accuracy": Kind(GPCCell, layout.accuracy_table, layout.draw_accuracy, ACCURACY_LABEL, SIZES_TITLE, timed=True),
}

#: The keys of an experiment in datasets.yaml that may be missing; some classes of cells add keys (`Cell.defaults`).
DEFAULTS: dict[str, Any] = {
    "settings": {},
    "variants": [],
    "restarts": 1,
    "once": [],
    "test_every": 0,
    "compare": "",
    "note": "",
    "styles": {},
}

#: The keys that every experiment has.
REQUIRED = {"title", "paper", "kind", "datasets", "methods"}

#: Share of the points held out as test points if a data set has no test points ([I] section 2).
HELD_OUT = 0.2

#: The folder within that of the results for experiments with other numbers of epochs or other data than the papers'.
PARTIAL = "partial"

#: Symbols of settings in the papers.
SYMBOLS = {"factors": "P", "inducing_count": "M", "basis_size": "R"}


@dataclasses.dataclass(frozen=True)
class PapersCatalogue(Catalogue):
    """The catalogue with its experiments by name, which are not checked."""

    experiments: dict[str, Any]


class Experiment(NamedTuple):
    """A table or a figure.

    Each of the `rows` has a data set, a method, a variant in words, and a tuple with a cell for each restart. `chosen`
    names the data sets that are to be run, `missing` those of them whose files are missing. `compare` is the key of the
    paper's numbers in `results` of a data set, or empty. `note` stands below the table, unless it is empty. `styles`
    has the line style of each method, as Matplotlib's keyword arguments. `epochs_scale` is 1 for the experiment of the
    paper. `other_sizes` says of data sets, by their names, which sizes they have that are not those of the catalogue;
    it is empty if none of these is to be run, so that the rows of the catalogue's data stay.
    """

    name: str
    title: str
    kind: Kind
    rows: tuple[tuple[str, str, str, tuple[Cell, ...]], ...]
    chosen: tuple[str, ...]
    missing: tuple[str, ...]
    compare: str
    note: str
    styles: layout.Styles
    epochs_scale: float
    other_sizes: dict[str, str]

    @property
    def cells(self) -> list[Cell]:
        """The cells to be run, in order."""
        available = set(self.chosen).difference(self.missing)
        return [cell for dataset, *_, cells in self.rows if dataset in available for cell in cells]

    def finished_rows(self, results: Mapping[str, dict[str, Any]]) -> list[tuple[str, str, str, list[dict[str, Any]]]]:
        """Return the rows with results, of `read_results`; each has a list of them in place of its cells."""
        rows = [
            (dataset, method, variant, [results[cell.name] for cell in cells if cell.name in results])
            for dataset, method, variant, cells in self.rows
        ]
        return [row for row in rows if row[-1]]


def load_papers() -> PapersCatalogue:
    """Read the catalogue of data sets and its experiments; see `load_catalogue`."""
    catalogue = load_catalogue()
    experiments = yaml.safe_load(Path(catalogue.path).read_text(encoding="utf-8"))["experiments"]
    return PapersCatalogue(**vars(catalogue), experiments=experiments)


def load_experiment(
    catalogue: PapersCatalogue, name: str, data: str | Path, only: Sequence[str] = (), epochs_scale: float = 1.0
) -> Experiment:
    """Return an `Experiment` of the catalogue, with data sets in the folder `data`; those in `only` are run, or all.

    `epochs_scale` multiplies all numbers of epochs, and all time limits of training. SettingsError if the experiment
    is unknown or has none of the data sets, CatalogueError if its entry is malformed.
    """
    if name not in catalogue.experiments:
        names = ", ".join(map(str, catalogue.experiments))
        raise SettingsError(f"{name} is not an experiment; choose from {names}")
    where = f"{catalogue.path}: experiment {name}"
    raw = catalogue.experiments[name]
    if REQUIRED - raw.keys() or raw["kind"] not in KINDS:
        raise CatalogueError(f"{where} needs {', '.join(sorted(REQUIRED))}; its kind is one of {', '.join(KINDS)}")
    kind = KINDS[raw["kind"]]
    defaults = DEFAULTS | kind.cell.defaults
    if unknown := raw.keys() - REQUIRED - defaults.keys():
        raise CatalogueError(f"{where} has an unknown key {sorted(unknown)[0]!r}")
    spec = defaults | raw
    chosen = tuple(dataset for dataset in spec["datasets"] if not only or dataset in only)
    if not chosen:
        raise SettingsError(f"{name} has none of these data sets; it has {', '.join(spec['datasets'])}")
    folders = {dataset: Path(data) / dataset for dataset in spec["datasets"]}
    other = {dataset: other_data(catalogue[dataset], folder) for dataset, folder in folders.items()}
    if not any(other[dataset] for dataset in chosen):
        other = dict.fromkeys(other, ())
    return Experiment(
        name=name,
        title=spec["title"],
        kind=kind,
        rows=tuple(_rows(catalogue, spec, folders, other, epochs_scale, where)),
        chosen=chosen,
        missing=tuple(dataset for dataset in chosen if not _has_files(catalogue[dataset], folders[dataset])),
        compare=spec["compare"],
        note=spec["note"],
        styles=spec["styles"],
        epochs_scale=epochs_scale,
        other_sizes={
            dataset: "; ".join(f"{file} has {sizes}" for file, sizes, _ in files)
            for dataset, files in other.items()
            if files
        },
    )


def _rows(
    catalogue: PapersCatalogue,
    spec: Mapping[str, Any],
    folders: Mapping[str, Path],
    other: Mapping[str, tuple[tuple[str, str, str], ...]],
    epochs_scale: float,
    where: str,
) -> Iterator[tuple[str, str, str, tuple[Cell[Any], ...]]]:
    """Yield the rows of an `Experiment`, given its entry and, by data set, the folder and what `other_data` returns."""
    kind = KINDS[spec["kind"]]
    cell = kind.cell
    # Maps methods to recipes. L-BFGS-B over all points has no recipe of GPC, so it uses that of another method.
    recipes = {method: method for method in spec["methods"]} | spec.get("full_batch", {})
    for dataset, folder in folders.items():
        entry = catalogue[dataset]
        propensity = tuple(entry.propensity) if entry.propensity else None
        for method, recipe in recipes.items():
            try:
                options = cell.options(spec, dataset, method, epochs_scale)
            except CatalogueError as error:
                raise CatalogueError(f"{where}: {error}") from error
            options |= {
                "test_every": spec["test_every"],
                "held_out": 0.0 if entry.shape.N_test else HELD_OUT,
                "timed": kind.timed,
                "other_data": other[dataset],
            }
            for variant in spec["variants"] or [{}]:
                settings = resolve_for(catalogue, recipe, entry, spec["settings"] | variant)
                if settings.model != cell.model.name:
                    raise CatalogueError(
                        f"{where}: {recipe} is a recipe of {settings.model}; kind {spec['kind']} needs one "
                        f"of {cell.model.name}"
                    )
                settings = settings.for_shape(entry.shape.N, entry.shape.D, entry.shape.K)
                settings = cell.scale(settings, entry.shape.N, epochs_scale)
                restarts = 1 if dataset in spec["once"] else spec["restarts"]
                seeded = [dataclasses.replace(settings, seed=seed) for seed in range(restarts)]
                cells = tuple(cell(dataset, folder, propensity, one, **options) for one in seeded)
                description = ", ".join(f"{SYMBOLS.get(key, key)}={value}" for key, value in variant.items())
                yield dataset, method, description, cells


def _has_files(entry: Entry, folder: Path) -> bool:
    return all((folder / file.name).exists() for file in entry.files)
