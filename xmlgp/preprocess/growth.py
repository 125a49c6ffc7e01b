"""Preprocessing where a model learns on: the weighting of all points so far, and room for new features."""

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.preprocess.pipeline import Preprocessed, weighting_of_counts

__all__ = ["grow"]


def grow(preprocessed, settings, N, counts):
    """Return preprocessing for all N points so far, of which n_d have feature d (`counts`, D) (`Preprocessed`).

    The basis of a subspace and inducing inputs stay as they are, with zeros for new features.

    Raises
    ------
    SettingsError
        If features are standardised: the scale of each would change what was learned.
    """
    if settings.weighting == "standard":
        raise SettingsError("a model of standardised features cannot learn on")
    weighting = weighting_of_counts(settings.weighting, N, counts)
    basis, inducing = preprocessed.basis, preprocessed.inducing
    if basis is not None:
        basis = np.asfortranarray(with_columns(basis, len(counts)))
    elif inducing is not None:
        inducing = with_columns(inducing, len(counts))
    return Preprocessed(weighting, basis, inducing)


def with_columns(matrix, count):
    """Return a matrix with columns of zeros added, so that it has `count`; the same matrix if it has as many."""
    if matrix.shape[1] == count:
        return matrix
    grown = np.zeros((len(matrix), count), matrix.dtype)
    grown[:, : matrix.shape[1]] = matrix
    return grown
