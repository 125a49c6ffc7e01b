"""The catalogue of data sets, `datasets.yaml`: read, validated, looked up by name or by shape.

Whatever is wrong in the file is reported as one sentence that names the file, the data set and the key.
"""

import difflib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from xmlgp.data.checked_yaml import Node, parse_yaml
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

# Names become folders and files, so they hold nothing that could lead out of one.
_FILE_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_ENTRY_NAME = r"[a-z0-9][a-z0-9._+-]*"


@dataclass(frozen=True)
class Shape:
    """Sizes of a data set: N training and N_test test points, D features, K labels."""

    N: int
    N_test: int
    D: int
    K: int


@dataclass(frozen=True)
class Propensity:
    """A and B of the propensity model, from which the propensity-scored measures weigh labels."""

    A: float
    B: float


@dataclass(frozen=True)
class Checksum:
    """A digest that a file may have, and a word on which copy of the file has it."""

    kind: str
    digest: str
    note: str


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Parameters
    ----------
    role : {"train", "test"}
        Which points it holds.
    name : str
        Its name in the data set's folder.
    points : int
        How many points it holds.
    checksums : tuple of Checksum
        The accepted contents; empty where none is known.
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
    name, title : str
        What it is called on the command line, and what it is.
    aliases : tuple of str
        Other names it is known by.
    papers : tuple of str
        The papers that report results on it.
    format : {"repository", "libsvm"}
        The text format of its files; libsvm is for binary labels, -1 or +1.
    shape : Shape
        Sizes that the files must have.
    propensity : Propensity or None
        None for binary labels, which need none.
    files : tuple of DataFile
        At least the training data.
    sources : tuple
        Where to get it, in the order to try; see `xmlgp.data.sources`.
    max_bytes : int
        No file of it, packed or unpacked, is larger.
    note : str
        What a user should know who cannot download it.
    recipes : dict
        Settings of the experiments, as they stand in the file.
    results : dict
        Numbers that papers report, as they stand in the file.
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
        """The folder of its files within a copy that holds many data sets."""
        return "binary" if self.format == "libsvm" else self.name


@dataclass(frozen=True)
class Catalogue:
    """The data sets of one catalogue file.

    Parameters
    ----------
    path : Path
        The file.
    entries : dict of str to Entry
        By name, in the order of the file.
    recipes, experiments : dict
        The file's top-level recipes and experiments, as they stand there.
    """

    path: Path
    entries: dict[str, Entry]
    recipes: dict
    experiments: dict = field(default_factory=dict)

    def __getitem__(self, name):
        """Return the entry called `name`, in any case, or known by that alias.

        Raises
        ------
        CatalogueError
            If there is none; names those that are near.
        """
        known = {known: entry for entry in self.entries.values() for known in (entry.name, *entry.aliases)}
        if name.lower() in known:
            return known[name.lower()]
        near = difflib.get_close_matches(name.lower(), known, n=3)
        hint = f"near matches: {', '.join(near)}" if near else "`xmlgp fetch --list` prints those there are"
        raise CatalogueError(f"{self.path}: there is no data set {name!r}; {hint}")

    def find_by_shape(self, N, D, K):
        """Return the entry whose training data have N points, D features and K labels, or None."""
        for entry in self.entries.values():
            if (entry.shape.N, entry.shape.D, entry.shape.K) == (N, D, K):
                return entry
        return None


