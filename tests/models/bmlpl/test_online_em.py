"""Online EM against batch EM and dense formulas."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from tests.models.bmlpl.problems import clustered, problem, start_inference, unrelated
from tests.models.bmlpl.reference import log_posterior
from xmlgp.models.bmlpl import online_em as module
from xmlgp.models.bmlpl.activations import expected_activations
from xmlgp.models.bmlpl.inference import ROUNDS
from xmlgp.models.bmlpl.parameters import SHAPE_RATE


def trained(features, labels, passes, **chosen):
    inference = start_inference(features, labels, iterations=passes, **chosen)
    for iteration in range(passes):
        values = [inference.step(iteration, done) for done in range(inference.steps_per_epoch)]
    return inference.parameters(passes), np.mean(values)


def predicted_rates(parameters, features):
    scales = np.exp(features @ parameters["weights"] + parameters["intercepts"])
    return (parameters["shapes"] * np.log1p(scales[:, None] * parameters["topics"])).sum(axis=2)


def test_online_em_reaches_the_optimum_of_batch_em():
    features, labels = clustered()
    batch, value = trained(features, labels, 200, inference="em-cg", topics=4)
    online, estimate = trained(features, labels, 200, inference="online-em", topics=4, batch_size=40)
    assert estimate == pytest.approx(value, rel=0.03)
    new, truth = clustered(seed=1)
    scores = [predicted_rates(parameters, new) for parameters in (batch, online)]
    areas = [roc_auc_score(truth.ravel(), score.ravel()) for score in scores]
    assert areas[0] > 0.85
    assert areas[1] == pytest.approx(areas[0], abs=0.01)
    assert np.corrcoef(*(np.log(score).ravel() for score in scores))[0, 1] > 0.9


def dense_gradient(inference, features, labels, topics):
    """Return the gradient of the log posterior w.r.t. W, label counts, m and U, after the inner updates of m and U."""
    design = np.hstack([features, np.ones((len(features), 1))])
    psi = design @ inference.weights
    r = inference.shapes
    u = r * np.exp(psi)
    for _ in range(ROUNDS):
        parts = u[:, None] * topics
        rates = parts.sum(axis=2, keepdims=True)
        counts = np.where(labels[:, :, None], parts / -np.expm1(-rates), 0)
        m = counts.sum(axis=1)
        u = (m + r) * expit(psi)
    gradient = design.T @ (m - (m + r) * expit(psi))
    return gradient - inference.precisions[:, None] * inference.weights, counts.sum(axis=0), m, u


def test_a_step_follows_the_gradient_and_updates_the_statistics():
    features, labels = problem()
    inference = start_inference(
        features, labels, inference="online-em", topics=3, batch_size=len(labels), concentration=0.5
    )
    for iteration in range(2):
        inference.step(iteration, 0)
    topics = inference.parameters(2)["topics"]
    shapes = inference.shapes.copy()
    weights = inference.weights.copy()
    label_counts = inference._label_counts.copy()
    sums = inference._sums.copy()
    gradient, counts, m, u = dense_gradient(inference, features, labels, topics)
    seen = []
    adam = inference._adam.step

    def step(values, gradients, rate):
        seen.append(gradients["weights"].copy())
        adam(values, gradients, rate)

    inference._adam.step = step
    value = inference.step(2, 0)
    np.testing.assert_allclose(seen[0], gradient, rtol=1e-5, atol=1e-5)
    assert (inference.weights != weights).any()
    share = (module.DELAY + 2) ** -module.DECAY
    np.testing.assert_allclose(inference._label_counts, (1 - share) * label_counts + share * counts, rtol=1e-6)
    design = np.hstack([features, np.ones((len(features), 1))])
    activated = expected_activations(m, design @ weights, shapes, np.empty_like(m))
    taken = np.array(activated[:2])
    np.testing.assert_allclose(inference._sums, (1 - share) * sums + share * taken, rtol=1e-5)
    softplus, digammas = inference._sums
    ratio = digammas / (SHAPE_RATE + softplus)
    np.testing.assert_allclose(inference.shapes, shapes * np.sqrt(ratio), rtol=1e-10)
    # The objective is that of the parameters and activations before the step.
    expected = log_posterior(labels, design, topics, weights, u, shapes, inference.precisions, 0.5)
    expected -= shapes.sum()
    other = start_inference(
        features, labels, inference="online-em", topics=3, batch_size=len(labels), concentration=0.5
    )
    topics = other.parameters(0)["topics"]
    _, _, _, u = dense_gradient(other, features, labels, topics)
    first = log_posterior(labels, design, topics, other.weights, u, other.shapes, other.precisions, 0.5)
    first -= other.shapes.sum()
    assert value - other.step(0, 0) == pytest.approx(expected - first, rel=1e-6)


def test_minibatch_estimates_are_unbiased():
    """The mean objective, gradient and counts of the minibatches of a pass equal those of all points."""
    features, labels = unrelated(12)
    results = []
    for batch_size in (12, 4):
        inference = start_inference(features, labels, inference="online-em", topics=3, batch_size=batch_size)
        inference.weights[:] = np.random.default_rng(1).normal(size=inference.weights.shape)
        start = {name: array.copy() for name, array in inference.arrays().items()}
        gradients = []
        values = []
        counts = []
        inference._adam.step = lambda _, by_name, rate, to=gradients: to.append(by_name["weights"])
        for done in range(12 // batch_size):
            for name, array in inference.arrays().items():
                array[...] = start[name]
            values.append(inference.step(0, done))
            share = (module.DELAY + done) ** -module.DECAY
            counts.append((inference._label_counts - (1 - share) * start["counts.labels"]) / share)
        results.append([np.mean(each, axis=0) for each in (values, gradients, counts)])
    # The prior is counted once, for any number of minibatches.
    for expected, result in zip(*results, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9)


def test_shapes_do_not_oscillate_with_growing_amplitude():
    """With a tiny concentration, undamped updates made the shapes overflow."""
    features, labels = unrelated(seed=0)
    chosen = {"batch_size": 5, "concentration": 1e-12, "iterations": 60}
    inference = start_inference(features, labels, inference="online-em", **chosen)
    for iteration in range(60):
        for done in range(inference.steps_per_epoch):
            assert np.isfinite(inference.step(iteration, done))
            assert inference.shapes.max() < 30
