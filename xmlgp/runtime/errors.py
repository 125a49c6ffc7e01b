"""The errors that a user can cause or fix, one class for each kind.

The text of each error is one sentence that says what is wrong and where. The command line prints it and exits with
status 1; a Python user catches `XmlgpError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

__all__ = [
    "CatalogueError",
    "ClusterError",
    "DataFormatError",
    "FetchError",
    "ModelFolderError",
    "ModelInUseError",
    "NamesFormatError",
    "NumericalError",
    "SettingsError",
    "UsageError",
    "XmlgpError",
    "nearest",
]


#: Least similarity, from 0 to 1, of a name to what is suggested in its place: "trian" and "train" have 0.8.
SIMILAR = 0.65


class XmlgpError(Exception):
    """An error that a user can cause or fix; its text is one sentence."""


class ClusterError(XmlgpError):
    """A Dask cluster is lost, or cannot be used."""


class DataFormatError(XmlgpError):
    """A file of data is malformed, whether it has rows of numbers or texts.

    Attributes
    ----------
    path : str
        The file as the user named it (`-` for standard input).
    line : int
        Counted from 1.
    reason : str
    id : str, int or None
        The identifier of the document in this line, if it is known.
    """

    def __init__(self, path: object, line: int, reason: str, id: str | int | None = None) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.path = str(path)
        self.line = line
        self.reason = reason
        self.id = id


class NamesFormatError(DataFormatError):
    """A file of names is malformed, or has the wrong number of them."""


class CatalogueError(XmlgpError):
    """The catalogue is malformed, or lacks a requested entry."""


class FetchError(XmlgpError):
    """A data set could not be fetched."""


class ModelFolderError(XmlgpError):
    """A model folder or a checkpoint is missing, damaged or of another version."""


class ModelInUseError(ModelFolderError):
    """Another process is writing a model folder."""


class NumericalError(XmlgpError):
    """A computation became non-finite."""


class SettingsError(XmlgpError, ValueError):
    """Settings that are not allowed, or that do not fit the data; a ValueError, as scikit-learn expects of `fit`."""


class UsageError(XmlgpError):
    """Arguments that contradict each other."""


def nearest(name: str, names: Collection[str]) -> str | None:
    """Return the one of `names` that is most similar to `name`; None if none is similar."""
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=SIMILAR)), None)
