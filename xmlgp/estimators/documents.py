"""Read the documents X of a tagger: texts or features, perhaps with dense features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmlgp.errors import SettingsError
from xmlgp.estimators.classifier import Classifier
from xmlgp.estimators.features import FeaturesLike, SplitFeatures, split_features
from xmlgp.estimators.rows import has_texts, rows_of
from xmlgp.inputs.kinds import is_matrix
from xmlgp.inputs.source import DenseFeatures

__all__ = ["Documents", "NameLists", "check_no_table", "split_documents"]

#: Texts, or their features.
Documents: TypeAlias = "Iterable[str] | FeaturesLike"

#: Rows in which texts are recognised.
ROWS = 100


class NameLists(list[list[str]]):
    """Lists of names. `cross_val_predict` makes an array of them, which has one dimension whatever their lengths."""

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.object_]:
        return np.fromiter(self, object, len(self))


def split_documents(
    X: Documents, dense: DenseFeatures | None, classifier: Classifier, of_texts: bool = False, fitted: bool = False
) -> SplitFeatures:
    """Return documents and their dense blocks, for the fitted model of a classifier or a new one.

    Those that must be texts (`of_texts`) are returned as they are. In a DataFrame with dense features, a single other
    column has the texts.
    """
    table, blocks = split_features(X, dense)
    if blocks and hasattr(table, "iloc") and table.shape[1:] == (1,) and table.dtypes.iloc[0].kind == "O":
        table = table.iloc[:, 0]
    if not of_texts and is_matrix(table):
        return classifier._split(table, blocks, fitted)
    return SplitFeatures(table, blocks)


def check_no_table(X: Any) -> None:
    """Raise SettingsError for a DataFrame of texts: reading it would give the names of its columns."""
    if hasattr(X, "columns") and has_texts(rows_of(X[:ROWS])):
        raise SettingsError("TextTagger takes a list or column of texts, such as df['text'], not a DataFrame")
