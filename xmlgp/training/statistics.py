"""Counts of the points that a model has learned, which learning on needs: by label and by feature."""

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.linear_algebra import sparse

__all__ = ["STATISTICS", "TRAIN_AGAIN", "added", "are_valid", "statistics_of"]

#: The parameters with these counts: earlier points with each label, K, and with each feature, D.
STATISTICS = ("statistics.labels", "statistics.features")


#: Why a model of an earlier version cannot learn on.
TRAIN_AGAIN = "the model lacks what learning on needs, because an earlier version trained it; train it again"


def statistics_of(features, labels):
    """Return the counts of some points, by name.

    Parameters
    ----------
    features : csr_array, N×D
    labels : csr_array, N×K
    """
    counts = (sparse.column_sums(matrix.indices, matrix.shape[1]) for matrix in (labels, features))
    return {name: count.astype(np.int64) for name, count in zip(STATISTICS, counts, strict=True)}


def added(parameters, statistics):
    """Return the counts of a model with those of more points, which may have more labels and features.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        Of the model.
    statistics : mapping of str to ndarray
        Of the points.

    Raises
    ------
    SettingsError
        If the model has none.
    """
    if not parameters.keys() >= set(STATISTICS):
        raise SettingsError(TRAIN_AGAIN)
    total = {name: count.copy() for name, count in statistics.items()}
    for name, count in total.items():
        count[: len(parameters[name])] += parameters[name]
    return total


def are_valid(parameters, D, K):
    """Return whether the counts of an untrusted file are consistent with the model; one from before has none.

    Parameters
    ----------
    parameters : mapping of str to ndarray
    D, K : int
    """
    found = [parameters[name] for name in STATISTICS if name in parameters]
    if not found:
        return True
    return len(found) == len(STATISTICS) and all(
        array.dtype == np.int64 and array.shape == (size,) and (array >= 0).all()
        for array, size in zip(found, (K, D), strict=True)
    )
