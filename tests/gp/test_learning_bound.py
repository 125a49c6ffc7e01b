"""The bound of learning on: against that of training, gradients by differences, and the earlier posterior."""

import numpy as np
import pytest

from tests.central_differences import central_differences
from tests.gp.reference import FACTORS, gaussian_kl, inducing_posterior, scikit_covariances
from tests.gp.test_bound import KERNELS, P, dense_gradients, random_problem
from tests.grids import each_value
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import EXPECTATIONS, make_expectations
from xmlgp.gp.inducing import Inducing, LearnedInducing
from xmlgp.gp.posteriors import POSTERIORS


def problem(terms, ard, posterior, coordinates="dense", negatives="all", expectations="jj"):
    """Return the bound of learning on, that of training, parameters, those of the earlier posterior, and a batch."""
    kernel, parameters, batch = random_problem(terms, ard, posterior, coordinates, negatives)
    random, family = np.random.default_rng(7), POSTERIORS[posterior]
    earlier = dict(parameters)
    for name in family.parameter_names:
        noise = random.normal(0, 0.3, parameters[name].shape)
        earlier[name] = parameters[name] + (np.tril(noise) if name in FACTORS else noise)
    chosen = make_expectations(expectations, 40)
    latent = {name: value for name, value in earlier.items() if name.startswith(("inducing", "kernel.", "posterior."))}
    training = Inducing(kernel, family)
    bound = Bound(LearnedInducing(training.kernel, family, latent), chosen, {"bias"})
    return bound, Bound(training, chosen), parameters, earlier, batch


@each_value(
    terms=KERNELS,
    ard=[False, True],
    posterior=list(POSTERIORS),
    coordinates=["dense", "sparse"],
    negatives=["all", "sampled"],
    expectations=list(EXPECTATIONS),
)
def test_gradients_agree_with_central_differences(terms, ard, posterior, coordinates, negatives, expectations):
    bound, _, parameters, _, batch = problem(terms, ard, posterior, coordinates, negatives, expectations)
    _, gradients = dense_gradients(*bound.value_and_gradients(parameters, batch))
    # Nothing else moves.
    assert gradients.keys() == {*POSTERIORS[posterior].parameter_names, "loadings"}
    numeric = central_differences(lambda moved: bound.value_and_gradients(moved, batch)[0], parameters, gradients)
    for name, gradient in gradients.items():
        atol = 1e-6 * np.abs(numeric[name]).max()
        np.testing.assert_allclose(gradient, numeric[name], rtol=1e-6, atol=atol, err_msg=name)


def divergence(mean, covariance, other_mean, other_covariance):
    distance, inverse = other_mean - mean, np.linalg.inv(other_covariance)
    logdets = np.linalg.slogdet(other_covariance)[1] - np.linalg.slogdet(covariance)[1]
    return 0.5 * (np.trace(inverse @ covariance) + distance @ inverse @ distance - len(mean) + logdets)


@each_value(terms=KERNELS, posterior=list(POSTERIORS))
def test_value_is_that_of_training_with_the_divergence_from_the_earlier_posterior(terms, posterior):
    bound, training, parameters, earlier, batch = problem(terms, True, posterior)
    inducing = parameters["inducing"]
    K_Z = scikit_covariances(terms, parameters, inducing, inducing)[1]
    difference = 0
    for p in range(P):
        q, q_0 = (inducing_posterior(posterior, values, K_Z, p) for values in (parameters, earlier))
        difference += gaussian_kl(*q, K_Z) - divergence(*q, *q_0)
    expected = training.value_and_gradients(parameters, batch)[0] + difference
    # K_Z of the full posterior has jitter.
    assert bound.value_and_gradients(parameters, batch)[0] == pytest.approx(expected, rel=1e-4)
    assert bound.value_and_gradients(parameters, batch, value_needed=False)[0] is None


@each_value(posterior=list(POSTERIORS), negatives=["all", "sampled"])
def test_directions_of_steps_are_ascent_directions(posterior, negatives):
    bound, _, parameters, _, batch = problem(("linear",), False, posterior, "dense", negatives, "quadrature")
    value, gradients = dense_gradients(*bound.value_and_gradients(parameters, batch))
    _, directions = dense_gradients(*bound.value_and_gradients(parameters, batch, for_step=True))
    for name, gradient in gradients.items():
        assert np.vdot(gradient, directions[name]) > 0, name
    moved = parameters | {name: parameters[name] + 1e-4 * direction for name, direction in directions.items()}
    assert bound.value_and_gradients(moved, batch)[0] > value
