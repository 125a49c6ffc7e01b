"""The catalogue of data sets, `datasets.yaml`: read and check it, and find a data set by name or by shape."""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from xmlgp.data.checked_yaml import MAPPING, POSITIVE, Optional, check, integer, load_yaml, text
from xmlgp.data.download import check_web_address
from xmlgp.data.sources import Source
from xmlgp.errors import CatalogueError, FetchError
from xmlgp.runtime.untrusted_text import show_name

__all__ = ["Catalogue", "Checksum", "DataFile", "Entry", "Propensity", "Shape", "catalogue_path", "load_catalogue"]

#: Names become folders and files, so they must not contain a path.
NAME = text("made of lower-case letters, digits and . _ + -", r"[a-z0-9][a-z0-9._+-]*")
FILE_NAME = text("a plain file name", r"[A-Za-z0-9][A-Za-z0-9._+-]*")

#: A git blob id is the SHA-1 of `blob SIZE\0` and the content.
CHECKSUMS = {
    "git": Optional(text("40 digits from 0-9 and a-f", "[0-9a-f]{40}")),
    "sha256": Optional(text("64 digits from 0-9 and a-f", "[0-9a-f]{64}")),
}
SOURCES = {
    "https": Optional(text("an https:// address with {file} in place of the file name", r".*\{file\}.*")),
    "archive": Optional(text("an https:// address")),
    "drive": Optional(text("the id of a file on Google Drive", "[A-Za-z0-9_-]+")),
    "mirror": Optional(text()),
    "embedded": Optional(text("toy", "toy")),
}
FILE = {"name": Optional(FILE_NAME), "checksums": Optional([CHECKSUMS | {"note": Optional(text())}], [])}
ENTRY = {
    "title": text(),
    "aliases": Optional([NAME], []),
    "papers": Optional([text()], []),
    "format": Optional(text("repository or libsvm", "repository|libsvm"), "repository"),
    "shape": {"N": integer(1), "N_test": integer(0), "D": integer(1), "K": integer(1)},
    "propensity": Optional({"A": POSITIVE, "B": POSITIVE}),
    "files": {"train": FILE, "test": Optional(FILE)},
    "sources": Optional([SOURCES | {"members": Optional({"train": text(), "test": Optional(text())})}], []),
    "max_mb": POSITIVE,
    "note": Optional(text(), ""),
    "recipes": Optional(MAPPING, {}),
    "results": Optional(MAPPING, {}),
}
CATALOGUE = {"datasets": {None: ENTRY}, "recipes": Optional(MAPPING, {}), "experiments": Optional(MAPPING, {})}


class Shape(NamedTuple):
    """Sizes of a data set: N training points, N_test test points, D features, K labels."""

    N: int
    N_test: int
    D: int
    K: int


class Propensity(NamedTuple):
    """A and B of the propensity model, which weights the labels of propensity-scored measures."""

    A: float
    B: float


class Checksum(NamedTuple):
    """An accepted checksum of a file: its kind ("git" or "sha256") and its digits."""

    kind: str
    digest: str


class DataFile(NamedTuple):
    """One file of a data set: its role ("train" or "test"), name, number of points and accepted checksums."""

    role: str
    name: str
    points: int
    checksums: tuple[Checksum, ...]


