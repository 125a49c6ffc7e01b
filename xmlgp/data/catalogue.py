"""The catalogue of data sets, `datasets.yaml`: read and check it, and find a data set by name or by shape."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from xmlgp.data.checked_yaml import MAPPING, POSITIVE, Optional, check, integer, read_checked, text
from xmlgp.errors import CatalogueError, nearest
from xmlgp.runtime.untrusted_text import show_name

__all__ = ["EMBEDDED", "Catalogue", "DataFile", "Entry", "Propensity", "Shape", "load_catalogue"]

#: The source of the data sets that xmlgp draws itself: texts in the format csv, otherwise numbers.
EMBEDDED = "embedded"

#: Names become folders and files, so they must not contain a path.
NAME = text("made of lower-case letters, digits and . _ + -", r"[a-z0-9][a-z0-9._+-]*")
FILE_NAME = text("a plain file name", r"[A-Za-z0-9][A-Za-z0-9._+-]*")

FILE = {
    "name": Optional(FILE_NAME),
    "member": Optional(text()),
    "checksums": Optional(
        [text("git: and 40 or sha256: and 64 of 0-9 a-f", "git:[0-9a-f]{40}|sha256:[0-9a-f]{64}")], []
    ),
}
ENTRY = {
    "title": text(),
    "aliases": Optional([NAME], []),
    "papers": Optional([text()], []),
    "format": Optional(text("repository, libsvm or csv", "repository|libsvm|csv"), "repository"),
    "shape": {"N": integer(1), "N_test": integer(0), "D": integer(0), "K": integer(1)},
    "propensity": Optional({"A": POSITIVE, "B": POSITIVE}),
    "files": {"train": FILE, "test": Optional(FILE)},
    # Without a user name, which would end up in messages.
    "source": Optional(text("an https:// address", rf"https://[A-Za-z0-9.-]+(:[0-9]{{1,5}})?/.+|{EMBEDDED}")),
    "max_mb": POSITIVE,
    "note": Optional(text(), ""),
    "recipes": Optional(MAPPING, {}),
    "results": Optional(MAPPING, {}),
}
#: `experiments` are read by benchmarks/papers.
CATALOGUE = {"datasets": {None: ENTRY}, "recipes": Optional(MAPPING, {}), "experiments": Optional(MAPPING, {})}


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
    member: str | None
    checksums: list[str]


class Entry(NamedTuple):
    """One data set of the catalogue; its keys are explained in `datasets.yaml`.

    `source` is an address on the web, in which `{file}` stands for the name of each file, or that of a zip archive;
    `EMBEDDED`; or None. `propensity` is None for binary labels.
    """

    name: str
    title: str
    aliases: list[str]
    papers: list[str]
    format: str
    shape: Shape
    propensity: Propensity | None
    files: tuple[DataFile, ...]
    source: str | None
    max_mb: float
    note: str
    recipes: dict[str, Any]
    results: dict[str, Any]

    @property
    def max_bytes(self) -> int:
        """Maximum size of each file, compressed or not."""
        return int(self.max_mb * 1e6)

    @property
    def mirror_folder(self) -> str:
        """The folder of its files within a mirror of many data sets."""
        return "binary" if self.format == "libsvm" else self.name

    def copied_to(self, mirror: str) -> Entry:
        """Return the entry with single files in a mirror, a folder or an address on the web, as its source."""
        source = f"{mirror.rstrip('/')}/{self.mirror_folder}/{{file}}"
        return self._replace(source=source, files=tuple(file._replace(member=None) for file in self.files))

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
    """Read and check a catalogue; CatalogueError names the place of a mistake.

    The default is the file that `$XMLGP_CATALOGUE` names, or `datasets.yaml` of the package or the project.
    """
    here = Path(__file__).resolve()
    installed = here.with_name("datasets.yaml")
    default = installed if installed.exists() else here.parents[2] / "datasets.yaml"
    path = Path(path or os.environ.get("XMLGP_CATALOGUE") or default)
    root = read_checked(path, CATALOGUE)
    where = f"{path}: datasets"
    entries = {name: _entry(name, value, f"{where}: {show_name(name)}") for name, value in root["datasets"].items()}
    names = dict(entries)
    for name, entry in entries.items():
        for alias in entry.aliases:
            if names.setdefault(alias, entry) is not entry:
                raise CatalogueError(f"{where}: {name}: aliases: {alias} is already a name of a data set")
    return Catalogue(path, entries, names, root["recipes"])


def _entry(name: str, value: dict[str, Any], where: str) -> Entry:
    """Return an `Entry` of values that have the schema `ENTRY`."""
    check(name, NAME, f"{where}: the name")
    shape = Shape(**value["shape"])
    source = value["source"]
    if bool(shape.N_test) != bool(value["files"]["test"]):
        raise CatalogueError(f"{where}: files: test is needed if N_test is not 0, and only then")
    files = tuple(
        DataFile(role, file["name"] or f"{role}.txt", points, file["member"], file["checksums"])
        for (role, file), points in zip(value["files"].items(), shape, strict=False)
        if file
    )
    if source not in (None, EMBEDDED) and any(("{file}" in source) == bool(file.member) for file in files):
        raise CatalogueError(f"{where}: either source contains {{file}}, or each file has a member")
    propensity = value["propensity"] and Propensity(**value["propensity"])
    return Entry(name=name, **(value | {"shape": shape, "propensity": propensity, "files": files}))
