"""Posteriors against dense multivariate normals: conditionals with explicit inverses and the KL divergence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gp.reference import DETERMINISTIC, conditional, gaussian_kl, inducing_posterior
from tests.grids import each_value
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.posteriors import POSTERIORS

EVERY_POSTERIOR = pytest.mark.parametrize("name", POSTERIORS)
SHAPES = {
    "batch": st.integers(1, 6),
    "inducing": st.integers(1, 7),
    "factors": st.integers(1, 4),
    "seed": st.integers(0, 2**32 - 1),
}


def problem(name, batch, inducing, factors, seed):
    """Return random parameters and a random joint prior covariance of inducing inputs and points."""
    random = np.random.default_rng(seed)
    root = random.normal(size=(inducing + batch, inducing + batch + 3)) / np.sqrt(inducing + batch)
    joint = root @ root.T + 0.05 * np.eye(inducing + batch)
    parameters = POSTERIORS[name].initial(inducing, factors, 0.5, random, np.float64)
    parameters = {key: value + 0.5 * random.normal(size=value.shape) for key, value in parameters.items()}
    K_BZ, K_Z, K_B = joint[inducing:, :inducing], joint[:inducing, :inducing], joint[inducing:, inducing:]
    return parameters, K_Z.copy(), K_BZ.copy(), K_B


def forward(name, parameters, K_Z, K_BZ, K_B):
    covariances = Covariances(K_BZ, K_Z, np.diagonal(K_B).copy())
    moments, kl, _ = run(name, parameters, covariances)
    return moments, kl


def run(name, parameters, covariances):
    """Return the moments, the divergence and the tape."""
    return POSTERIORS[name].forward(POSTERIORS[name].prepare(parameters, covariances.K_Z), covariances)


@EVERY_POSTERIOR
def test_moments_and_divergence_agree_with_dense_formulas(name):
    # The full posterior adds jitter of 1e-8 to K_Z, which has a condition number of about a hundred.
    tolerance = 1e-5 if name == "cholesky" else 1e-9

    @DETERMINISTIC
    @given(**SHAPES)
    def check(batch, inducing, factors, seed):
        parameters, K_Z, K_BZ, K_B = problem(name, batch, inducing, factors, seed)
        moments, kl = forward(name, parameters, K_Z, K_BZ, K_B)
        assert moments.mean.shape == (batch, factors)
        assert moments.variance.shape == (batch, 1 if name == "shared-diagonal" else factors)
        variance = np.broadcast_to(moments.variance, (batch, factors))
        expected_kl = 0
        for p in range(factors):
            posterior = inducing_posterior(name, parameters, K_Z, p)
            mean, covariance = conditional(K_BZ, K_Z, K_B, *posterior)
            np.testing.assert_allclose(moments.mean[:, p], mean, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(variance[:, p], np.diagonal(covariance), rtol=tolerance, atol=tolerance)
            expected_kl += gaussian_kl(*posterior, K_Z)
        assert kl == pytest.approx(expected_kl, rel=tolerance, abs=tolerance)

    check()


@DETERMINISTIC
@given(**SHAPES)
def test_parameters_of_diagonal_give_the_same_posterior(batch, inducing, factors, seed):
    parameters, *covariances = problem("shared-diagonal", batch, inducing, factors, seed)
    expected, expected_kl = forward("shared-diagonal", parameters, *covariances)
    full = POSTERIORS["cholesky"].parameters_of_diagonal(parameters, covariances[0])
    moments, kl = forward("cholesky", full, *covariances)
    np.testing.assert_allclose(moments.mean, expected.mean, rtol=1e-5, atol=1e-5)
    variance = np.broadcast_to(expected.variance, (batch, factors))
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-5, atol=1e-5)
    assert kl == pytest.approx(expected_kl, rel=1e-5, abs=1e-5)


@each_value(name=list(POSTERIORS), dtype=[np.float32, np.float64])
def test_initial_parameters_are_reproducible_and_have_the_given_diagonal(name, dtype):
    start, repeated = (POSTERIORS[name].initial(6, 3, 0.25, np.random.default_rng(0), dtype) for _ in range(2))
    assert {value.dtype for value in start.values()} == {np.dtype(dtype)}
    for key, value in start.items():
        np.testing.assert_array_equal(value, repeated[key])
    mean = start[POSTERIORS[name].parameter_names[0]]
    assert mean.shape == (6, 3)
    assert mean.any(axis=0).all()
    if name == "cholesky":
        _, covariance = inducing_posterior(name, start, np.eye(6), 2)
        np.testing.assert_allclose(covariance, 0.25 * np.eye(6), rtol=1e-6)
    else:
        np.testing.assert_allclose(np.exp(start["posterior.log_diagonal"]), 0.25, rtol=1e-6)


@each_value(name=list(POSTERIORS), dtype=[np.float32, np.float64])
def test_moments_without_covariances_are_those_of_the_prior(name, dtype):
    # As for a linear kernel and inducing inputs without features.
    parameters, K_Z, K_BZ, K_B = problem(name, 5, 4, 3, 0)
    parameters = {key: value.astype(dtype) for key, value in parameters.items()}
    covariances = Covariances(*(0 * values.astype(dtype) for values in (K_BZ, K_Z)), np.diagonal(K_B).astype(dtype))
    with np.errstate(all="raise", under="ignore"):
        moments, kl, tape = run(name, parameters, covariances)
        d_covariances, gradients = POSTERIORS[name].backward(tape, Moments(*(-np.ones_like(m) for m in moments)))
    np.testing.assert_array_equal(moments.mean, 0)
    np.testing.assert_allclose(moments.variance, np.broadcast_to(covariances.K_diag[:, None], moments.variance.shape))
    assert np.isfinite(kl)
    assert all(np.isfinite(values).all() for values in (*d_covariances, *gradients.values()))
