"""The kinds of data that users give, and what messages call them."""

from __future__ import annotations

import errno
import os
from numbers import Integral
from typing import Any, TypeAlias, TypeGuard

import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.runtime.errors import NoSuchFileError, UsageError
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["FilePath", "Matrix", "check_count", "check_exists", "is_matrix", "is_path", "title_of"]

FilePath: TypeAlias = "str | os.PathLike[str]"
Matrix: TypeAlias = "NDArray[Any] | sp.sparray | sp.spmatrix"


def is_path(data: object) -> TypeGuard[FilePath]:
    """Return whether data are given by a path."""
    return isinstance(data, str | os.PathLike)


def is_matrix(data: object) -> TypeGuard[Matrix]:
    """Return whether data are a table: sparse, or of two dimensions, which lists and a Series of texts are not."""
    return bool(sp.issparse(data)) or len(getattr(data, "shape", ())) == 2


def title_of(data: object, other: str = "the points") -> str:
    """Return what messages call data: their path, or `other`."""
    return os.fspath(data) if is_path(data) else other


def check_exists(data: object, example: str = '["a text"]') -> None:
    """Raise NoSuchFileError for a str that names no file or folder.

    It may be a text: the error says that texts must be in a list, with an `example`. A standard stream, `-`, is a path,
    and so may be a str that cannot be checked, for lack of permission for instance.
    """
    if not isinstance(data, str) or data == "-":
        return
    try:
        os.stat(data)
        return
    except ValueError:  # a character that no path has
        error = OSError(errno.ENOENT, os.strerror(errno.ENOENT), data)
    except OSError as raised:
        if raised.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return
        error = raised
    text = f"there is no file or folder {excerpt(data)}; a text must be in a list: {example}"
    raise NoSuchFileError(error, text) from None


def check_count(name: str, number: object, other: str = "") -> None:
    """Raise UsageError if an option is neither a positive integer nor None; `other` names what else it may be."""
    if number is not None and (isinstance(number, bool) or not isinstance(number, Integral) or number < 1):
        raise UsageError(f"{name} must be a positive integer{other}, not {excerpt(number)}.")
