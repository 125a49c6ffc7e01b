"""Groups of arrays: which arrays of an untrusted model fit their declarations."""

import numpy as np
import pytest

from xmlgp.linear_algebra.array_groups import (
    COMMON_FLOAT,
    Array,
    ArrayGroup,
    arrays_fit,
    at_least,
    csr_pattern,
    indices_below,
    is_positive,
)

WEIGHTS = ArrayGroup("w.", mean=Array("K P", COMMON_FLOAT), log_variance=Array("K", COMMON_FLOAT), scale=Array("1+P"))
COUNTS = ArrayGroup(counts=Array("K", np.int64, at_least(0)))

ARRAYS = {
    "w.mean": np.zeros((3, 2), np.float32),
    "w.log_variance": np.zeros(3, np.float32),
    "w.scale": np.zeros(3, np.float64),
}


def fit(arrays, **groups):
    return arrays_fit(arrays, {WEIGHTS: groups.get("weights", True), COUNTS: groups.get("counts")}, {"K": 3})


def test_arrays_that_are_declared_fit():
    sizes = {"K": 3}
    assert arrays_fit(ARRAYS | {"counts": np.arange(3)}, {WEIGHTS: True, COUNTS: None}, sizes)
    assert sizes == {"K": 3, "P": 2}
    assert fit(ARRAYS)


@pytest.mark.parametrize(
    "changed",
    [
        {"w.mean": np.zeros((4, 2), np.float32)},
        {"w.mean": np.zeros((3, 2, 1), np.float32)},
        {"w.mean": np.zeros((3, 2))},
        {"w.mean": np.zeros((3, 2), np.int32)},
        {"w.scale": np.zeros(2)},
        {"w.scale": np.zeros(3, np.float16)},
        {"w.scale": np.full(3, np.inf)},
        {"w.scale": None},
        {"w.more": np.zeros(3)},
        {"more": np.zeros(3)},
        {"counts": np.array([0, -1, 2])},
        {"counts": np.arange(3, dtype=np.int32)},
        {"counts": np.arange(3.0)},
    ],
    ids=repr,
)
def test_other_names_shapes_types_and_values_do_not_fit(changed):
    assert not fit({name: array for name, array in (ARRAYS | changed).items() if array is not None})


def test_a_group_may_be_needed_or_forbidden():
    counts = {"counts": np.arange(3)}
    assert not fit(ARRAYS, counts=True)
    assert fit(ARRAYS | counts, counts=True)
    assert not fit(ARRAYS | counts, counts=False)
    assert not fit({})
    assert fit({}, weights=None)


@pytest.mark.parametrize(("check", "values"), [(is_positive, [0]), (at_least(1), [0.5]), (indices_below("K"), [-1, 3])])
def test_values_that_are_not_allowed(check, values):
    assert not any(check(np.array([value]), {"K": 3}) for value in values)
    assert check(np.array([1, 2]), {"K": 3})


@pytest.mark.parametrize(
    ("indptr", "indices", "valid"),
    [
        ([0, 2, 3], [0, 4, 1], True),
        ([0, 0, 0], [], True),
        ([0, 2, 3], [0, 5, 1], False),
        ([0, 2, 3], [0, -1, 1], False),
        ([0, 4, 3], [0, 4, 1], False),
        ([0, 2, 4], [0, 4, 1], False),
        ([1, 2, 3], [0, 4, 1], False),
        ([0, 3], [0, 4, 1], False),
        ([], [], False),
    ],
)
def test_patterns_whose_indices_are_out_of_range_do_not_fit(indptr, indices, valid):
    group = ArrayGroup(**csr_pattern("N D", "n"))
    for kind in np.int32, np.int64:
        arrays = {"indptr": np.array(indptr, np.int64), "indices": np.array(indices, kind)}
        assert arrays_fit(arrays, {group: True}, {"N": 2, "D": 5}) == (valid and kind == np.int32)


def test_arrays_are_read_and_named_without_and_with_the_prefix():
    arrays = WEIGHTS.read(ARRAYS | {"counts": np.arange(3)})
    assert list(arrays) == ["mean", "log_variance", "scale"]
    assert WEIGHTS.named(arrays | {"none": None}) == ARRAYS
    assert not COUNTS.read(ARRAYS)
    assert (WEIGHTS.is_in(ARRAYS), COUNTS.is_in(ARRAYS)) == (True, False)
