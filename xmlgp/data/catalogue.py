"""Read and check the catalogue of data sets, `datasets.yaml`, and find a data set by name or by shape."""

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from xmlgp.data.checked_yaml import ANYTHING, check_mapping, integer, is_text, items, load_yaml, mapping, positive, text
from xmlgp.data.download import check_web_address
from xmlgp.data.sources import Archive, Embedded, Files, Mirror, google_drive_address
from xmlgp.errors import CatalogueError, FetchError
from xmlgp.runtime.untrusted_text import show_name

__all__ = ["Catalogue", "Checksum", "DataFile", "Entry", "Propensity", "Shape", "catalogue_path", "load_catalogue"]

#: Hexadecimal digits of each kind of checksum. A git blob id is the SHA-1 of `blob SIZE\0` and the content.
CHECKSUM_DIGITS = {"git": 40, "sha256": 64}

#: What a source is in words, and its pattern.
SOURCES = {
    "https": ("an https:// address with {file} in place of the file name", r".*\{file\}.*"),
    "archive": ("an https:// address", ".*"),
    "drive": ("the id of a file on Google Drive", "[A-Za-z0-9_-]+"),
    "mirror": ("a string on one line", ".*"),
    "embedded": ("toy", "toy"),
}

# Names become folders and files, so they must not contain a path.
_FILE_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_ENTRY_NAME = r"[a-z0-9][a-z0-9._+-]*"

CATALOGUE = {"datasets": ANYTHING, "recipes": mapping(), "experiments": mapping()}
ENTRY = {
    "title": text(),
    "aliases": items("a list of names in lower-case letters", lambda value: is_text(value, _ENTRY_NAME)),
    "papers": items("a list of strings", is_text),
    "format": text("repository or libsvm", "repository|libsvm", "repository"),
    "shape": ANYTHING,
    "files": ANYTHING,
    "sources": items(),
    "max_mb": positive(),
    "note": text(default=""),
    "recipes": mapping(),
    "results": mapping(),
}
SHAPE = {"N": integer(1), "N_test": integer(0), "D": integer(1), "K": integer(1)}
PROPENSITY = {"A": positive(), "B": positive()}


@dataclass(frozen=True)
class Shape:
    """Sizes of a data set: N training points, N_test test points, D features, K labels."""

    N: int
    N_test: int
    D: int
    K: int


@dataclass(frozen=True)
class Propensity:
    """A and B of the propensity model, which weights the labels of propensity-scored measures."""

    A: float
    B: float


@dataclass(frozen=True)
class Checksum:
    """An accepted checksum of a file: its kind ("git" or "sha256") and its digits."""

    kind: str
    digest: str


@dataclass(frozen=True)
class DataFile:
    """One file of a data set: its role ("train" or "test"), name, number of points and accepted checksums."""

    role: str
    name: str
    points: int
    checksums: tuple[Checksum, ...]


