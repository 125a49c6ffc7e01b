"""The catalogue of data sets, `datasets.yaml`: read and check it, and find a data set by name or by shape."""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from xmlgp.data.checked_yaml import MAPPING, POSITIVE, Optional, check, integer, load_yaml, text
from xmlgp.errors import CatalogueError
from xmlgp.runtime.untrusted_text import show_name

__all__ = ["Catalogue", "DataFile", "Entry", "Propensity", "Shape", "Source", "load_catalogue"]

#: Names become folders and files, so they must not contain a path.
NAME = text("made of lower-case letters, digits and . _ + -", r"[a-z0-9][a-z0-9._+-]*")
FILE_NAME = text("a plain file name", r"[A-Za-z0-9][A-Za-z0-9._+-]*")

#: A git blob id is the SHA-1 of `blob SIZE\0` and the content.
CHECKSUMS = {
    "git": text("40 digits from 0-9 and a-f", "[0-9a-f]{40}"),
    "sha256": text("64 digits from 0-9 and a-f", "[0-9a-f]{64}"),
}
#: Without a user name, which would end up in messages.
HTTPS = r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?/"
SOURCES = {
    "https": text("an https:// address with {file} in place of the file name", rf"{HTTPS}.*\{{file\}}.*"),
    "archive": text("an https:// address", f"{HTTPS}.+"),
    "drive": text("the id of a file on Google Drive", "[A-Za-z0-9_-]+"),
    "mirror": text(),
    "embedded": text("toy", "toy"),
}
ENTRY = {
    "title": text(),
    "aliases": Optional([NAME], []),
    "papers": Optional([text()], []),
    "format": Optional(text("repository or libsvm", "repository|libsvm"), "repository"),
    "shape": {"N": integer(1), "N_test": integer(0), "D": integer(1), "K": integer(1)},
    "propensity": Optional({"A": POSITIVE, "B": POSITIVE}),
    "files": MAPPING,
    "sources": Optional([MAPPING], []),
    "max_mb": POSITIVE,
    "note": Optional(text(), ""),
    "recipes": Optional(MAPPING, {}),
    "results": Optional(MAPPING, {}),
}
FILE = {"name": Optional(FILE_NAME), "checksums": Optional([MAPPING], [])}
#: `experiments` are read by benchmarks/papers.
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


class DataFile(NamedTuple):
    """One file of a data set: its role ("train" or "test"), name, number of points, and accepted checksums.

    A checksum is a pair of its kind ("git" or "sha256") and its digits.
    """

    role: str
    name: str
    points: int
    checksums: tuple[tuple[str, str], ...]


class Source(NamedTuple):
    """One source of a data set, a key of the catalogue and its value.

    "https" are single files on the web, `{file}` in the address stands for their name; "archive" is a zip archive on
    the web, and "drive" one on Google Drive by its id, with the member for each role, "train" and "test"; "mirror" is a
    copy of many data sets, FOLDER/NAME/train.txt and so on, in a folder or on the web, any file of which may be
    gzipped; "embedded" is the data set that xmlgp draws itself.
    """

    kind: str
    address: str
    members: dict | None = None

    @property
    def origin(self):
        """Its name for messages: a host, a folder or URL, or "embedded"."""
        names = {"drive": "Google Drive", "mirror": self.address, "embedded": "embedded"}
        return names.get(self.kind) or urlsplit(self.address).hostname


class Entry(NamedTuple):
    """One data set of the catalogue; its keys are explained in `datasets.yaml`.

    `sources` are tried in this order, `max_bytes` is the maximum size of each file, compressed or not, and `propensity`
    is None for binary labels.
    """

    name: str
    aliases: list[str]
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
    """The data sets of a catalogue file by name, in its order, and its recipes, not checked."""

    path: Path
    entries: dict[str, Entry]
    recipes: dict

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
        same = (entry for entry in self.entries.values() if (entry.shape.N, entry.shape.D, entry.shape.K) == (N, D, K))
        return next(same, None)


def load_catalogue(path=None):
    """Read and check a catalogue; CatalogueError names the place of a mistake.

    The default is the file that `$XMLGP_CATALOGUE` names, or `datasets.yaml` of the package or the project.
    """
    here = Path(__file__).resolve()
    installed = here.with_name("datasets.yaml")
    default = installed if installed.exists() else here.parents[2] / "datasets.yaml"
    path = Path(path or os.environ.get("XMLGP_CATALOGUE") or default)
    root = check(load_yaml(path), CATALOGUE, str(path))
    where = f"{path}: datasets"
    entries = {}
    owners = {}
    for name, value in root["datasets"].items():
        check(name, NAME, f"{where}: the name {show_name(name)}")
        entries[name] = owners[name] = _entry(name, value, f"{where}: {name}")
    for name, entry in entries.items():
        for alias in entry.aliases:
            if owners.setdefault(alias, entry) is not entry:
                raise CatalogueError(f"{where}: {name}: aliases: {alias} is already a name of a data set")
    return Catalogue(path, entries, root["recipes"])


def _entry(name, value, where):
    """Return an `Entry` of values that have the schema `ENTRY`."""
    shape = Shape(**value["shape"])
    points = {"train": shape.N, "test": shape.N_test} if shape.N_test else {"train": shape.N}
    files = check(value["files"], dict.fromkeys(points, FILE), f"{where}: files")
    sources = enumerate(value["sources"], 1)
    return Entry(
        name=name,
        shape=shape,
        propensity=value["propensity"] and Propensity(**value["propensity"]),
        files=tuple(_file(role, file, points[role], f"{where}: files: {role}") for role, file in files.items()),
        sources=tuple(_source(source, points, f"{where}: sources {number}") for number, source in sources),
        max_bytes=int(value["max_mb"] * 1e6),
        **{key: value[key] for key in ("aliases", "format", "note", "recipes", "results")},
    )


def _file(role, value, points, where):
    others = {"note": Optional(text())}
    checksums = [
        _check_kind(checksum, CHECKSUMS, others, f"{where}: checksums {number}")[:2]
        for number, checksum in enumerate(value["checksums"], 1)
    ]
    return DataFile(role, value["name"] or f"{role}.txt", points, tuple(checksums))


def _source(value, roles, where):
    packed = "archive" in value or "drive" in value
    kind, address, checked = _check_kind(
        value, SOURCES, {"members": dict.fromkeys(roles, text())} if packed else {}, where
    )
    return Source(kind, address, checked.get("members"))


def _check_kind(value, kinds, others, where):
    """Return the kind that a mapping is of, the only key in `kinds`, the value of this key, and the checked mapping."""
    kind = next((kind for kind in kinds if kind in value), None)
    if kind is None:
        raise CatalogueError(f"{where}: one of {', '.join(kinds)} is required")
    checked = check(value, {kind: kinds[kind]} | others, where)
    return kind, checked[kind], checked
