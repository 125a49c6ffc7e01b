"""Gibbs sampling by Geweke's test: with labels drawn anew before each sweep, parameters keep their prior."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.bmlpl.problems import problem, start_inference
from tests.models.bmlpl.reference import log_posterior
from xmlgp.models.bmlpl import gibbs as module
from xmlgp.models.bmlpl.counts import Positives
from xmlgp.models.bmlpl.gibbs import is_kept
from xmlgp.models.bmlpl.parameters import update_precisions

N = 4
D = 2
K = 3
T = 2
FEATURES = np.array([[1.0, 0.0], [-0.5, 1.0], [0.0, 0.0], [0.7, -1.2]])
CONCENTRATION = 0.8
PRECISIONS = np.array([1.5, 3.0, 2.0])
DESIGN = np.hstack([FEATURES, np.ones((N, 1))])


def prior(random, count):
    """Return draws from the prior of V, W, r and U, count×…, and of labels given them."""
    topics = random.dirichlet(np.full(K, CONCENTRATION), (count, T)).transpose(0, 2, 1)
    weights = random.normal(size=(count, D + 1, T)) / np.sqrt(PRECISIONS)[:, None]
    shapes = random.standard_gamma(1.0, (count, T))
    activations = np.maximum(random.gamma(shapes[:, None], np.exp(DESIGN @ weights)), 1e-30)
    return topics, weights, shapes, activations, labels_given(random, topics, activations)


def labels_given(random, topics, activations):
    return random.random((*activations.shape[:-1], K)) < -np.expm1(-activations @ np.swapaxes(topics, -1, -2))


def statistics(topics, weights, shapes, activations, labels):
    """Return the statistics that are compared, …×statistics; terms that are equal by symmetry are added up."""
    log_u = np.log(activations)
    psi = DESIGN @ weights
    rates = activations @ np.swapaxes(topics, -1, -2)
    columns = [
        *np.moveaxis(weights.sum(axis=-1), -1, 0),
        *np.moveaxis((weights**2).sum(axis=-1), -1, 0),
        np.log(shapes).sum(axis=-1),
        shapes.sum(axis=-1),
        (shapes**2).sum(axis=-1),
        (topics**2).sum(axis=(-1, -2)),
        np.sqrt(topics).sum(axis=(-1, -2)),
        *np.moveaxis(np.maximum(log_u, -10).sum(axis=-1), -1, 0),
        np.sqrt(activations).sum(axis=(-1, -2)),
        np.exp(-activations).sum(axis=(-1, -2)),
        (np.exp(-activations) * psi).sum(axis=(-1, -2)),
        (np.exp(-activations) * shapes[..., None, :]).sum(axis=(-1, -2)),
        (weights[..., 0, :] * shapes).sum(axis=-1),
        labels.sum(axis=(-1, -2)),
        (labels * np.exp(-rates)).sum(axis=(-1, -2)),
        (labels[..., :1] * weights[..., None, 0, :]).sum(axis=(-1, -2)),
        (labels * topics[..., :, 0][..., None, :]).sum(axis=(-1, -2)),
    ]
    return np.stack(columns, axis=-1)


def z_scores(chains, sweeps, seed=0):
    """Return the distances of the means over chains from those of the prior, in standard errors.

    Chains are independent and start with draws from the prior, so the expected mean of each chain is that of the prior.
    """
    random = np.random.default_rng(seed)
    gibbs = start_inference(
        FEATURES, np.ones((N, K), bool), inference="gibbs", topics=T, concentration=CONCENTRATION, seed=seed
    )
    gibbs.precisions[:] = PRECISIONS
    means = []
    for state in zip(*prior(random, chains), strict=True):
        arrays = gibbs.topics, gibbs.weights, gibbs.shapes, gibbs.activations
        for array, value in zip(arrays, state[:4], strict=True):
            array[:] = value
        labels = state[4]
        total = 0
        for sweep in range(sweeps):
            gibbs._positives = Positives(sp.csr_array(labels))
            gibbs.step(sweep, 0)
            labels = labels_given(random, gibbs.topics, gibbs.activations)
            total = total + statistics(*arrays, labels)
        means.append(total / sweeps)
    expected = statistics(*prior(random, 20_000))
    error = np.std(means, axis=0, ddof=1) / np.sqrt(chains)
    return np.abs(np.mean(means, axis=0) - expected.mean(axis=0)) / np.hypot(error, expected.std(axis=0) / 20_000**0.5)


@pytest.mark.parametrize(
    ("dense", "chains", "sweeps"),
    [pytest.param(module.DENSE_SIZE, 30, 15, id="exact"), pytest.param(0, 30, 10, id="gradients")],
)
def test_sweeps_keep_the_joint_distribution(monkeypatch, dense, chains, sweeps):
    monkeypatch.setattr(module, "DENSE_SIZE", dense)
    assert (z_scores(chains, sweeps) < 4).all()


def sample(sweeps, features=None, labels=None, **chosen):
    """Return the sampler after some sweeps of a small problem, and its sample after each sweep."""
    if features is None:
        features, labels = problem()
    gibbs = start_inference(features, labels, **{"inference": "gibbs", "topics": 3, "iterations": sweeps} | chosen)
    drawn = []
    for sweep in range(sweeps):
        assert np.isfinite(gibbs.step(sweep, 0))
        drawn.append({name: array.copy() for name, array in gibbs._sample().items()})
    return gibbs, drawn


@pytest.mark.parametrize(("burn_in", "thinning", "samples"), [(None, 5, [6, 11]), (2, 1, range(2, 12))])
def test_parameters_are_means_of_the_kept_samples(burn_in, thinning, samples):
    gibbs, drawn = sample(12, burn_in=burn_in, thinning=thinning)
    parameters = gibbs.parameters(12)
    assert [sweep for sweep in range(12) if is_kept(gibbs._settings, sweep)] == list(samples)
    means = {name: np.mean([drawn[i][name] for i in samples], axis=0) for name in drawn[0]}
    np.testing.assert_allclose(parameters["topics"], means["topics"], rtol=1e-12)
    np.testing.assert_allclose(parameters["weights"], means["weights"][:-1], rtol=1e-12)
    np.testing.assert_allclose(parameters["intercepts"], means["weights"][-1], rtol=1e-12)
    np.testing.assert_allclose(parameters["shapes"], means["shapes"], rtol=1e-12)
    np.testing.assert_allclose(parameters["precisions"], means["precisions"][:-1], rtol=1e-12)


def test_the_objective_is_the_log_posterior():
    features, labels = problem()
    gibbs = start_inference(features, labels, inference="gibbs", topics=3, concentration=0.5)
    design = np.hstack([features, np.ones((len(features), 1))])
    differences = []
    for sweep in range(5):
        value = gibbs.step(sweep, 0)
        expected = log_posterior(
            labels, design, gibbs.topics, gibbs.weights, gibbs.activations, gibbs.shapes, gibbs.precisions, 0.5
        )
        differences.append(expected - gibbs.shapes.sum() - value)
    np.testing.assert_allclose(differences, differences[0], atol=1e-5)


def test_precisions_are_updated_only_with_learn_precision():
    gibbs, drawn = sample(6, learn_precision=True)
    # The update uses the weights of the previous sweep.
    expected = update_precisions(drawn[4]["weights"][:-1] ** 2, np.float64)
    np.testing.assert_allclose(gibbs.precisions[:-1], expected)
    gibbs, _ = sample(3)
    assert np.ptp(gibbs.precisions[:-1]) == 0
