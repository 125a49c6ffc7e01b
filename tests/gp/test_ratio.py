"""The ratio of an earlier posterior to the prior: divergences from dense formulas, and gradients by differences."""

import numpy as np
import pytest

from tests.central_differences import central_differences
from tests.gp.reference import FACTORS, inducing_posterior
from tests.gp.test_posteriors import problem, run
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.gp.posteriors.ratio import expected_log_ratio

EVERY_POSTERIOR = pytest.mark.parametrize("name", POSTERIORS)
BATCH, M, P = 3, 5, 2


def pair(name):
    """Return the parameters of q and q₀, K_Z, and a function that returns the KL divergence from p and the tape."""
    parameters, K_Z, K_BZ, K_B = problem(name, BATCH, M, P, seed=1)
    earlier = problem(name, BATCH, M, P, seed=2)[0]
    for part in FACTORS.intersection(parameters):
        parameters[part], earlier[part] = np.tril(parameters[part]), np.tril(earlier[part])
    covariances = Covariances(K_BZ, K_Z, np.diagonal(K_B).copy())

    def forward(values):
        _, kl, tape = run(name, values, covariances)
        return kl, tape

    return parameters, earlier, K_Z, forward


def divergence(mean, covariance, other_mean, other_covariance):
    distance, inverse = other_mean - mean, np.linalg.inv(other_covariance)
    logdets = np.linalg.slogdet(other_covariance)[1] - np.linalg.slogdet(covariance)[1]
    return 0.5 * (np.trace(inverse @ covariance) + distance @ inverse @ distance - len(mean) + logdets)


@EVERY_POSTERIOR
def test_the_expectation_turns_the_divergence_from_the_prior_into_that_from_the_earlier_posterior(name):
    parameters, earlier, K_Z, forward = pair(name)
    kl, tape = forward(parameters)
    ratio = expected_log_ratio(POSTERIORS[name], earlier, K_Z)
    both = [[inducing_posterior(name, values, K_Z, p) for p in range(P)] for values in (parameters, earlier)]
    expected = sum(divergence(*q, *q_0) for q, q_0 in zip(*both, strict=True))
    assert kl - ratio(tape)[0] == pytest.approx(expected, rel=1e-5)
    kl, tape = forward(earlier)
    assert kl == pytest.approx(ratio(tape)[0], rel=1e-8)


@EVERY_POSTERIOR
def test_gradients_agree_with_central_differences(name):
    parameters, earlier, K_Z, forward = pair(name)
    ratio = expected_log_ratio(POSTERIORS[name], earlier, K_Z)
    _, gradients = ratio(forward(parameters)[1])
    assert gradients.keys() == set(POSTERIORS[name].parameter_names)
    numeric = central_differences(lambda values: ratio(forward(values)[1])[0], parameters)
    for key, gradient in gradients.items():
        np.testing.assert_allclose(gradient, numeric[key], rtol=1e-6, atol=1e-6)


@EVERY_POSTERIOR
def test_the_divergence_from_the_earlier_posterior_is_least_there(name):
    _, earlier, K_Z, forward = pair(name)
    ratio = expected_log_ratio(POSTERIORS[name], earlier, K_Z)
    rng = np.random.default_rng(0)
    for _ in range(5):
        values = {key: value + 0.05 * rng.normal(size=value.shape) for key, value in earlier.items()}
        for part in FACTORS.intersection(values):
            values[part] = np.tril(values[part])
        kl, tape = forward(values)
        assert kl - ratio(tape)[0] > 0
