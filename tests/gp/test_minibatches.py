"""The stochastic bound is unbiased: its mean over all minibatches and all samples of negatives is the bound."""

import itertools

import numpy as np
import pytest

from tests.gp.reference import pairs_of, random_labels, random_parameters
from tests.gp.test_bound import dense_gradients
from tests.grids import each_value
from xmlgp.features.inputs import Points
from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.likelihood import AllPairs
from xmlgp.gp.posteriors import POSTERIORS

N, K, P, M, D = 4, 5, 2, 3, 4


def samples(positives, count):
    """Return all choices of `count` negatives per point, or of all negatives of a point that has fewer."""
    absent = [np.flatnonzero(~present) for present in positives]
    return itertools.product(*(itertools.combinations(labels, min(count, len(labels))) for labels in absent))


def mean_over_minibatches(bound, parameters, whole, size, negatives):
    """Return the mean of value and gradients over all minibatches of a size."""
    minibatches = []
    for rows in map(list, itertools.combinations(range(N), size)):
        points, labels = Points(*(values[rows] for values in whole.points)), whole.likelihood.positives[rows]
        positives = labels.toarray()
        choices = (
            [AllPairs(labels)] if negatives is None else [pairs_of(positives, s) for s in samples(positives, negatives)]
        )
        batches = [Batch(points, pairs, N / size) for pairs in choices]
        # Minibatches have different numbers of samples, so each minibatch is averaged first.
        minibatches.append(mean([dense_gradients(*bound.value_and_gradients(parameters, batch)) for batch in batches]))
    return mean(minibatches)


def mean(estimates):
    values, gradients = zip(*estimates, strict=True)
    return np.mean(values), {name: np.mean([each[name] for each in gradients], axis=0) for name in gradients[0]}


@each_value(posterior=list(POSTERIORS), chosen=[(2, None), (3, None), (4, 2), (2, 1), (1, 3)])
def test_mean_over_all_minibatches_and_samples_is_the_bound(posterior, chosen):
    size, negatives = chosen
    random = np.random.default_rng(9)
    kernel, parameters = random_parameters(
        random, ("se", "linear"), True, posterior, random.normal(size=(M, D)), factors=P, labels=K
    )
    labels = random_labels(random, N, K, density=0.4)
    # A point without negatives, one with fewer than are sampled, and one without positives.
    positives = labels.toarray()
    positives[0], positives[1], positives[2] = True, [True, True, True, True, False], False
    whole = Batch(Points(random.normal(size=(N, D)), random.random(N)), AllPairs(type(labels)(positives)), scale=1.0)
    bound = Bound(Inducing(kernel, POSTERIORS[posterior]))
    value, gradients = bound.value_and_gradients(parameters, whole)
    mean_value, mean_gradients = mean_over_minibatches(bound, parameters, whole, size, negatives)
    assert mean_value == pytest.approx(value, rel=1e-11)
    assert mean_gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        atol = 1e-11 * np.abs(gradient).max()
        np.testing.assert_allclose(mean_gradients[name], gradient, rtol=1e-10, atol=atol, err_msg=name)
