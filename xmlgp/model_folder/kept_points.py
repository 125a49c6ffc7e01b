"""The training points that a model keeps: arrays of the model folder, and the `Dataset` that they become again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.dataset import Dataset, Features, as_csr, widen
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, arrays_fit, csr_pattern
from xmlgp.runtime.errors import ModelFolderError

__all__ = ["arrays_of_points", "kept_points", "points_from"]

#: X and Y as read, and dense features.
POINTS = ArrayGroup(
    **csr_pattern("N D", "u"), values=Array("u", np.number), **csr_pattern("N K", "v", "label_indptr", "labels")
)
DENSE = ArrayGroup(dense=Array("N E", np.floating))
GROUPS = ArrayGroup(groups=Array("N", np.int64))

#: The types that take less space than single precision; counts of words mostly fit into the first.
COMPACT = (np.uint8, np.float16)


def arrays_of_points(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """Return the arrays that keep the points of a data set, by name."""
    X = dataset.features.sparse
    arrays = {
        "indptr": X.indptr.astype(np.int64, copy=False),
        "indices": X.indices.astype(np.int32, copy=False),
        "values": _compact(X.data),
        "label_indptr": dataset.labels.indptr.astype(np.int64, copy=False),
        "labels": dataset.labels.indices.astype(np.int32, copy=False),
    }
    return arrays | POINTS.named({"dense": dataset.features.dense, "groups": dataset.groups})


def _compact(values: NDArray[Any]) -> NDArray[Any]:
    """Return values of single precision in the smallest type that has all of them; double precision stays."""
    if values.dtype != np.float32:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        for dtype in COMPACT:
            compact = values.astype(dtype)
            if np.array_equal(compact, values):
                return compact
    return values


def kept_points(
    title: str, arrays: Mapping[str, NDArray[Any]], data: Mapping[str, Any], D: int | None = None, K: int | None = None
) -> Dataset | None:
    """Return the points that a model keeps, by default with its D features and K labels; None if it keeps none."""
    if not arrays:
        return None
    points = points_from(arrays, data)
    if points is None:
        raise ModelFolderError(f"{title}: the model is damaged, its training points do not fit it")
    X = widen(points.features.sparse, D or points.D)
    return replace(points, features=points.features.with_sparse(X), labels=widen(points.labels, K or points.K))


def points_from(arrays: Mapping[str, NDArray[Any]], data: Mapping[str, Any]) -> Dataset | None:
    """Return the points of untrusted arrays, given the facts of the data; None if they do not fit these."""
    sizes = {name: data[name] for name in "NDK"}
    width = data.get("dense", 0)
    if not arrays_fit(arrays, {POINTS: True, DENSE: bool(width), GROUPS: None}, sizes) or sizes.get("E", 0) != width:
        return None
    values = arrays["values"]
    if values.dtype != np.float64:
        values = values.astype(np.float32)
    X = as_csr(values, arrays["indices"], arrays["indptr"], data["D"])
    labels = as_csr(None, arrays["labels"], arrays["label_indptr"], data["K"])
    if not (X.has_canonical_format and labels.has_canonical_format and values.all()):
        return None
    return Dataset(Features(X, arrays.get("dense")), labels, data.get("first_feature"), arrays.get("groups"))