@dataclass(frozen=True)
class Entry:
    """One data set of the catalogue.

    Parameters
    ----------
    name, title : str
        Its name on the command line, and a description.
    aliases : tuple of str
        Other names on the command line.
    papers : tuple of str
        The papers that report results on it.
    format : {"repository", "libsvm"}
        The text format of its files; libsvm is for binary labels, -1 or +1.
    shape : Shape
        Sizes that the files must have.
    propensity : Propensity or None
        None for binary labels.
    files : tuple of DataFile
        The training data, and the test data if there are any.
    sources : tuple
        The sources to try, in this order; see `xmlgp.data.sources`.
    max_bytes : int
        Maximum size of each file in bytes, compressed or not.
    note : str
        Information for users if the data set cannot be downloaded.
    recipes, results : dict
        Settings of the experiments, and results in the papers, not checked.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    papers: tuple[str, ...]
    format: str
    shape: Shape
    propensity: Propensity | None
    files: tuple[DataFile, ...]
    sources: tuple
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
    """Read and check a catalogue, by default `catalogue_path()`.

    CatalogueError names the data set and the key that is not valid.
    """
    path = catalogue_path() if path is None else Path(path)
    root = check_mapping(load_yaml(path), CATALOGUE, str(path))
    where = f"{path}: datasets"
    datasets = check_mapping(root["datasets"], None, where)
    entries = {name: _read_entry(value, name, f"{where}: {show_name(name)}") for name, value in datasets.items()}
    owners = {name: name for name in entries}
    for entry in entries.values():
        for alias in entry.aliases:
            if alias in owners:
                raise CatalogueError(f"{where}: {entry.name}: aliases: {alias} is already a name of {owners[alias]}")
            owners[alias] = entry.name
    return Catalogue(path, entries, root["recipes"], root["experiments"])


def _read_entry(value, name, where):
    if not re.fullmatch(_ENTRY_NAME, name):
        raise CatalogueError(f"{where}: the name of a data set must be made of lower-case letters, digits and . _ + -")
    has_propensity = not (isinstance(value, dict) and value.get("format") == "libsvm")
    entry = check_mapping(value, ENTRY | ({"propensity": ANYTHING} if has_propensity else {}), where)
    shape = Shape(**check_mapping(entry["shape"], SHAPE, f"{where}: shape"))
    propensity = None
    if has_propensity:
        numbers = check_mapping(entry["propensity"], PROPENSITY, f"{where}: propensity")
        propensity = Propensity(float(numbers["A"]), float(numbers["B"]))
    files = _read_files(entry["files"], shape, f"{where}: files")
    return Entry(
        name=name,
        title=entry["title"],
        aliases=tuple(entry["aliases"]),
        papers=tuple(entry["papers"]),
        format=entry["format"],
        shape=shape,
        propensity=propensity,
        files=files,
        sources=tuple(
            _read_source(source, files, f"{where}: sources {number}")
            for number, source in enumerate(entry["sources"], 1)
        ),
        max_bytes=int(entry["max_mb"] * 1e6),
        note=entry["note"],
        recipes=entry["recipes"],
        results=entry["results"],
    )


def _read_files(value, shape, where):
    points = {role: count for role, count in (("train", shape.N), ("test", shape.N_test)) if count}
    given = check_mapping(value, dict.fromkeys(points, ANYTHING), where)
    files = []
    for role, count in points.items():
        fields = {"name": text("a plain file name", _FILE_NAME, f"{role}.txt"), "checksums": items()}
        file = check_mapping(given[role], fields, f"{where}: {role}")
        checksums = enumerate(file["checksums"], 1)
        checksums = tuple(_read_checksum(item, f"{where}: {role}: checksums {number}") for number, item in checksums)
        files.append(DataFile(role, file["name"], count, checksums))
    if len({file.name for file in files}) < len(files):
        raise CatalogueError(f"{where}: train and test must have different names")
    return tuple(files)


def _read_checksum(value, where):
    kind = _only_key(value, CHECKSUM_DIGITS, where)
    digits = CHECKSUM_DIGITS[kind]
    digest = text(f"{digits} digits from 0-9 and a-f", f"[0-9a-f]{{{digits}}}")
    return Checksum(kind, check_mapping(value, {kind: digest, "note": text(default="")}, where)[kind])


def _read_source(value, files, where):
    kind = _only_key(value, SOURCES, where)
    with_members = {"members": ANYTHING} if kind in ("archive", "drive") else {}
    source = check_mapping(value, {kind: text(*SOURCES[kind])} | with_members, where)
    address = source[kind]
    if kind in ("https", "archive"):
        try:
            check_web_address(address, schemes=("https",))
        except FetchError as error:
            raise CatalogueError(f"{where}: {kind} must be {SOURCES[kind][0]}: {error}") from error
    if not with_members:
        return {"https": Files, "mirror": Mirror, "embedded": Embedded}[kind](address)
    members = check_mapping(source["members"], {file.role: text() for file in files}, f"{where}: members")
    if len(set(members.values())) < len(files):
        raise CatalogueError(f"{where}: members: train and test must be different members")
    return Archive(google_drive_address(address) if kind == "drive" else address, members)


def _only_key(value, keys, where):
    """Return the only one of `keys` that a mapping has."""
    given = [key for key in keys if key in check_mapping(value, None, where)]
    if len(given) != 1:
        raise CatalogueError(f"{where}: exactly one of {', '.join(keys)} is required, not {len(given)}")
    return given[0]
