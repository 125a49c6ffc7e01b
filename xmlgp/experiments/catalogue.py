"""The experiments of the catalogue: which methods on which data sets make up a table or a figure."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from xmlgp.errors import CatalogueError, SettingsError
from xmlgp.experiments.kinds import KINDS, Kind
from xmlgp.recipes import resolve_for

__all__ = ["Experiment", "load_experiment"]

#: Keys of any experiment in datasets.yaml, with the type of each; a kind of cell can have more (`Cell.keys`).
KEYS = {
    "title": str,
    "paper": str,
    "kind": str,
    "datasets": list,
    "methods": list,
    "settings": dict,
    "variants": list,
    "restarts": int,
    "test_every": int,
    "compare": str,
    "styles": dict,
}

#: Keys that have no default.
REQUIRED = ("title", "paper", "kind", "datasets", "methods")

#: Share of the points that become test points if a data set has none ([I] section 2).
HELD_OUT = 0.2

#: Symbols of settings in the papers.
SYMBOLS = {"factors": "P", "inducing_count": "M", "basis_size": "R"}


@dataclass(frozen=True)
class Experiment:
    """A table or a figure."""

    name: str
    title: str
    paper: str
    kind: Kind

    #: Data set, method, variant in words, and a tuple with a cell for each restart.
    rows: tuple

    #: Data sets of the experiment whose files are missing.
    missing: tuple

    #: Key of the paper's numbers in `results` of a data set, or the empty string.
    compare: str

    #: Line style of each method, as Matplotlib's keyword arguments.
    styles: dict

    @property
    def cells(self):
        """All cells, in order."""
        return [cell for *_, cells in self.rows for cell in cells]


def load_experiment(catalogue, name, data, only=(), epochs_scale=1.0):
    """Return an experiment of the catalogue.

    Parameters
    ----------
    catalogue : Catalogue
    name : str
        Of the experiment.
    data : Path
        Folder of data sets.
    only : collection of str
        Data sets to restrict it to; all if empty.
    epochs_scale : float
        Factor of all numbers of epochs, and of seconds where these end a training.

    Returns
    -------
    Experiment

    Raises
    ------
    SettingsError
        If the experiment is unknown or has none of the data sets.
    CatalogueError
        If its entry is malformed.
    """
    spec, kind = _read_spec(catalogue, name)
    chosen = [dataset for dataset in spec["datasets"] if not only or dataset in only]
    if not chosen:
        raise SettingsError(f"{name} has none of these data sets; it has {', '.join(spec['datasets'])}")
    rows, missing = [], []
    for dataset in chosen:
        entry, folder = catalogue[dataset], Path(data) / dataset
        if not all((folder / file.name).exists() for file in entry.files):
            missing.append(dataset)
            continue
        propensity = (entry.propensity.A, entry.propensity.B) if entry.propensity else None
        for method, recipe in kind.cell.methods(spec):
            for variant in spec["variants"] or [{}]:
                settings = resolve_for(catalogue, recipe, entry, spec["settings"] | variant)
                settings = settings.for_shape(entry.shape.N, entry.shape.D, entry.shape.K)
                if settings.model != kind.cell.model.name:
                    raise _malformed(
                        catalogue,
                        name,
                        f"{recipe} is a recipe of {settings.model}; kind {spec['kind']} is of {kind.cell.model.name}",
                    )
                settings = kind.cell.scale(settings, entry.shape.N, epochs_scale)
                options = kind.cell.options(spec, dataset, method, epochs_scale)
                options |= {"held_out": 0.0 if entry.shape.N_test else HELD_OUT, "timed": kind.timed}
                cells = tuple(
                    kind.cell(
                        dataset,
                        folder,
                        propensity,
                        dataclasses.replace(settings, seed=seed),
                        spec["test_every"],
                        **options,
                    )
                    for seed in range(spec["restarts"])
                )
                words = ", ".join(f"{SYMBOLS.get(key, key)}={value}" for key, value in variant.items())
                rows.append((dataset, method, words, cells))
    return Experiment(
        name, spec["title"], spec["paper"], kind, tuple(rows), tuple(missing), spec["compare"], spec["styles"]
    )


def _read_spec(catalogue, name):
    """Return the checked entry of an experiment, with defaults, and its kind."""
    if name not in catalogue.experiments:
        known = ", ".join(map(str, catalogue.experiments))
        raise SettingsError(f"{name} is not an experiment; choose from {known}")
    given = catalogue.experiments[name]
    given = given if isinstance(given, dict) else {}
    # A file can have an unhashable value here.
    kind = KINDS.get(given.get("kind")) if isinstance(given.get("kind"), str) else None
    keys = KEYS | (kind.cell.keys if kind else {})
    defaults = {key: required() for key, required in keys.items() if key not in REQUIRED} | {"restarts": 1}
    spec = defaults | given
    wrong = [key for key, expected in keys.items() if not isinstance(spec.get(key), expected)]
    if wrong:
        raise _malformed(catalogue, name, f"{wrong[0]} is missing or has the wrong type")
    if kind is None:
        raise _malformed(catalogue, name, f"kind must be one of {', '.join(KINDS)}")
    unknown = sorted(set(spec) - set(keys), key=str)
    if unknown:
        raise _malformed(catalogue, name, f"{unknown[0]} is not a key of kind {spec['kind']}")
    reason = kind.cell.check(spec)
    if reason:
        raise _malformed(catalogue, name, reason)
    return spec, kind


def _malformed(catalogue, name, reason):
    return CatalogueError(f"{catalogue.path}: experiment {name}: {reason}")
