"""The data sets with two classes of [I], made of their published files: `python -m benchmarks.papers.binary_sets`.

The catalogue's files differ from the published ones in their layout only: labels are -1 and +1, zeros are left out, and
numbers are as short as possible. The published files are those of the LIBSVM data page, and `magic04.data` of the UCI
repository.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from xmlgp.cli import CONTEXT_SETTINGS, Command
from xmlgp.cli.options import NonEmptyPath
from xmlgp.data.catalogue import DataFile, Entry, load_catalogue
from xmlgp.data.files import open_input
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.errors import CatalogueError, DataFormatError, FetchError

__all__ = ["PUBLISHED", "Published", "catalogue_lines", "make_binary_sets", "make_set"]

#: What may follow the name of a published file.
ENDINGS = ("", ".gz")

#: Seed of the division of magic into training and test points.
SPLIT_SEED = 0

#: The ending of a file of numbers separated by commas, the label last.
TABLE = ".data"


class Published(NamedTuple):
    """The published files of a data set.

    The points of the files `train` follow one another, and so do those of `test`. `positive` and `negative` are the
    labels in them. `points` is the SHA-256 of the sorted lines of all points of the catalogue's files, by which these
    are recognised in another order; empty if it is unknown.
    """

    train: tuple[str, ...]
    test: tuple[str, ...] = ()
    positive: str = "1"
    negative: str = "-1"
    points: str = ""


#: Published files by the name of the data set in the catalogue.
PUBLISHED = {
    "german": Published(("german.numer",), points="b28c760c0e574252e897b05a224f6da510c848291f3dc594d4f4d85d3538bfd3"),
    "svmguide1": Published(
        ("svmguide1",),
        ("svmguide1.t",),
        negative="0",
        points="6092f2c3319fa0400a235adaff87550263fd7c63ad84bd710c1ae7c2c5ea47e9",
    ),
    # Its test points are drawn by `_split`, so they are the same whatever the order of the file.
    "magic": Published(("magic04.data",), positive="g", negative="h"),
    "ijcnn1": Published(("ijcnn1",), ("ijcnn1.t",)),
    # The test points come first.
    "a8a": Published(("a8a.t", "a8a"), points="e64ae075e6bf5beb3925156c39368822099a324bc71ec7c0bc91751eba10edb5"),
    "cod-rna": Published(("cod-rna",), ("cod-rna.t",)),
    "skin_nonskin": Published(
        ("skin_nonskin",), negative="2", points="e5224ff0f4bc2f83011dcc58a75d94d52d440c973c5b2588d5bf90c55a460d42"
    ),
}


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("source", type=NonEmptyPath(exists=True, file_okay=False, path_type=Path))
@click.argument("names", nargs=-1)
@click.option(
    "--into",
    type=NonEmptyPath(file_okay=False, path_type=Path),
    default="data",
    show_default=True,
    help="Folder for data sets.",
)
def make_binary_sets(source: Path, names: tuple[str, ...], into: Path) -> None:
    """Make the data sets NAMES of the catalogue, or all with two classes, from their published files in SOURCE.

    The files are german.numer, svmguide1, svmguide1.t, a8a, a8a.t, skin_nonskin, ijcnn1, ijcnn1.t, cod-rna and
    cod-rna.t of the LIBSVM data page, and magic04.data of the UCI repository, compressed or not. Prints the paths of
    the files it makes, and says how they compare with those of the catalogue. Without NAMES, sets whose files are
    missing are skipped.

    \b
    Example:
      python -m benchmarks.papers.binary_sets ~/Downloads
      python -m benchmarks.papers.binary_sets ~/Downloads german magic --into data
    """
    catalogue = load_catalogue()
    for name in names:
        if name not in PUBLISHED:
            raise CatalogueError(f"{name} is not a data set that this makes; choose from {', '.join(PUBLISHED)}")

    def note(text: str) -> None:
        click.echo(text, err=True)

    is_any_made = False
    for name in names or PUBLISHED:
        absent = [file for file in (*PUBLISHED[name].train, *PUBLISHED[name].test) if _find(source, file) is None]
        if not absent:
            for path in make_set(catalogue[name], source, into, note):
                click.echo(path)
            is_any_made = True
        elif names:
            raise FetchError(f"{name} needs {' and '.join(absent)}, which {source} does not have")
        else:
            note(f"{name}: skipped, as {source} does not have {' and '.join(absent)}")
    if not is_any_made:
        raise FetchError(f"{source} has the published files of no data set; --help names them")


def make_set(entry: Entry, source: Path, into: Path, note: Callable[[str], None]) -> list[Path]:
    """Make a data set in the folder `into` from its published files in `source`, and return the paths of its files.

    `note` is told how the set compares with that of the catalogue. FetchError is raised, and nothing written, if its
    sizes are others than those of the catalogue, or if files with other points are there.
    """
    published = PUBLISHED[entry.name]
    parts = [catalogue_lines(published, _paths(source, names)) for names in (published.train, published.test) if names]
    own_split = len(parts) < len(entry.files)
    if own_split:
        parts = _split(parts[0], entry.shape.N_test)
    _check_sizes(entry, parts)
    contents = [b"".join(part) for part in parts]
    paths = [into / entry.name / file.name for file in entry.files]
    for path, content in zip(paths, contents, strict=True):
        if path.exists() and path.read_bytes() != content:
            raise FetchError(f"{path} exists and has other points; remove it to make it anew")
    for path, content in zip(paths, contents, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as stream:
            stream.write(content)
    note(f"{entry.name}: {_comparison(entry.files, contents, published.points, parts, own_split)}")
    return paths


def catalogue_lines(published: Published, files: Sequence[Path]) -> list[bytes]:
    """Return the points of published files as lines of the catalogue's."""
    return [line for file in files for line in _lines(file, {published.positive: "+1", published.negative: "-1"})]


