"""Read the documents X of a tagger: texts or features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmlgp.estimators.features import MatrixLike
from xmlgp.estimators.rows import has_texts, rows_of
from xmlgp.runtime.errors import SettingsError

__all__ = ["Documents", "NameLists", "check_no_table"]

#: Texts, or their features.
Documents: TypeAlias = "Iterable[str] | MatrixLike"

#: Rows in which texts are recognised.
ROWS = 100


class NameLists(list[list[str]]):
    """Lists of names. `cross_val_predict` makes an array of them, which has one dimension whatever their lengths."""

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.object_]:
        return np.fromiter(self, object, len(self))


def check_no_table(X: Any) -> None:
    """Raise SettingsError for a DataFrame of texts: reading it would give the names of its columns."""
    if hasattr(X, "columns") and has_texts(rows_of(X[:ROWS])):
        raise SettingsError("TextTagger takes a list or column of texts, such as df['text'], not a DataFrame")