def catalogue_path():
    """Return the catalogue to use: `$XMLGP_CATALOGUE`, else the one installed beside the code, else the project's."""
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
        The file; that of `catalogue_path` if not given.

    Returns
    -------
    Catalogue

    Raises
    ------
    CatalogueError
        If the file cannot be read or anything in it is wrong.
    """
    path = catalogue_path() if path is None else Path(path)
    root = Node(parse_yaml(path), str(path))
    datasets = root.node("datasets")
    recipes, experiments = root.mapping("recipes"), root.mapping("experiments")
    root.finish()
    entries = {name: _read_entry(datasets.node(name), name) for name in list(datasets.rest)}
    _refuse_ambiguous_names(datasets, entries)
    return Catalogue(path, entries, recipes, experiments)


def _read_entry(node, name):
    if not re.fullmatch(_ENTRY_NAME, name):
        raise node.error("the name of a data set must be made of small letters, digits and any of . _ + -")
    style = node.text("format", "repository or libsvm", "repository|libsvm", "repository")
    shape = _read_shape(node.node("shape"))
    files = _read_files(node.node("files"), shape)
    entry = Entry(
        name=name,
        title=node.text("title"),
        aliases=node.texts("aliases", "a list of names in small letters", _ENTRY_NAME),
        papers=node.texts("papers"),
        format=style,
        shape=shape,
        propensity=_read_propensity(node.node("propensity")) if style == "repository" else None,
        files=files,
        sources=tuple(_read_source(source, files) for source in node.nodes("sources")),
        max_bytes=int(node.positive("max_mb") * 1e6),
        note=node.text("note", default=""),
        recipes=node.mapping("recipes"),
        results=node.mapping("results"),
    )
    node.finish()
    return entry


def _read_shape(node):
    shape = Shape(node.count("N", 1), node.count("N_test", 0), node.count("D", 1), node.count("K", 1))
    node.finish()
    return shape


def _read_propensity(node):
    propensity = Propensity(node.positive("A"), node.positive("B"))
    node.finish()
    return propensity


def _read_files(node, shape):
    files = []
    for role, points in zip(ROLES, (shape.N, shape.N_test), strict=True):
        if not points:
            continue
        file = node.node(role)
        name = file.text("name", "a plain file name", _FILE_NAME, f"{role}.txt")
        files.append(DataFile(role, name, points, tuple(map(_read_checksum, file.nodes("checksums")))))
        file.finish()
    node.finish()
    if len({file.name for file in files}) < len(files):
        raise node.error("train and test must not have one name")
    return tuple(files)


def _read_checksum(node):
    kind = node.only_one_of(CHECKSUM_DIGITS)
    digits = CHECKSUM_DIGITS[kind]
    digest = node.text(kind, f"{digits} digits out of 0-9 and a-f", f"[0-9a-f]{{{digits}}}")
    checksum = Checksum(kind, digest, node.text("note", default=""))
    node.finish()
    return checksum


def _read_source(node, files):
    kind = node.only_one_of(["https", "archive", "drive", "mirror", "embedded"])
    if kind == "https":
        what = "an https:// address with {file} for the file's name"
        source = Files(_read_address(node, kind, what, r".*\{file\}.*"))
    elif kind == "mirror":
        source = Mirror(node.text(kind))
    elif kind == "embedded":
        source = Embedded(node.text(kind, "toy", "toy"))
    else:
        if kind == "archive":
            address = _read_address(node, kind, "an https:// address", ".*")
        else:
            address = google_drive_address(node.text(kind, "the id of a file on Google Drive", "[A-Za-z0-9_-]+"))
        members = node.node("members")
        source = Archive(address, {file.role: members.text(file.role) for file in files})
        members.finish()
        if len(set(source.members.values())) < len(files):
            raise members.error("train and test must not be one member")
    node.finish()
    return source


def _read_address(node, key, what, pattern):
    address = node.text(key, what, pattern)
    try:
        check_web_address(address, schemes=("https",))
    except FetchError as error:
        raise node.error(f"{key} must be {what}: {error}") from error
    return address


def _refuse_ambiguous_names(datasets, entries):
    owners = {name: name for name in entries}
    for entry in entries.values():
        for alias in entry.aliases:
            if alias in owners:
                raise datasets.error(f"{entry.name}: aliases: {alias} is a name of {owners[alias]} already")
            owners[alias] = entry.name
