"""The subspace basis against numpy.linalg.svd, by the exact and the randomised way."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from sklearn.utils.extmath import randomized_svd

from tests.problems import small_features
from xmlgp.preprocess import basis as module
from xmlgp.preprocess.basis import truncated_svd_basis

#: Ten singular values far above the others: what the randomised way is made for.
GAP = np.concatenate([np.linspace(1, 0.5, 10), np.linspace(0.05, 0.01, 10)])

WAYS = pytest.mark.parametrize("way", ["gram", "randomised"])


def basis_of(monkeypatch, way, features, size, seed=0):
    monkeypatch.setattr(module, "GRAM_LIMIT", 10**9 if way == "gram" else 0)
    return truncated_svd_basis(features, size, seed)


def with_spectrum(singular_values, N=60, D=45):
    """A matrix of known singular values, as a csr_array of float32."""
    random = np.random.default_rng(5)
    left, right = (np.linalg.qr(random.normal(size=(n, len(singular_values))))[0] for n in (N, D))
    return sp.csr_array(((left * singular_values) @ right.T).astype(np.float32))


@WAYS
@pytest.mark.parametrize("size", [1, 4, 10])
def test_it_is_the_subspace_of_the_largest_singular_values(monkeypatch, way, size):
    features = with_spectrum(GAP)
    basis = basis_of(monkeypatch, way, features, size)
    expected = np.linalg.svd(features.toarray().astype(float))[2][:size]
    assert basis.shape == (size, 45)
    assert subspace_angles(basis.T.astype(float), expected.T).max() < 1e-3
    # Singular values are distinct here, so each vector is determined up to its sign.
    np.testing.assert_allclose(np.abs((basis * expected).sum(axis=1)), 1, atol=1e-4)


def test_the_exact_way_resolves_what_single_precision_still_holds(monkeypatch):
    features = with_spectrum(np.geomspace(1, 3e-4, 8))
    expected = np.linalg.svd(features.toarray().astype(float))[2][:8]
    assert subspace_angles(basis_of(monkeypatch, "gram", features, 8).T, expected.T).max() < 2e-3


@WAYS
@pytest.mark.parametrize("density", [0.05, 0.5])
def test_sparse_features_lose_no_more_than_they_must(monkeypatch, way, density):
    features = small_features(80, 50, density)
    basis = basis_of(monkeypatch, way, features, 12)
    singular_values = np.linalg.svd(features.toarray(), compute_uv=False)
    kept = np.linalg.norm(features @ basis.T) ** 2
    assert kept <= (singular_values[:12] ** 2).sum() * (1 + 1e-5)
    assert kept >= (singular_values[:12] ** 2).sum() * (1 - 1e-5 if way == "gram" else 0.97)


@WAYS
def test_it_is_in_descending_order_of_singular_value(monkeypatch, way):
    features = with_spectrum(GAP)
    basis = basis_of(monkeypatch, way, features, 10)
    np.testing.assert_allclose(np.linalg.norm(features @ basis.T, axis=0), GAP[:10], rtol=1e-3)


@WAYS
@pytest.mark.parametrize(("size", "rank"), [(6, 20), (12, 5), (45, 5), (45, 1)])
def test_rows_are_orthonormal_also_beyond_the_rank(monkeypatch, way, size, rank):
    basis = basis_of(monkeypatch, way, with_spectrum(np.linspace(2, 1, rank)), size)
    assert basis.shape == (size, 45)
    np.testing.assert_allclose(basis @ basis.T, np.eye(size), atol=1e-5)


@WAYS
@pytest.mark.parametrize(("N", "D"), [(10, 30), (30, 10), (1, 30), (30, 1)])
def test_there_are_at_most_as_many_vectors_as_points_and_features(monkeypatch, way, N, D):
    features = small_features(N, D, density=0.6)
    basis = basis_of(monkeypatch, way, features, 1000)
    assert basis.shape == (min(N, D), D)
    np.testing.assert_allclose(basis @ basis.T, np.eye(min(N, D)), atol=1e-5)
    np.testing.assert_allclose(features @ basis.T @ basis, features.toarray(), atol=1e-4)


@WAYS
@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e18, 1e38])
def test_the_scale_of_the_features_does_not_matter(monkeypatch, way, scale):
    features = with_spectrum(GAP)
    expected = basis_of(monkeypatch, way, features, 5)
    basis = basis_of(monkeypatch, way, sp.csr_array((features * scale).astype(np.float32)), 5)
    assert subspace_angles(basis.T, expected.T).max() < 1e-3


@WAYS
def test_array_and_seed(monkeypatch, way):
    features = small_features(80, 50, density=0.1)
    first, again, other = (basis_of(monkeypatch, way, features, 20, seed) for seed in (3, 3, 2**32 - 1))
    assert first.dtype == np.float32
    assert first.flags.c_contiguous
    np.testing.assert_array_equal(first, again)
    assert (way == "gram") == np.array_equal(first, other)


@pytest.mark.parametrize("D", [20, 21])
def test_the_exact_way_is_taken_up_to_its_limit(monkeypatch, D):
    calls = []

    def watched(*arguments, **options):
        calls.append(arguments)
        return randomized_svd(*arguments, **options)

    monkeypatch.setattr(module, "GRAM_LIMIT", 20)
    monkeypatch.setattr(module, "randomized_svd", watched)
    truncated_svd_basis(small_features(D=D), 3, 0)
    assert len(calls) == (D > 20)
