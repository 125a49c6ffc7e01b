"""Moments of the utilities against dense products."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.gp.likelihood import Moments
from xmlgp.models.mlgpf.label_weights import utilities as module
from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights
from xmlgp.models.mlgpf.label_weights.utilities import linear_utilities, prepare_points
from xmlgp.prediction.terms import Pairs, Prepared

B, D, K, P = 9, 11, 40, 3


@pytest.fixture(params=["shared", "separate"])
def problem(request):
    """The latent functions, features, loadings, bias and label weights, and the moments of all utilities."""
    random = np.random.default_rng(0)
    latent = Moments(random.normal(size=(B, P)), random.random((B, 1 if request.param == "shared" else P)))
    features = random.random((B, D)) * (random.random((B, D)) < 0.5)
    # A point without features, and one with a single feature.
    features[0], features[1] = 0, np.arange(D) == 3
    loadings, bias = random.normal(size=(K, P)), random.normal(size=K)
    # Feature d has weights of about a share (d + 1)/12 of the labels.
    present = random.random((K, D)) < np.arange(1, D + 1) / 12
    # Labels with so many weights that those of the single feature are searched; the second has none.
    present[0], present[1] = True, np.arange(D) != 3
    present = sp.csr_array(present)
    means, log_variances = random.normal(size=(2, present.nnz))
    weights = LabelWeights(present.indptr.astype(np.int64), present.indices, means, log_variances, np.zeros(D))
    own, spread = (sp.csr_array((v, present.indices, present.indptr), (K, D)) for v in (means, np.exp(log_variances)))
    mean = latent.mean @ loadings.T + bias
    variance = np.broadcast_to(latent.variance, (B, P)) @ loadings.T**2
    with_weights = mean + features @ own.T, variance + features**2 @ spread.T
    return latent, sp.csr_array(features), loadings, bias, weights, (mean, variance), with_weights


@pytest.mark.parametrize("width", [K, 7])
def test_moments_agree_with_dense_products(problem, width):
    latent, features, loadings, bias, weights, without, expected = problem
    for own, moments in (weights, expected), (None, without):
        utilities = linear_utilities(loadings, bias, own)
        points = prepare_points(utilities, latent, features)
        blocks = [slice(start, min(start + width, K)) for start in range(0, K, width)]
        # Ascending, descending, and with gaps.
        for block in blocks + blocks[::-1] + blocks[::2]:
            for found, dense in zip(utilities.moments(points, block), moments, strict=True):
                np.testing.assert_allclose(found, dense[:, block], rtol=1e-10)
            np.testing.assert_allclose(utilities.means(points, block), moments[0][:, block], rtol=1e-10)


def test_weights_are_not_arranged_for_no_points(problem):
    latent, features, loadings, bias, weights, *_ = problem
    utilities = linear_utilities(loadings, bias, weights)
    none = prepare_points(utilities, Moments(latent.mean[:0], latent.variance[:0]), features[:0])
    assert utilities.means(none, slice(0, K)).shape == (0, K)
    assert utilities.terms[1]._arranged is None


@pytest.mark.parametrize("ratio", [0, 2, 1000])
def test_moments_of_pairs_agree_with_those_of_all_labels(problem, monkeypatch, ratio):
    monkeypatch.setattr(module, "PLACED", ratio)
    latent, features, loadings, bias, weights, without, expected = problem
    pairs = np.random.default_rng(1).integers(0, K, (B, 4)).astype(np.int32)
    pairs[:, :2] = 0, 1
    for own, moments in (weights, expected), (None, without):
        utilities = linear_utilities(loadings, bias, own)
        points = prepare_points(utilities, latent, features)
        expected_moments = [np.take_along_axis(dense, pairs, 1) for dense in moments]
        for values, dense in zip(utilities.moments(points, pairs), expected_moments, strict=True):
            np.testing.assert_allclose(values, dense, rtol=1e-10)
        np.testing.assert_allclose(utilities.means(points, pairs), expected_moments[0], rtol=1e-10)


def test_contributions_agree_with_dense_products(problem):
    _, features, loadings, bias, weights, *_ = problem
    random = np.random.default_rng(1)
    latent_weights = random.normal(size=(D, P))
    own = sp.csr_array((weights.mean, weights.features, weights.indptr), (K, D)).toarray()
    pairs = np.stack([random.permutation(K)[:6] for _ in range(B)]).astype(np.int32)
    for given, slopes in (None, loadings @ latent_weights.T), (weights, loadings @ latent_weights.T + own):
        utilities = linear_utilities(loadings, bias, given, latent_weights)
        points = Prepared(B, [None] * len(utilities.terms))
        found = utilities.explain(points, Pairs.from_table(pairs), features)
        np.testing.assert_array_equal(found.rest["bias"], bias[pairs.ravel()])
        expected = [
            slopes[k, features.indices[start:stop]] * features.data[start:stop]
            for start, stop, labels in zip(features.indptr, features.indptr[1:], pairs, strict=False)
            for k in labels
        ]
        np.testing.assert_allclose(found.features.data, np.concatenate(expected), rtol=1e-10)
