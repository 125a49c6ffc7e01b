"""Read the labels y of a multi-label classifier, and say what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence

from scipy.sparse import csr_array
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array

from xmlgp.api.memory import check_not_masked, labels_in_memory
from xmlgp.estimators.rows import has_texts, rows_of
from xmlgp.runtime.errors import SettingsError

__all__ = ["check_given", "read_labels"]


def check_given(estimator: object, y: object) -> None:
    """Raise ValueError, as scikit-learn words it, if there are no labels."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")


def read_labels(estimator: object, y: object, N: int) -> csr_array:
    """Return the labels of N points for an estimator as a matrix of bool; an error says what is wrong with y."""
    check_given(estimator, y)
    check_not_masked(y)
    try:
        return labels_in_memory(check_array(y, accept_sparse="csr", dtype=None), N)
    except ValueError as error:
        hint = _hint_at_labels(rows_of(y))
        raise (SettingsError(hint) if hint else error) from None


def _hint_at_labels(rows: Sequence[object]) -> str | None:
    """Return what to do with rows of names or with single values; None for rows of numbers."""
    lists = [row for row in rows if isinstance(row, list)]
    if not lists:
        return _hint_at_values(rows) if rows else None
    is_matrix = len(lists) == len(rows) and len(set(map(len, lists))) == 1
    if is_matrix and not has_texts(lists):
        return None
    if is_matrix and all(value in ("0", "1") for row in lists for value in row):
        return "y has texts, not the numbers 0 and 1; give np.array(y).astype(int)"
    return "y has lists, not a column for each label; a TextTagger takes lists of names, for texts or features"


def _hint_at_values(values: Sequence[object]) -> str:
    """Return what to do with one value for each point: a number, the name of a class, or several names."""
    kind = type_of_target(values)
    mistake = "y has one value for each point, not a column for each label"
    if kind.startswith("continuous"):
        return f"Unknown label type: {kind}; {mistake}, and the values are not 0 and 1"
    if kind == "binary":
        # Wrappers of one output give it so.
        column = "" if has_texts(values) else "; one label is a column, np.reshape(y, (-1, 1))"
        return (
            f"{mistake}; GPCClassifier is for two classes{column}; several labels need no MultiOutputClassifier or "
            "ClassifierChain around this estimator"
        )
    several = "Only binary classification is supported, by GPCClassifier, for one value"
    return f"{mistake}; pd.get_dummies(y) has one. {several}"
