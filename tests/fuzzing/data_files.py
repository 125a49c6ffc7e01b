"""Data sets as a strict reader has them, and standard input."""

import io
import itertools
import sys
from unittest import mock

import numpy as np

__all__ = ["points_of", "standard_input"]


def points_of(dataset):
    """Return the points of a data set as `read_data` does, and check what its users rely on."""
    for matrix in dataset.features.sparse, dataset.labels:
        assert matrix.has_canonical_format
        assert matrix.data.all()
    X, Y = dataset.features.sparse, dataset.labels
    assert Y.dtype == np.bool_
    return [
        (set(Y.indices[a:b].tolist()), dict(zip(X.indices[c:d].tolist(), X.data[c:d].tolist(), strict=True)))
        for (a, b), (c, d) in zip(itertools.pairwise(Y.indptr), itertools.pairwise(X.indptr), strict=True)
    ]


def standard_input(content):
    """Replace standard input by a text."""
    return mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
