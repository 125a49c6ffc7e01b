"""What the estimators take from scikit-learn, with the types that it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["BaseEstimator", "ClassifierMixin"]

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self

    class BaseEstimator:
        """An object with parameters, the arguments of its constructor."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters, and if `deep` those of parameters that are estimators."""

        def set_params(self, **params: object) -> Self:
            """Set parameters, and return the estimator itself."""

        def __sklearn_tags__(self) -> Tags:
            """Return what tools may expect of the estimator."""

    class ClassifierMixin:
        """What tells tools that an estimator is a classifier."""
else:
    from sklearn.base import BaseEstimator, ClassifierMixin
