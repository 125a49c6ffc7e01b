"""The subspace basis, exact and randomised, against numpy.linalg.svd."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from sklearn.utils.extmath import randomized_svd

from tests.grids import each_value
from tests.problems import small_features
from xmlgp.features import basis as module
from xmlgp.features.basis import truncated_svd_basis
from xmlgp.features.weighting import Weighting, weigh

#: Ten singular values are far above the others, which suits the randomised method.
GAP = np.concatenate([np.linspace(1, 0.5, 10), np.linspace(0.05, 0.01, 10)])

METHODS = pytest.mark.parametrize("method", ["gram", "randomised"])


def basis_of(monkeypatch, method, features, size, seed=0):
    monkeypatch.setattr(module, "GRAM_LIMIT", 10**9 if method == "gram" else 0)
    return truncated_svd_basis(features, size, seed)


def with_spectrum(singular_values, N=60, D=45):
    """Return a float32 csr_array with given singular values."""
    random = np.random.default_rng(5)
    left, right = (np.linalg.qr(random.normal(size=(n, len(singular_values))))[0] for n in (N, D))
    return sp.csr_array(((left * singular_values) @ right.T).astype(np.float32))


@each_value(method=["gram", "randomised"], size=[1, 4, 10])
def test_the_basis_spans_the_leading_singular_vectors(monkeypatch, method, size):
    features = with_spectrum(GAP)
    basis = basis_of(monkeypatch, method, features, size)
    expected = np.linalg.svd(features.toarray().astype(float))[2][:size]
    assert basis.shape == (size, 45)
    assert subspace_angles(basis.T.astype(float), expected.T).max() < 1e-3
    # Singular values are distinct here, so each vector is determined up to its sign.
    np.testing.assert_allclose(np.abs((basis * expected).sum(axis=1)), 1, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(features @ basis.T, axis=0), GAP[:size], rtol=1e-3)


@each_value(method=["gram", "randomised"], density=[0.05, 0.5])
def test_the_basis_of_sparse_features_is_almost_optimal(monkeypatch, method, density):
    features = small_features(80, 50, density)
    basis = basis_of(monkeypatch, method, features, 12)
    singular_values = np.linalg.svd(features.toarray(), compute_uv=False)
    kept = np.linalg.norm(features @ basis.T) ** 2
    assert kept <= (singular_values[:12] ** 2).sum() * (1 + 1e-5)
    assert kept >= (singular_values[:12] ** 2).sum() * (1 - 1e-5 if method == "gram" else 0.97)


@METHODS
@pytest.mark.parametrize(
    "features",
    [with_spectrum([2, 1.5, 1]), with_spectrum([1]), small_features(10, 30, 0.6), small_features(30, 1, 0.6)],
)
def test_rows_beyond_the_rank_are_orthonormal_and_at_most_min_n_d(monkeypatch, method, features):
    basis = basis_of(monkeypatch, method, features, 1000)
    assert basis.shape == (min(features.shape), features.shape[1])
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-5)
    np.testing.assert_allclose(features @ basis.T @ basis, features.toarray(), atol=1e-4)


@each_value(method=["gram", "randomised"], scale=[1e-30, 1e38])
def test_the_basis_does_not_depend_on_the_scale_of_features(monkeypatch, method, scale):
    features = with_spectrum(GAP)
    expected = basis_of(monkeypatch, method, features, 5)
    basis = basis_of(monkeypatch, method, sp.csr_array((features * scale).astype(np.float32)), 5)
    assert subspace_angles(basis.T, expected.T).max() < 1e-3


@METHODS
def test_the_basis_is_float32_in_fortran_order_and_reproducible(monkeypatch, method):
    features = small_features(80, 50, density=0.1)
    first, again, other = (basis_of(monkeypatch, method, features, 20, seed) for seed in (3, 3, 2**32 - 1))
    assert first.dtype == np.float32
    assert first.T.flags.c_contiguous  # the order for products with rows of X
    np.testing.assert_array_equal(first, again)
    assert (method == "gram") == np.array_equal(first, other)


@pytest.mark.parametrize("D", [20, 21])
def test_the_exact_method_is_used_up_to_its_limit(monkeypatch, D):
    calls = []
    monkeypatch.setattr(module, "GRAM_LIMIT", 20)
    monkeypatch.setattr(module, "_exact", lambda *arguments: calls.append("exact") or np.empty((D, 3)))
    monkeypatch.setattr(module, "_randomised", lambda *arguments: calls.append("randomised") or np.empty((D, 3)))
    truncated_svd_basis(small_features(D=D), 3, 0)
    assert calls == ["exact" if D == 20 else "randomised"]


@pytest.mark.parametrize("size", [5, 40])
def test_the_randomised_basis_is_as_good_as_that_of_scikit_learn(monkeypatch, size):
    # The singular values decrease slowly, as those of text data.
    features = small_features(400, 300, density=0.05)
    basis = basis_of(monkeypatch, "randomised", features, size)
    _, _, reference = randomized_svd(features.astype(float), size, n_iter=4, random_state=0)
    best = np.square(np.linalg.svd(features.toarray(), compute_uv=False)[:size]).sum()
    lost, lost_by_reference = (best - np.linalg.norm(features @ vectors.T) ** 2 for vectors in (basis, reference))
    assert lost < 0.01 * best
    assert lost < 1.05 * lost_by_reference + 1e-5 * best


def test_rows_are_orthonormal_for_a_wide_spectrum(monkeypatch):
    # The square of the ratio of singular values is beyond single precision.
    features = with_spectrum(np.geomspace(1, 1e-5, 20))
    basis = basis_of(monkeypatch, "randomised", features, 15)
    np.testing.assert_allclose(basis @ basis.T, np.eye(15), atol=1e-5)
    expected = np.linalg.svd(features.toarray().astype(float))[2][:4]
    assert subspace_angles(basis.T.astype(float), expected.T).max() < 1e-3


def test_read_only_features_with_64_bit_indices_are_accepted(monkeypatch):
    features = small_features(80, 50, density=0.1)
    expected = basis_of(monkeypatch, "randomised", features, 20)
    arrays = features.data, features.indices.astype(np.int64), features.indptr.astype(np.int64)
    wide = sp.csr_array(arrays, shape=features.shape)
    wide.indices, wide.indptr = arrays[1:]
    for array in (wide.data, wide.indices, wide.indptr):
        array.flags.writeable = False  # as if memory-mapped from the cache
    np.testing.assert_array_equal(basis_of(monkeypatch, "randomised", wide, 20), expected)


@pytest.mark.parametrize("outlier", [30, 1000])
def test_one_large_singular_value_does_not_hide_the_others(outlier):
    features = sp.random(300, 4000, 0.01, "csr", random_state=0)
    features.data[0] = outlier
    features = sp.csr_array(features).astype(np.float32)
    basis = truncated_svd_basis(features, 50, 0).astype(np.float64)
    best = np.square(np.linalg.svd(features.toarray().astype(np.float64), compute_uv=False))
    captured = np.square(features.astype(np.float64) @ basis.T).sum() - best[0]
    assert captured > 0.95 * best[1:50].sum()


def text_features(D, N=500):
    """Return counts of words whose frequencies differ as those of text do, with points that have none."""
    random = np.random.default_rng(0)
    frequency = 1 / np.arange(1, D + 1)
    counts = np.zeros((N, D), np.float32)
    for number, size in enumerate(random.integers(0, 40, N)):
        np.add.at(counts[number], random.choice(D, size, p=frequency / frequency.sum()), 1)
    return sp.csr_array(counts)


@pytest.mark.parametrize(("D", "size"), [(60, 5), (1000, 100)])
def test_the_basis_does_not_depend_on_the_shards(in_files, monkeypatch, D, size):
    monkeypatch.setattr(module, "SHARD", 400)
    monkeypatch.setattr(module, "SHARE", 1)
    monkeypatch.setattr(module, "PANEL", 30)
    features = weigh(text_features(D), Weighting.named("unit"))
    found = truncated_svd_basis(features, size, 3)
    np.testing.assert_array_equal(truncated_svd_basis(features, size, 3, executor=in_files), found)
    monkeypatch.setattr(module, "SHARD", 1 << 20)
    whole = truncated_svd_basis(features, size, 3)
    assert (found.dtype, found.shape) == (whole.dtype, whole.shape)
    assert found.T.flags.c_contiguous
    assert subspace_angles(found.T.astype(float), whole.T.astype(float)).max() < 1e-3
    captured = [np.square(features @ vectors.T).sum(axis=0) for vectors in (found, whole)]
    np.testing.assert_allclose(*captured, rtol=1e-4, atol=1e-5)
