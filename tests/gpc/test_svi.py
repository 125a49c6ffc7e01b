"""svi-AdaDelta: unbiased estimates of the bound, and minibatches that cover all points."""

import numpy as np
import pytest

from tests.gp.reference import gaussian_kl, inducing_posterior, log_likelihood
from tests.gpc.dense_gpc import THETA, moments, random_problem
from xmlgp.gpc import svi as module
from xmlgp.gpc.settings import GPCSettings
from xmlgp.gpc.svi import SVIAdaDelta

N = 30
#: A learning rate that leaves parameters almost unchanged.
STILL = 1e-12


def problem_of(seed=0):
    return random_problem(seed, N=N, M=6)


def started(problem, **chosen):
    settings = GPCSettings(**{"inference": "svi-adadelta", "nodes": 40, "batch_size": 10} | chosen)
    return SVIAdaDelta(problem.coordinates(), problem.positive, problem.inducing, settings)


def run(running, passes, first=0):
    return [
        [running.step(first + iteration, done) for done in range(running.steps_per_epoch)]
        for iteration in range(passes)
    ]


def bound_of(problem, parameters):
    """Return the bound of SPEC section 1 on all points by dense formulas."""
    problem = problem.with_theta([parameters[name] for name in THETA])
    mean, covariance = inducing_posterior("unwhitened", parameters, None, 0)
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


@pytest.mark.parametrize(("seed", "batch_size"), [(0, 7)])
def test_estimates_are_unbiased(seed, batch_size):
    # Minibatches have equal sizes: 6 with a batch size of 7, and 15 with 29.
    problem = problem_of(seed)
    running = started(problem)
    parameters = leave_prior(running)
    other = started(problem, batch_size=batch_size, learning_rate=STILL)
    for name, value in running.arrays().items():
        if name.startswith("parameters."):
            other.arrays()[name][...] = value
    passes = 10 if batch_size == 1 else 50
    estimates = np.array(run(other, passes))
    means = estimates.mean(axis=1)
    error = means.std() / np.sqrt(passes) + 1e-6
    exact = bound_of(problem, parameters)
    assert abs(means.mean() - exact) < 4 * error
    assert error < 0.03 * abs(exact)


def test_initial_posterior_is_the_prior():
    problem = problem_of()
    running = started(problem, batch_size=N)
    parameters = running.parameters(0)
    mean, covariance = inducing_posterior("unwhitened", parameters, None, 0)
    here = problem.with_theta([parameters[name] for name in THETA])
    np.testing.assert_array_equal(mean, 0)
    np.testing.assert_allclose(covariance, here.covariances[1], rtol=1e-9, atol=1e-12)
    # f has the same distribution at all points, and the KL divergence is zero.
    variance = np.full((N, 1), np.exp(here.theta[0]) + np.exp(here.theta[2]))
    expected = log_likelihood(np.zeros((N, 1)), variance, np.ones((1, 1)), np.zeros(1), problem.positive[:, None])
    assert running.step(0, 0) == pytest.approx(expected, rel=1e-6)


def test_each_pass_sees_every_point_once_in_an_order_that_depends_on_the_seed(monkeypatch):
    seen, make_batch = [], module.make_batch

    def watching(coordinates, labels, rows):
        seen.append(rows)
        return make_batch(coordinates, labels, rows)

    monkeypatch.setattr(module, "make_batch", watching)
    orders = {}
    for seed in (0, 1):
        running = started(problem_of(), batch_size=7, seed=seed)
        assert running.steps_per_epoch == 5
        for iteration in range(3):
            seen.clear()
            run(running, 1, iteration)
            assert [len(rows) for rows in seen] == [6] * 5
            order = np.concatenate(seen)
            np.testing.assert_array_equal(np.sort(order), np.arange(N))
            orders[seed, iteration] = tuple(order)
    assert len(set(orders.values())) == 6
    # The order does not depend on earlier passes.
    seen.clear()
    run(started(problem_of(), batch_size=7), 1, 2)
    assert tuple(np.concatenate(seen)) == orders[0, 2]


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


@pytest.mark.parametrize("rate", [3.0])
def test_learning_rate_multiplies_the_first_step(rate):
    moved = []
    for chosen in ({"learning_rate": rate}, {}):
        running = started(problem_of(), **chosen)
        start = running.parameters(0)
        running.step(0, 0)
        end = running.parameters(1)
        moved.append(np.concatenate([np.ravel(end[name] - start[name]) for name in end]))
    np.testing.assert_allclose(moved[0], rate * moved[1], rtol=1e-6, atol=1e-12)
