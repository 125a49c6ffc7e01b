"""The experiments of the catalogue: which methods on which data sets make up a table or a figure."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

from xmlgp.errors import CatalogueError, SettingsError
from xmlgp.experiments.cells import Cell
from xmlgp.recipes import resolve_for
from xmlgp.training.history import is_number
from xmlgp.training.schedules import usual_epochs

__all__ = ["FIGURES", "Experiment", "load_experiment"]

#: Keys of an experiment in datasets.yaml, with the type of each.
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
    "topic_shares": list,
    "seconds": dict,
    "learning_rates": list,
    "full_batch": dict,
    "compare": str,
    "styles": dict,
}

#: Kinds of which a figure is drawn.
FIGURES = ("bound", "curve", "bars", "interval", "share", "race", "accuracy")

#: Kinds that show seconds of training, which is then not to have others beside it.
TIMED = ("share", "race", "accuracy")

#: Share of the points that are test points, of a data set without any of its own ([I] section 2).
HELD_OUT = 0.2

#: What is laid out, and the model that it is of.
KINDS = dict.fromkeys(("precision", "minutes", "restarts", "bound", "curve", "bars", "interval"), "mlgpf")
KINDS |= dict.fromkeys(("auc", "share", "race"), "bmlpl") | {"accuracy": "gpc"}


@dataclass(frozen=True)
class Experiment:
    """A table or a figure.

    Attributes
    ----------
    name, title, paper, kind : str
        `kind` is one of `KINDS`: what is laid out.
    rows : tuple of (str, str, str, tuple of Cell)
        Data set, method, variant in words, and a cell for each restart.
    missing : tuple of str
        Data sets of the experiment that are not there.
    compare : str
        Key of the papers' numbers in `results` of a data set, or the empty text.
    styles : mapping
        Line style of each method, Matplotlib's words.
    """

    name: str
    title: str
    paper: str
    kind: str
    rows: tuple
    missing: tuple
    compare: str
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
        Data sets to restrict it to; all where empty.
    epochs_scale : float
        Factor of all numbers of epochs, and of seconds where those end a training.

    Raises
    ------
    SettingsError
        For an experiment that there is not, or no data set of it.
    CatalogueError
        Where its entry is malformed.
    """
    spec = _spec(catalogue, name)
    rows, missing, known = [], [], [set_name for set_name in spec["datasets"] if not only or set_name in only]
    if not known:
        raise SettingsError(f"{name} has none of these data sets; it has {', '.join(spec['datasets'])}")
    for set_name in known:
        entry, folder = catalogue[set_name], Path(data) / set_name
        if not all((folder / file.name).exists() for file in entry.files):
            missing.append(set_name)
            continue
        # Of L-BFGS-B over all points there is no recipe, for it is no inference of the model.
        for method, recipe in [(name, name) for name in spec["methods"]] + list(spec["full_batch"].items()):
            for variant in spec["variants"] or [{}]:
                chosen = spec["settings"] | variant
                settings = _scaled(resolve_for(catalogue, recipe, entry, chosen), entry, epochs_scale)
                model = KINDS[spec["kind"]]
                if settings.model != model:
                    wrong = f"{recipe} is a recipe of {settings.model}; kind {spec['kind']} is of {model}"
                    raise CatalogueError(f"{catalogue.path}: experiment {name}: {wrong}")
                full_batch = method in spec["full_batch"]
                tries = model == "gpc" and settings.inference == "svi-adadelta" and not full_batch
                cells = tuple(
                    Cell(
                        set_name,
                        folder,
                        (entry.propensity.A, entry.propensity.B) if entry.propensity else None,
                        dataclasses.replace(settings, seed=seed),
                        spec["test_every"],
                        tuple(spec["topic_shares"]),
                        held_out=0.0 if entry.shape.N_test else HELD_OUT,
                        seconds=epochs_scale * spec["seconds"].get(set_name, 0),
                        learning_rates=tuple(spec["learning_rates"]) if tries else (),
                        full_batch=full_batch,
                        timed=spec["kind"] in TIMED,
                    )
                    for seed in range(spec["restarts"])
                )
                words = ", ".join(f"{_symbol(key)}={value}" for key, value in variant.items())
                rows.append((set_name, method, words, cells))
    return Experiment(
        name, spec["title"], spec["paper"], spec["kind"], tuple(rows), tuple(missing), spec["compare"], spec["styles"]
    )


def _scaled(settings, entry, epochs_scale):
    """Return settings with their number of epochs, or iterations, spelt out and multiplied."""
    if settings.model == "gpc":
        # Seconds end it.
        return settings
    if settings.model != "mlgpf":
        iterations = max(1, math.ceil(settings.passes * epochs_scale))
        return dataclasses.replace(settings, iterations=iterations)
    usual = settings.epochs or usual_epochs(entry.shape.N, settings.batch_size)
    return dataclasses.replace(settings, epochs=max(1, math.ceil(usual * epochs_scale)))


def _spec(catalogue, name):
    if name not in catalogue.experiments:
        raise SettingsError(f"{name} is not an experiment; there are {', '.join(map(str, catalogue.experiments))}")
    given = catalogue.experiments[name]
    defaults = {"settings": {}, "variants": [], "restarts": 1, "test_every": 0, "topic_shares": [], "compare": ""}
    defaults |= {"styles": {}, "seconds": {}, "learning_rates": [], "full_batch": {}}
    spec = defaults | given if isinstance(given, dict) else {}
    wrong = [key for key, kind in KEYS.items() if not isinstance(spec.get(key), kind)] + sorted(set(spec) - set(KEYS))
    if wrong:
        raise CatalogueError(f"{catalogue.path}: experiment {name}: {wrong[0]} is missing or not as it should be")
    if not all(isinstance(share, float) and 0 < share <= 1 for share in spec["topic_shares"]):
        raise CatalogueError(f"{catalogue.path}: experiment {name}: topic_shares must be numbers above 0, at most 1.0")
    if not all(map(_is_positive, (*spec["learning_rates"], *spec["seconds"].values()))):
        raise CatalogueError(
            f"{catalogue.path}: experiment {name}: learning_rates, and seconds of data sets, must be numbers above 0"
        )
    if spec["kind"] not in KINDS:
        raise CatalogueError(f"{catalogue.path}: experiment {name}: kind must be one of {', '.join(KINDS)}")
    if KINDS[spec["kind"]] == "gpc" and not set(spec["datasets"]) <= set(spec["seconds"]):
        raise CatalogueError(f"{catalogue.path}: experiment {name}: seconds must have a number for each data set")
    return spec


def _is_positive(value):
    return is_number(value) and value > 0


def _symbol(setting):
    return {"factors": "P", "inducing_count": "M", "basis_size": "R"}.get(setting, setting)
