"""The rows of data that may be no matrix, for messages that say what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import scipy.sparse as sp

__all__ = ["has_texts", "rows_of"]


def rows_of(data: object) -> list[Any]:
    """Return the rows of data, each a list or a single value; none of a sparse matrix."""
    if sp.issparse(data) or not isinstance(data, Iterable):
        return []
    rows = data.to_numpy() if hasattr(data, "to_numpy") else data
    return [list(row) if hasattr(row, "__iter__") and not isinstance(row, str) else row for row in rows]


def has_texts(rows: Sequence[object]) -> bool:
    """Return whether a value in the rows is a text."""
    return any(isinstance(value, str) for row in rows for value in (row if isinstance(row, list) else [row]))
