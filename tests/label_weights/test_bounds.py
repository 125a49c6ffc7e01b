"""The labels of highest score by bounds, against the scores of all labels."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.grids import each_value
from xmlgp.gp.expectations import expected_sigmoid
from xmlgp.gp.likelihood import Moments
from xmlgp.label_weights.bounds import UtilityBounds
from xmlgp.label_weights.posterior import LabelWeights

B, D, K, P = 20, 60, 1500, 10


def problem(level=-4.0, spread=0.0, separate=False):
    """Return moments of latent functions, features, loadings, bias and label weights, and those of all utilities."""
    random = np.random.default_rng(0)
    latent = Moments(
        random.normal(size=(B, P)).astype(np.float32),
        random.uniform(0.1, 0.6, (B, P if separate else 1)).astype(np.float32),
    )
    features = random.random((B, D)) * (random.random((B, D)) < 0.2)
    # A point without features or latent functions: the bias alone orders its labels.
    features[0] = latent.mean[0] = 0
    loadings = random.normal(size=(K, P)).astype(np.float32)
    bias = (level + random.normal(size=K)).astype(np.float32)
    # Some features have weights of a fifth of the labels, others of few.
    present = sp.csr_array(random.random((K, D)) < np.where(np.arange(D) % 2, 0.2, 0.01))
    means, log_variances = random.normal(size=(2, present.nnz)).astype(np.float32)
    log_variances += np.float32(spread)
    weights = LabelWeights(
        present.indptr.astype(np.int64), present.indices.astype(np.int32), means, log_variances, np.zeros(D)
    )
    of_means, of_variances = (
        sp.csr_array((v, present.indices, present.indptr), (K, D)).toarray() for v in (means, np.exp(log_variances))
    )
    mean = latent.mean @ loadings.T + bias + features @ of_means.T
    variance = np.broadcast_to(latent.variance, (B, P)) @ loadings.T**2 + features**2 @ of_variances.T
    return (latent, sp.csr_array(features.astype(np.float32)), loadings, bias, weights), mean, variance


def check(found, scores, count):
    """Check that no label has a higher score than those that are found."""
    for labels, of_point in zip(found, scores, strict=True):
        labels = labels[labels >= 0]
        assert len(labels) == len(set(labels.tolist()))
        highest = np.sort(of_point[labels])[::-1][:count]
        np.testing.assert_allclose(highest, np.sort(of_point)[::-1][:count], rtol=2e-6)


@each_value(count=[1, 5, 64], level=[-4.0, -12.0, 6.0], spread=[0.0, 1.0], separate=[False, True])
def test_no_label_has_a_higher_score_than_the_best(count, level, spread, separate):
    (latent, features, loadings, bias, weights), mean, variance = problem(level, spread, separate)
    bounds = UtilityBounds(loadings, bias, weights)
    check(bounds.best(latent, features, count, 10), expected_sigmoid(mean, variance, 10), count)
    check(bounds.best(Moments(latent.mean, None), features, count, None), mean, count)
    without = UtilityBounds(loadings, bias, None)
    check(without.best(Moments(latent.mean, None), None, count, None), latent.mean @ loadings.T + bias, count)


def test_what_was_guessed_too_high_is_searched_again(monkeypatch):
    # With large variances the log odds of probabilities are far below what their order is guessed by.
    (latent, features, loadings, bias, weights), mean, variance = problem(-16.0)
    searched = []
    search = UtilityBounds._searched

    def counted(self, latent, *arguments):
        searched.append(len(latent.mean))
        return search(self, latent, *arguments)

    monkeypatch.setattr(UtilityBounds, "_searched", counted)
    check(UtilityBounds(loadings, bias, weights).best(latent, features, 3, 10), expected_sigmoid(mean, variance, 10), 3)
    assert searched[0] == B
    assert 0 < sum(searched[1:]) <= B


def test_labels_of_a_point_do_not_depend_on_other_points():
    (latent, features, *model), *_ = problem()
    bounds = UtilityBounds(*model)
    together = bounds.best(latent, features, 5, 10)
    for i in range(B):
        one = slice(i, i + 1)
        alone = bounds.best(Moments(latent.mean[one], latent.variance[one]), features[one], 5, 10)
        np.testing.assert_array_equal(alone[0], together[i])


@pytest.mark.parametrize("where", ["loadings", "bias", "weights", "latent", "features"])
def test_numbers_that_are_too_large_have_no_bounds(where):
    (latent, features, loadings, bias, weights), *_ = problem()
    array = {"loadings": loadings, "bias": bias, "weights": weights.mean, "latent": latent.mean}
    array.get(where, features.data).flat[-1] = np.inf
    assert UtilityBounds(loadings, bias, weights).best(latent, features, 5, 10) is None
