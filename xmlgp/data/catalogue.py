"""Read and validate the catalogue of data sets, `datasets.yaml`, and find a data set by name or by shape.

An error in the file is reported in one sentence with the file, the data set and the key.
"""

import difflib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from xmlgp.data.checked_yaml import Node, load_yaml
from xmlgp.data.download import check_web_address
from xmlgp.data.sources import Archive, Embedded, Files, Mirror, google_drive_address
from xmlgp.errors import CatalogueError, FetchError

__all__ = [
    "Catalogue",
    "Checksum",
    "DataFile",
    "Entry",
    "Propensity",
    "Shape",
    "catalogue_path",
    "load_catalogue",
]

#: Hexadecimal digits of each kind of checksum. A git blob id is the SHA-1 of `blob SIZE\0` and the content.
CHECKSUM_DIGITS = {"git": 40, "sha256": 64}

ROLES = ("train", "test")

# Names become folders and files, so they must not contain a path.
_FILE_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_ENTRY_NAME = r"[a-z0-9][a-z0-9._+-]*"


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
    """An accepted checksum of a file: its kind ("git" or "sha256"), its digits, and a note on the copy that has it."""

    kind: str
    digest: str
    note: str


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Parameters
    ----------
    role : {"train", "test"}
        Training or test points.
    name : str
        Its name in the folder of the data set.
    points : int
        The number of points.
    checksums : tuple of Checksum
        The accepted checksums; empty if none is known.
    """

    role: str
    name: str
    points: int
    checksums: tuple[Checksum, ...]


@dataclass(frozen=True)
class Entry:
    """One data set of the catalogue.

    Parameters
    ----------
    name : str
        Its name on the command line.
    title : str
        A description.
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
    recipes : dict
        Settings of the experiments, not validated.
    results : dict
        Results in the papers, not validated.
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
    results: dict = field(default_factory=dict)

    @property
    def mirror_folder(self):
        """The folder of its files within a mirror of many data sets."""
        return "binary" if self.format == "libsvm" else self.name


@dataclass(frozen=True)
class Catalogue:
    """The data sets of one catalogue file.

    Parameters
    ----------
    path : Path
        The file.
    entries : dict of str to Entry
        The data sets by name, in the order of the file.
    recipes, experiments : dict
        The top-level recipes and experiments, not validated.
    """

    path: Path
    entries: dict[str, Entry]
    recipes: dict
    experiments: dict = field(default_factory=dict)

    def __getitem__(self, name):
        """Return the entry with a name or alias, which is case-insensitive.

        Parameters
        ----------
        name : str

        Returns
        -------
        Entry

        Raises
        ------
        CatalogueError
            If there is none; it suggests similar names.
        """
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
    """Read and validate a catalogue.

    Parameters
    ----------
    path : str or Path, optional
        The file, by default `catalogue_path()`.

    Returns
    -------
    Catalogue

    Raises
    ------
    CatalogueError
        If the file cannot be read or is not valid.
    """
    path = catalogue_path() if path is None else Path(path)
    root = Node(load_yaml(path), str(path))
    datasets = root.pop_node("datasets")
    recipes, experiments = root.pop_mapping("recipes"), root.pop_mapping("experiments")
    root.check_empty()
    entries = {name: _read_entry(datasets.pop_node(name), name) for name in list(datasets.rest)}
    _check_unique_names(datasets, entries)
    return Catalogue(path, entries, recipes, experiments)


def _read_entry(node, name):
    if not re.fullmatch(_ENTRY_NAME, name):
        raise node.error("the name of a data set must be made of lower-case letters, digits and . _ + -")
    format_ = node.pop_string("format", "repository or libsvm", "repository|libsvm", "repository")
    shape = _read_shape(node.pop_node("shape"))
    files = _read_files(node.pop_node("files"), shape)
    entry = Entry(
        name=name,
        title=node.pop_string("title"),
        aliases=node.pop_strings("aliases", "a list of names in lower-case letters", _ENTRY_NAME),
        papers=node.pop_strings("papers"),
        format=format_,
        shape=shape,
        propensity=_read_propensity(node.pop_node("propensity")) if format_ == "repository" else None,
        files=files,
        sources=tuple(_read_source(source, files) for source in node.pop_nodes("sources")),
        max_bytes=int(node.pop_positive("max_mb") * 1e6),
        note=node.pop_string("note", default=""),
        recipes=node.pop_mapping("recipes"),
        results=node.pop_mapping("results"),
    )
    node.check_empty()
    return entry


def _read_shape(node):
    shape = Shape(
        node.pop_integer("N", 1), node.pop_integer("N_test", 0), node.pop_integer("D", 1), node.pop_integer("K", 1)
    )
    node.check_empty()
    return shape


def _read_propensity(node):
    propensity = Propensity(node.pop_positive("A"), node.pop_positive("B"))
    node.check_empty()
    return propensity


def _read_files(node, shape):
    files = []
    for role, points in zip(ROLES, (shape.N, shape.N_test), strict=True):
        if not points:
            continue
        file = node.pop_node(role)
        name = file.pop_string("name", "a plain file name", _FILE_NAME, f"{role}.txt")
        files.append(DataFile(role, name, points, tuple(map(_read_checksum, file.pop_nodes("checksums")))))
        file.check_empty()
    node.check_empty()
    if len({file.name for file in files}) < len(files):
        raise node.error("train and test must have different names")
    return tuple(files)


def _read_checksum(node):
    kind = node.find_key(CHECKSUM_DIGITS)
    digits = CHECKSUM_DIGITS[kind]
    digest = node.pop_string(kind, f"{digits} digits from 0-9 and a-f", f"[0-9a-f]{{{digits}}}")
    checksum = Checksum(kind, digest, node.pop_string("note", default=""))
    node.check_empty()
    return checksum


def _read_source(node, files):
    kind = node.find_key(["https", "archive", "drive", "mirror", "embedded"])
    if kind == "https":
        expected = "an https:// address with {file} in place of the file name"
        source = Files(_read_address(node, kind, expected, r".*\{file\}.*"))
    elif kind == "mirror":
        source = Mirror(node.pop_string(kind))
    elif kind == "embedded":
        source = Embedded(node.pop_string(kind, "toy", "toy"))
    else:
        if kind == "archive":
            address = _read_address(node, kind, "an https:// address", ".*")
        else:
            address = google_drive_address(node.pop_string(kind, "the id of a file on Google Drive", "[A-Za-z0-9_-]+"))
        members = node.pop_node("members")
        source = Archive(address, {file.role: members.pop_string(file.role) for file in files})
        members.check_empty()
        if len(set(source.members.values())) < len(files):
            raise members.error("train and test must be different members")
    node.check_empty()
    return source


def _read_address(node, key, expected, pattern):
    address = node.pop_string(key, expected, pattern)
    try:
        check_web_address(address, schemes=("https",))
    except FetchError as error:
        raise node.error(f"{key} must be {expected}: {error}") from error
    return address


def _check_unique_names(datasets, entries):
    owners = {name: name for name in entries}
    for entry in entries.values():
        for alias in entry.aliases:
            if alias in owners:
                raise datasets.error(f"{entry.name}: aliases: {alias} is already a name of {owners[alias]}")
            owners[alias] = entry.name