def _lines(file: Path, signs: dict[str, str]) -> Iterator[bytes]:
    as_table = TABLE in file.name
    with open_input(file) as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                text = raw.decode("ascii").strip()
                if not text:
                    continue
                if as_table:
                    *values, label = text.split(",")
                    pairs: Iterator[tuple[int, str]] = enumerate(values, start=1)
                else:
                    label, *words = text.split()
                    label = f"{float(label):g}"
                    pairs = ((int(index), value) for index, _, value in (word.partition(":") for word in words))
                features = [f"{index}:{_shortest(value)}" for index, value in pairs if float(value)]
            except ValueError:
                raise DataFormatError(file, number, "this is not a point of the published file") from None
            if label not in signs:
                raise DataFormatError(file, number, f"label {label!r} is neither {' nor '.join(signs)}")
            yield f"{' '.join((signs[label], *features))}\n".encode()


def _shortest(value: str) -> str:
    """Return a number in its shortest notation; ValueError if it is not finite."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not finite")
    return repr(number).removesuffix(".0")


def _split(lines: Sequence[bytes], test_count: int) -> list[list[bytes]]:
    """Divide points at random into training and test points; the order of the lines does not matter."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(lines))
    ordered = sorted(lines)
    shuffled = [ordered[i] for i in order]
    return [shuffled[test_count:], shuffled[:test_count]]


def _check_sizes(entry: Entry, parts: Sequence[Sequence[bytes]]) -> None:
    expected = [file.points for file in entry.files]
    counts = [len(part) for part in parts]
    features = max((int(line.split()[-1].partition(b":")[0]) for line in parts[0] if b":" in line), default=0)
    if counts != expected or features != entry.shape.D:
        actual = f"{' and '.join(map(str, counts))} points with {features} features"
        wanted = f"{' and '.join(map(str, expected))} with {entry.shape.D}"
        raise FetchError(f"{entry.name} would have {actual}, but the catalogue's has {wanted}; are the files complete?")


def _comparison(
    files: Sequence[DataFile], contents: Sequence[bytes], points: str, parts: Sequence[Sequence[bytes]], own_split: bool
) -> str:
    """Return in words how files compare with those of the catalogue."""
    digests = [f"git:{hashlib.sha1(b'blob %d' % len(text) + bytes(1) + text).hexdigest()}" for text in contents]
    if not any(file.checksums for file in files):
        return "has the sizes of the catalogue, which has no checksums to compare with"
    if all(digest in file.checksums for digest, file in zip(digests, files, strict=True)):
        if own_split:
            return (
                "the points of the catalogue, but other ones are test points, as the division in the results is unknown"
            )
        return "the files of the catalogue, byte for byte"
    if hashlib.sha256(b"".join(sorted(line for part in parts for line in part))).hexdigest() == points:
        return "the points of the catalogue in another order, so other test points are drawn from them"
    differing = [f"{file.name} is {digest}" for file, digest in zip(files, digests, strict=True)]
    return f"has the sizes of the catalogue, but other values or labels, so results may differ: {', '.join(differing)}"


def _find(source: Path, name: str) -> Path | None:
    """Return the path of a published file, compressed or not, or None if it is not there."""
    return next((path for ending in ENDINGS if (path := source / f"{name}{ending}").is_file()), None)


def _paths(source: Path, names: Sequence[str]) -> list[Path]:
    return [path for name in names if (path := _find(source, name)) is not None]


if __name__ == "__main__":
    make_binary_sets(prog_name="python -m benchmarks.papers.binary_sets")