class Entry(NamedTuple):
    """One data set of the catalogue; its keys are explained in `datasets.yaml`.

    `sources` are tried in this order, `max_bytes` is the maximum size of each file, compressed or not, and `propensity`
    is None for binary labels.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    papers: tuple[str, ...]
    format: str
    shape: Shape
    propensity: Propensity | None
    files: tuple[DataFile, ...]
    sources: tuple[Source, ...]
    max_bytes: int
    note: str
    recipes: dict
    results: dict

    @property
    def mirror_folder(self):
        """The folder of its files within a mirror of many data sets."""
        return "binary" if self.format == "libsvm" else self.name


@dataclass(frozen=True)
class Catalogue:
    """The data sets of a catalogue file by name, in its order, and its recipes and experiments, not checked."""

    path: Path
    entries: dict[str, Entry]
    recipes: dict
    experiments: dict

    def __getitem__(self, name):
        """Return the entry with a name or alias, case-insensitive; a CatalogueError suggests similar names."""
        known = {known: entry for entry in self.entries.values() for known in (entry.name, *entry.aliases)}
        if name.lower() in known:
            return known[name.lower()]
        similar = difflib.get_close_matches(name.lower(), known, n=3)
        hint = f"similar names: {', '.join(similar)}" if similar else "`xmlgp fetch --list` prints all data sets"
        raise CatalogueError(f"{self.path}: there is no data set {name!r}; {hint}")

    def find_by_shape(self, N, D, K):
        """Return the entry whose training data have N points, D features and K labels, or None if there is none."""
        for entry in self.entries.values():
            if (entry.shape.N, entry.shape.D, entry.shape.K) == (N, D, K):
                return entry
        return None


def catalogue_path():
    """Return the path of the catalogue: `$XMLGP_CATALOGUE`, or `datasets.yaml` of the package or the project."""
    chosen = os.environ.get("XMLGP_CATALOGUE")
    if chosen:
        return Path(chosen)
    here = Path(__file__).resolve()
    installed = here.with_name("datasets.yaml")
    return installed if installed.exists() else here.parents[2] / "datasets.yaml"


def load_catalogue(path=None):
    """Read and check a catalogue, by default `catalogue_path()`; CatalogueError names the place of a mistake."""
    path = catalogue_path() if path is None else Path(path)
    root = check(load_yaml(path), CATALOGUE, str(path))
    where = f"{path}: datasets"
    entries, owners = {}, {}
    for name, value in root["datasets"].items():
        check(name, NAME, f"{where}: the name {show_name(name)}")
        entries[name] = _entry(name, value, f"{where}: {name}")
    for entry in entries.values():
        for known in (entry.name, *entry.aliases):
            if known in owners or (known in entries and known != entry.name):
                raise CatalogueError(f"{where}: {entry.name}: aliases: {known} is already a name of a data set")
            owners[known] = entry
    return Catalogue(path, entries, root["recipes"], root["experiments"])


def _entry(name, value, where):
    """Return an `Entry` of values that have the schema `ENTRY`."""
    shape = Shape(**value["shape"])
    points = {"train": shape.N, "test": shape.N_test} if shape.N_test else {"train": shape.N}
    _check_keys(value, ["propensity"] if value["format"] == "repository" else [], ["propensity"], where)
    _check_keys(value["files"], points, ["test"], f"{where}: files")
    files = [_file(role, value["files"][role], count, f"{where}: files: {role}") for role, count in points.items()]
    if len({file.name for file in files}) < len(files):
        raise CatalogueError(f"{where}: files: train and test must have different names")
    sources = enumerate(value["sources"], 1)
    return Entry(
        name=name,
        shape=shape,
        propensity=value["propensity"] and Propensity(**value["propensity"]),
        files=tuple(files),
        sources=tuple(_source(source, points, f"{where}: sources {number}") for number, source in sources),
        max_bytes=int(value["max_mb"] * 1e6),
        **{key: tuple(value[key]) for key in ("aliases", "papers")},
        **{key: value[key] for key in ("title", "format", "note", "recipes", "results")},
    )


def _file(role, value, points, where):
    checksums = []
    for number, checksum in enumerate(value["checksums"], 1):
        kind = _only_key(checksum, CHECKSUMS, f"{where}: checksums {number}")
        checksums.append(Checksum(kind, checksum[kind]))
    return DataFile(role, value["name"] or f"{role}.txt", points, tuple(checksums))


def _source(value, roles, where):
    kind = _only_key(value, SOURCES, where)
    if kind in ("https", "archive"):
        try:
            check_web_address(value[kind], schemes=("https",))
        except FetchError as error:
            raise CatalogueError(f"{where}: {kind} must be {SOURCES[kind].schema.expected}: {error}") from error
    has_members = kind in ("archive", "drive")
    _check_keys(value, ["members"] if has_members else [], ["members"], where)
    if has_members:
        _check_keys(value["members"], roles, ["test"], f"{where}: members")
        if len(set(value["members"].values())) < len(value["members"]):
            raise CatalogueError(f"{where}: members: train and test must be different members")
    return Source(kind, value[kind], value["members"])


def _check_keys(value, needed, optional, where):
    """Raise CatalogueError unless a mapping has exactly those of the optional keys that it needs."""
    for key in optional:
        if key in needed and value[key] is None:
            raise CatalogueError(f"{where}: {key} is missing")
        if key not in needed and value[key] is not None:
            raise CatalogueError(f"{where}: unknown key {key!r}")


def _only_key(value, keys, where):
    """Return the only one of `keys` that a mapping has."""
    given = [key for key in keys if value[key] is not None]
    if len(given) != 1:
        raise CatalogueError(f"{where}: exactly one of {', '.join(keys)} is required, not {len(given)}")
    return given[0]
