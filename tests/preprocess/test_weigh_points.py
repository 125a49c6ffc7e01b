"""Preprocessing by row shards is that of all points, wherever the shards are computed."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles

from xmlgp.data.dataset import consecutive_rows
from xmlgp.linear_algebra import sparse
from xmlgp.preprocess import weighting
from xmlgp.preprocess.basis import truncated_svd_basis
from xmlgp.preprocess.pipeline import weighting_of_counts
from xmlgp.preprocess.weighting import Weighting, count_points, row_chunks, shards_for_sums, weigh, weigh_points
from xmlgp.work import THIS_MACHINE


@pytest.fixture(autouse=True)
def _many_shards(monkeypatch):
    monkeypatch.setattr(weighting, "SHARD", 200)
    monkeypatch.setattr(weighting, "SHARE", 1)


@pytest.fixture(params=["this machine", "in files"])
def work(request):
    return THIS_MACHINE if request.param == "this machine" else request.getfixturevalue("in_files")


@functools.cache
def text_features(N=500, D=1000, seed=0):
    """Return counts of words whose frequencies differ as those of text do, with points that have none."""
    random = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, D + 1)
    rows = [random.choice(D, size, p=frequency / frequency.sum()) for size in random.integers(0, 40, N)]
    counts = sp.csr_array((N, D), dtype=np.float32).tolil()
    for number, row in enumerate(rows):
        for column in row:
            counts[number, column] += 1
    return sp.csr_array(counts.tocsr())


def same(left, right):
    return left.shape == right.shape and all(
        getattr(left, name).dtype == getattr(right, name).dtype
        and np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("data", "indices", "indptr")
    )


def test_consecutive_rows_are_those_of_scipy():
    for matrix in text_features(), text_features().astype(bool):
        for rows in slice(0, 7), slice(7, 7), slice(7, 499), slice(499, 500):
            assert same(consecutive_rows(matrix, rows), matrix[rows])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_chunks_of_rows_are_all_rows_where_sums_of_indices_overflow(dtype):
    indptr = np.array([0, 2**31 - 9, 2**31 - 5, 2**31 - 5, 2**31 - 1], dtype)
    matrix = SimpleNamespace(indptr=indptr, shape=(4, 3))
    assert list(row_chunks(matrix, 1 << 20)) == [slice(0, 1), slice(1, 4)]
    assert list(row_chunks(matrix, 4)) == [slice(0, 1), slice(1, 3), slice(3, 4)]


def test_document_frequencies_are_those_of_all_points(work):
    features = text_features()
    assert len(shards_for_sums(features)) > 1
    np.testing.assert_array_equal(count_points(features, work), sparse.column_sums(features.indices, 1000))


@pytest.mark.parametrize("name", ["root-idf", "none"])
def test_weighted_features_are_the_same(in_files, name):
    features = text_features()
    weights = weighting_of_counts(name, 500, sparse.column_sums(features.indices, 1000))
    assert same(weigh_points(features, weights, in_files), weigh(features, *weights))


def test_weighted_features_are_not_written_again(in_files):
    features = text_features()
    weighted = weigh_points(features, Weighting.named("unit"), in_files)
    before = sorted(in_files.folder.iterdir())
    assert list(in_files.map(stored, [()], weighted)) == [weighted.nnz]
    # Only their index arrays, which are those of the user, are.
    assert len(sorted(in_files.folder.iterdir())) <= len(before) + 2


def stored(matrix):
    return matrix.nnz


@pytest.mark.parametrize(("D", "size"), [(60, 5), (1000, 100)])
def test_the_basis_does_not_depend_on_the_shards(in_files, monkeypatch, D, size):
    features = weigh(text_features(D=D), None, True)
    found = truncated_svd_basis(features, size, 3)
    # Nor on how many panels are computed together.
    np.testing.assert_array_equal(truncated_svd_basis(features, size, 3, work=in_files), found)
    monkeypatch.setattr(weighting, "SHARD", 1 << 20)
    whole = truncated_svd_basis(features, size, 3)
    assert (found.dtype, found.shape) == (whole.dtype, whole.shape)
    assert found.T.flags.c_contiguous
    assert subspace_angles(found.T.astype(float), whole.T.astype(float)).max() < 1e-3
    captured = [np.square(features @ vectors.T).sum(axis=0) for vectors in (found, whole)]
    np.testing.assert_allclose(*captured, rtol=1e-4, atol=1e-5)
