"""svi-AdaDelta: unbiased estimates of the bound, and minibatches that cover all points."""

import numpy as np
import pytest

from tests.gp.reference import gaussian_kl, inducing_posterior, log_likelihood
from tests.gpc.dense_gpc import THETA, moments, random_problem
from xmlgp.gpc.inference import SVIAdaDelta
from xmlgp.gpc.settings import GPCSettings

N = 30
#: A learning rate that leaves parameters almost unchanged.
STILL = 1e-12


def problem_of(seed=0):
    return random_problem(seed, N=N, M=6)


def started(problem, **chosen):
    settings = GPCSettings(**{"inference": "svi-adadelta", "nodes": 40, "batch_size": 10} | chosen)
    return SVIAdaDelta(problem.inputs(), problem.positive, problem.inducing, settings)


def run(running, passes, first=0):
    return [
        [running.step(first + iteration, done) for done in range(running.steps_per_epoch)]
        for iteration in range(passes)
    ]


def bound_of(problem, parameters):
    """Return the bound of SPEC section 1 on all points by dense formulas."""
    problem = problem.with_theta([parameters[name] for name in THETA])
    mean, covariance = inducing_posterior("gpc", parameters, None, 0)
    m, s = moments(problem, mean, covariance)
    exact = log_likelihood(m[:, None], s[:, None], np.ones((1, 1)), np.zeros(1), problem.positive[:, None])
    return exact - gaussian_kl(mean, covariance, problem.covariances[1])


def leave_prior(running):
    """Train until q(u) differs from the prior, then stop changes; return the parameters."""
    run(running, 40)
    running._rate = STILL
    return running.parameters(40)


def test_mean_estimate_of_equal_minibatches_is_the_bound():
    problem = problem_of()
    running = started(problem)
    parameters = leave_prior(running)
    (estimates,) = run(running, 1, 40)
    assert len(estimates) == 3
    assert np.ptp(estimates) > 0.1
    assert np.mean(estimates) == pytest.approx(bound_of(problem, parameters), rel=1e-7)


def test_steps_increase_the_bound_and_change_all_parameters_except_inducing_inputs():
    problem = problem_of()
    running = started(problem)
    start = running.parameters(0)
    before = bound_of(problem, start)
    run(running, 150)
    end = running.parameters(150)
    # The bound can rise by less than log 2 per point.
    assert bound_of(problem, end) > before + 2
    assert bound_of(problem, end) > N * np.log(0.5)
    assert list(end) == ["inducing", *THETA, "posterior.mean", "posterior.factor"]
    np.testing.assert_array_equal(end.pop("inducing"), problem.inducing)
    for name, value in end.items():
        assert np.abs(value - start[name]).max() > 0.01, name
    assert not running.converged
