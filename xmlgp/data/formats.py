"""Read data files of any format, which the first line determines, not the name of the file."""

import os

from xmlgp.data import libsvm_format, repository_format
from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.lines import LineReader
from xmlgp.data.repository_format import Header
from xmlgp.data.streams import open_input
from xmlgp.runtime.progress import silent

__all__ = ["LIBSVM", "REPOSITORY", "read_blocks", "read_dataset", "read_rows"]

#: Names of the formats, as in the catalogue.
REPOSITORY, LIBSVM = "repository", "libsvm"


def read_dataset(path, cache=True, progress=silent):
    """Read a whole data file.

    Parameters
    ----------
    path, cache, progress
        As for `repository_format.read_dataset`. Files in libsvm format are not cached.

    Returns
    -------
    dataset : Dataset
    format : str
        `REPOSITORY` or `LIBSVM`.

    Raises
    ------
    DataFormatError
        If the file is malformed; it names the line.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        return read_rows(LineReader(stream, path), cache, progress)


def read_rows(reader, cache=False, progress=silent):
    """Read all points of a file that is open (`LineReader` at the first line), as `read_dataset` does."""
    if is_libsvm(reader.peek_line()):
        return libsvm_format.read_points(reader, progress), LIBSVM
    return repository_format.read_points(reader, cache, progress), REPOSITORY


def read_blocks(reader, D, warn=lambda text: None):
    """Return the `Header` of an open file for a model of D features, and the line and points of each block.

    A file in libsvm format, one block, does not declare its sizes: its points get D features, and features beyond them,
    which no training point had, are ignored with a warning. DataFormatError, which iteration may also raise, names the
    line of an error.
    """
    if not is_libsvm(reader.peek_line()):
        items = repository_format.read_header_and_blocks(reader)
        return next(items), items
    dataset = libsvm_format.read_points(reader)
    if dataset.D > D:
        warn(
            f"{reader.path} has features up to {dataset.D}; those above {D} are ignored because no training point had "
            "them"
        )
    dataset = libsvm_format.resize_features(dataset, D)
    return Header(*dataset.shape), iter([(1, dataset)])
