"""Preprocessing on a Dask cluster gives what it gives on one machine, for any number of workers."""

import contextlib
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles

from tests.problems import small_features
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.cluster.connection import open_cluster
from xmlgp.cluster.files import mapped_file
from xmlgp.errors import SettingsError
from xmlgp.linear_algebra import sparse
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.preprocess import basis, row_shards
from xmlgp.preprocess.basis import truncated_svd_basis
from xmlgp.preprocess.pipeline import find_inducing_inputs, weight_features, weighting_of_counts
from xmlgp.preprocess.row_shards import count_points, shards_for_sums, weigh_on_cluster
from xmlgp.preprocess.weighting import Weighting, row_chunks, weigh

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def _many_shards(monkeypatch):
    monkeypatch.setattr(row_shards, "SHARD", 200)
    monkeypatch.setattr(row_shards, "SHARE", 1)


def text_features(N=500, D=4000, seed=0):
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


def test_rows_are_read_as_they_are(cluster):
    features = text_features()
    stored = cluster.stored(features)
    for rows in slice(0, 7), slice(7, 7), slice(7, 499), slice(499, 500):
        assert same(stored.rows(rows), features[rows])
    labels = features.astype(bool)
    assert same(cluster.stored(labels).rows(slice(3, 9)), labels[3:9])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_chunks_of_rows_are_all_rows_where_sums_of_indices_overflow(dtype):
    indptr = np.array([0, 2**31 - 9, 2**31 - 5, 2**31 - 5, 2**31 - 1], dtype)
    matrix = SimpleNamespace(indptr=indptr, shape=(4, 3))
    assert list(row_chunks(matrix, 1 << 20)) == [slice(0, 1), slice(1, 4)]
    assert list(row_chunks(matrix, 4)) == [slice(0, 1), slice(1, 3), slice(3, 4)]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("size", [1, 10, 200, 3000, 10**9])
def test_shards_have_about_equally_many_elements(size, dtype):
    features = text_features()
    features.indptr = features.indptr.astype(dtype)
    shards = row_shards.row_shards(features, size)
    assert [shards[0].start, shards[-1].stop] == [0, 500]
    assert all(left.stop == right.start for left, right in itertools.pairwise(shards))
    stored = [features.indptr[rows.stop] - features.indptr[rows.start] for rows in shards]
    longest = np.diff(features.indptr).max()
    assert sum(stored) == features.nnz
    assert max(stored) < 2 * size + longest
    assert size == 1 or min(stored) > min(size, features.nnz) - longest - 1


def test_a_matrix_without_elements_is_one_shard():
    assert row_shards.row_shards(sp.csr_array((4, 5)), 10) == [slice(0, 4)]
    assert row_shards.row_shards(sp.csr_array((0, 5)), 10) == []


def test_document_frequencies_are_those_of_all_points(cluster):
    features = text_features()
    assert len(shards_for_sums(features)) > 1
    np.testing.assert_array_equal(count_points(features, cluster), sparse.column_sums(features.indices, 4000))


