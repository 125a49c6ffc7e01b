"""The catalogue of data sets, `datasets.yaml`: read it, and find a data set by name or by shape."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from xmlgp.runtime.errors import CatalogueError, nearest
from xmlgp.runtime.untrusted_text import escape

__all__ = ["EMBEDDED", "Catalogue", "DataFile", "Entry", "Propensity", "Shape", "load_catalogue", "read_yaml"]

#: The source of the data sets that xmlgp draws itself: texts in the format csv, otherwise numbers.
EMBEDDED = "embedded"


class Shape(NamedTuple):
    """Sizes of a data set: N training points, N_test test points, D features or 0 if unknown, K labels."""

    N: int
    N_test: int
    D: int
    K: int


class Propensity(NamedTuple):
    """A and B of the propensity model, which weights the labels of propensity-scored measures."""

    A: float
    B: float


class DataFile(NamedTuple):
    """One file of a data set: its role ("train" or "test"), name, number of points, member and accepted checksums.

    The member is that of the archive that is the source, or None. A checksum is a text such as `git:` or `sha256:` and
    digits.
    """

    role: str
    name: str
    points: int
    member: str | None = None
    checksums: Sequence[str] = ()


class Entry(NamedTuple):
    """One data set of the catalogue; its keys are explained in `datasets.yaml`.

    `source` is an address on the web, in which `{file}` stands for the name of each file, or that of a zip archive;
    `EMBEDDED`; or None. `propensity` is None for binary labels.
    """

    name: str
    title: str
    shape: Shape
    files: tuple[DataFile, ...]
    aliases: Sequence[str] = ()
    papers: Sequence[str] = ()
    format: str = "repository"
    propensity: Propensity | None = None
    source: str | None = None
    note: str = ""
    recipes: Mapping[str, Any] = {}
    results: Mapping[str, Any] = {}

    @property
    def mirror_folder(self) -> str:
        """The folder of its files within a mirror of many data sets."""
        return "binary" if self.format == "libsvm" else self.name

    @property
    def origin(self) -> str | None:
        """The host of its source, `EMBEDDED`, or None."""
        return self.source and (urlsplit(self.source).hostname or self.source)


@dataclass(frozen=True)
class Catalogue:
    """The data sets of a catalogue file by name, in its order, and its recipes, not checked.

    `names` has the data sets by their names and aliases.
    """

    path: Path
    entries: dict[str, Entry]
    names: dict[str, Entry]
    recipes: dict[str, Any]

    def __getitem__(self, name: str) -> Entry:
        """Return the entry with a name or alias, case-insensitive; a CatalogueError suggests similar names."""
        if name.lower() in self.names:
            return self.names[name.lower()]
        similar = nearest(name.lower(), self.names)
        hint = f"did you mean {similar}?" if similar else "`xmlgp fetch --list` prints all data sets"
        raise CatalogueError(f"{self.path}: there is no data set {name!r}; {hint}")

    def find_by_shape(self, N: int, D: int, K: int) -> Entry | None:
        """Return the entry whose training data have N points, D features and K labels, or None if there is none."""
        for entry in self.entries.values():
            if entry.shape._replace(N_test=0, D=entry.shape.D or D) == (N, 0, D, K):
                return entry
        return None


def load_catalogue(path: str | os.PathLike[str] | None = None) -> Catalogue:
    """Read a catalogue; CatalogueError names the data set whose entry is malformed.

    The default is the file that `$XMLGP_CATALOGUE` names, or `datasets.yaml` of the package or the project.
    """
    here = Path(__file__).resolve()
    installed = here.with_name("datasets.yaml")
    default = installed if installed.exists() else here.parents[2] / "datasets.yaml"
    path = Path(path or os.environ.get("XMLGP_CATALOGUE") or default)
    root = read_yaml(path)
    entries = {}
    for name, value in (root.get("datasets") or {}).items():
        try:
            entries[name] = _entry(name, value)
        except (AttributeError, LookupError, TypeError) as error:
            reason = f"{type(error).__name__}: {escape(str(error))}"
            raise CatalogueError(f"{path}: the entry of {escape(str(name))} is malformed ({reason})") from None
    aliases = {alias: entry for entry in entries.values() for alias in entry.aliases}
    return Catalogue(path, entries, aliases | entries, root.get("recipes") or {})


def read_yaml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the mapping in a YAML file; CatalogueError if there is none."""
    # Predictions need none.
    import yaml  # noqa: PLC0415

    # The loader of libyaml, which PyYAML can be without, takes an eighth of the time of that in Python.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        mapping = yaml.load(Path(path).read_bytes(), loader)  # noqa: S506, a safe loader
    except OSError as error:
        raise CatalogueError(f"{path}: the file cannot be read ({error.strerror})") from error
    except Exception as error:  # PyYAML does not catch the exceptions of int(), float(), re and datetime
        raise CatalogueError(f"{path}: this is not YAML: {escape(' '.join(str(error).split()))}") from error
    if not isinstance(mapping, dict):
        raise CatalogueError(f"{path}: this is not a mapping")
    return mapping


def _entry(name: str, value: dict[str, Any]) -> Entry:
    """Return the `Entry` of a data set; an exception of another kind if it is malformed."""
    shape = Shape(**value["shape"])
    points = {"train": shape.N, "test": shape.N_test}
    # Training data first.
    files = [
        DataFile(role, points=points[role], **{"name": f"{role}.txt"} | file)
        for role, file in sorted(value["files"].items(), reverse=True)
    ]
    propensity = Propensity(**value["propensity"]) if "propensity" in value else None
    return Entry(**value | {"name": name, "shape": shape, "files": tuple(files), "propensity": propensity})
