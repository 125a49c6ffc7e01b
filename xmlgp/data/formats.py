"""Reading data files in any of the formats there are, which are told apart by the first line, not by the name."""

import os

from xmlgp.data import libsvm_format, repository_format
from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import Header
from xmlgp.data.streams import open_input
from xmlgp.runtime.progress import silent

__all__ = ["LIBSVM", "REPOSITORY", "read_blocks", "read_dataset"]

#: The formats, as the catalogue calls them.
REPOSITORY, LIBSVM = "repository", "libsvm"


def read_dataset(path, cache=True, progress=silent):
    """Read a whole data file.

    Parameters
    ----------
    path, cache, progress
        As for `repository_format.read_dataset`; of files in libsvm's format there is no binary copy.

    Returns
    -------
    dataset : Dataset
    format : str
        `REPOSITORY` or `LIBSVM`. Whatever is neither is malformed as a file of the repository's.

    Raises
    ------
    DataFormatError
        If the file is malformed, naming the line.
    """
    path = os.fspath(path)
    # Only what can be opened twice is looked up in the cache.
    if cache and path != "-" and os.path.isfile(path):
        with open_input(path) as stream:
            in_cache = not is_libsvm(LineReader(stream, path).look())
        if in_cache:
            return repository_format.read_dataset(path, cache, progress), REPOSITORY
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        if is_libsvm(reader.look()):
            return libsvm_format.read_points(reader, progress), LIBSVM
        return repository_format.read_points(reader, progress), REPOSITORY


def read_blocks(path, D, tell=lambda text: None):
    """Read points for a model, a file in the repository's format piece by piece as its own `read_blocks` does.

    Parameters
    ----------
    path : str or Path
        A text file, a gzip file named `.gz`, or `-` for standard input.
    D : int
        The number of features that the model has. A file in libsvm's format does not say how many there are: its
        points get as many, and those beyond them, which no training point had, are left out.
    tell : callable
        Told in words what is left out.

    Returns
    -------
    header : Header
        Of a file in the repository's format as the first line has it, else of what is read.
    blocks : iterator of (int, Dataset)
        The line of the file where each block starts, and its points.

    Raises
    ------
    DataFormatError
        If the file is malformed, naming the line: here or by the iterator, when it comes to that line.
    """
    steps = _read_steps(os.fspath(path), D, tell)
    return next(steps), steps


def _read_steps(path, D, tell):
    """Yield the header, then the blocks."""
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        if not is_libsvm(reader.look()):
            yield from repository_format.read_steps(reader)
            return
        dataset = libsvm_format.read_points(reader)
    if dataset.D > D:
        tell(f"{path} has features up to {dataset.D}, those above {D} are left out: no training point had any of them")
    dataset = libsvm_format.with_features(dataset, D)
    yield Header(dataset.N, dataset.D, dataset.K)
    yield 1, dataset