@pytest.mark.parametrize("name", ["root-idf", "idf", "unit", "none"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weighted_features_are_the_same_and_mapped(cluster, name, dtype):
    features = text_features().astype(dtype)
    weighting = weighting_of_counts(name, 500, sparse.column_sums(features.indices, 4000))
    weighted = weigh_on_cluster(features, weighting, cluster)
    assert same(weighted, weigh(features, *weighting))
    files = {part: mapped_file(getattr(weighted, part)) for part in ("data", "indices", "indptr")}
    assert all(files.values())
    # Nothing is written again for workers, and the parts are removed.
    assert cluster.stored(weighted)._asdict() == files | {"columns": 4000}
    assert not list(cluster.work.rglob("[0-9]*.npy"))


def test_scaled_features_stay_in_double_precision(cluster):
    features = text_features()
    weighting = Weighting.named("standard", scale=np.geomspace(1, 2, 4000))
    assert same(weigh_on_cluster(features, weighting, cluster), weigh(features, *weighting))


@pytest.mark.parametrize("D", [60, 4000])
@pytest.mark.parametrize("size", [5, 300])
def test_the_basis_agrees_with_the_local_one(cluster, D, size):
    features = weigh(text_features(D=D), None, True)
    found = truncated_svd_basis(features, size, 3, cluster=cluster)
    expected = truncated_svd_basis(features, size, 3)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.T.flags.c_contiguous
    assert subspace_angles(found.T.astype(float), expected.T.astype(float)).max() < 1e-3
    captured = [np.square(features @ vectors.T).sum(axis=0) for vectors in (found, expected)]
    np.testing.assert_allclose(*captured, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("D", [60, 4000])
def test_the_basis_of_a_single_shard_is_the_local_one_to_the_last_bit(cluster, monkeypatch, D):
    monkeypatch.setattr(row_shards, "SHARD", 1 << 20)
    features = weigh(text_features(D=D), None, True)
    np.testing.assert_array_equal(
        truncated_svd_basis(features, 300, 3, cluster=cluster), truncated_svd_basis(features, 300, 3)
    )


@pytest.mark.parametrize("D", [60, 4000])
def test_the_basis_does_not_depend_on_the_workers(cluster, D):
    features = weigh(text_features(D=D), None, True)
    first = truncated_svd_basis(features, 300, 3, cluster=cluster)
    with open_cluster(workers=1) as other:
        np.testing.assert_array_equal(truncated_svd_basis(features, 300, 3, cluster=other), first)
    # Panels are computed together on a worker with several threads.
    more_threads = SimpleNamespace(stored=cluster.stored, map=cluster.map, new_folder=cluster.new_folder, threads=2)
    np.testing.assert_array_equal(truncated_svd_basis(features, 300, 3, cluster=more_threads), first)


@pytest.mark.parametrize("inducing", ["subspace", "free", "features"])
@pytest.mark.parametrize("D", [60, 4000])
def test_preprocessing_agrees_with_that_of_one_machine(cluster, D, inducing):
    features = text_features(D=D)
    settings = MLGPFSettings(inducing=inducing, basis_size=20, inducing_count=30, inducing_start="rows")
    found = find_inducing_inputs(features, settings, cluster=cluster)
    expected = find_inducing_inputs(features, settings)
    np.testing.assert_array_equal(found.weighting.idf, expected.weighting.idf)
    assert found.weighting[1:] == expected.weighting[1:]
    if inducing == "subspace":
        assert subspace_angles(found.basis.T, expected.basis.T).max() < 1e-3
        inputs = [part.inducing @ part.basis for part in (found, expected)]
        np.testing.assert_allclose(*inputs, atol=1e-4)
    elif inducing == "free":
        np.testing.assert_array_equal(found.inducing, expected.inducing)
    else:
        assert found.inducing is None


def test_feature_weights_alone_are_the_same(cluster):
    features = text_features()
    found, expected = (weight_features(features, BMLPLSettings(), cluster=chosen) for chosen in (cluster, None))
    np.testing.assert_array_equal(found.weighting.idf, expected.weighting.idf)


@pytest.mark.parametrize("inducing", ["free", "features"])
def test_features_whose_squares_overflow_are_refused_in_the_same_words(cluster, inducing):
    features = small_features()
    features.data[3] = -3e38
    settings = MLGPFSettings(weighting="none", inducing=inducing, inducing_count=4)
    sentences = []
    for chosen in cluster, None:
        with pytest.raises(SettingsError, match="features are as large as 3e\\+38") as caught:
            find_inducing_inputs(features, settings, cluster=chosen)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]


def test_points_without_features_are_refused(cluster):
    with pytest.raises(SettingsError, match="no training point has a feature"):
        find_inducing_inputs(sp.csr_array((4, 5), dtype=np.float32), MLGPFSettings(), cluster=cluster)


def test_progress_reaches_its_total(cluster, monkeypatch):
    monkeypatch.setattr(basis, "GRAM_LIMIT", 0)
    reports = []

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        yield SimpleNamespace(update=lambda count=1, **facts: reports.append(count))
        assert sum(reports) == total

    truncated_svd_basis(text_features(), 300, 0, progress, cluster)
    assert reports
