"""svi-AdaDelta: estimates of the bound that are right on average, over minibatches that make up all points."""

import numpy as np
import pytest

from tests.gp.reference import gaussian_kl, inducing_posterior, log_likelihood
from tests.gpc.dense_gpc import THETA, moments, random_problem
from xmlgp.gpc import svi as module
from xmlgp.gpc.settings import GPCSettings
from xmlgp.gpc.svi import SVIAdaDelta

N = 30
SEEDS = pytest.mark.parametrize("seed", range(3))
#: Hardly any step at all.
STILL = 1e-12


def problem_of(seed=0):
    return random_problem(seed, N=N, M=6)


def begun(problem, **chosen):
    settings = GPCSettings(**{"inference": "svi-adadelta", "nodes": 40, "batch_size": 10} | chosen)
    return SVIAdaDelta(problem.coordinates(), problem.positive, problem.inducing, settings)


def run(running, passes, first=0):
    return [
        [running.step(first + iteration, done) for done in range(running.steps_per_epoch)]
        for iteration in range(passes)
    ]


def bound_of(problem, parameters):
    """The bound of SPEC section 1, on all points, in dense formulas."""
    problem = problem.with_theta([parameters[name] for name in THETA])
    mean, covariance = inducing_posterior("cholesky", parameters, None, 0)
    m, s = moments(problem, mean, covariance)
    exact = log_likelihood(m[:, None], s[:, None], np.ones((1, 1)), np.zeros(1), problem.positive[:, None])
    return exact - gaussian_kl(mean, covariance, problem.covariances[1])


def somewhere(running):
    """Go away from the prior, and stay there."""
    run(running, 40)
    running._rate = STILL
    return running.parameters(40)


@SEEDS
def test_minibatches_of_one_size_make_up_the_bound(seed):
    problem = problem_of(seed)
    running = begun(problem)
    parameters = somewhere(running)
    (estimates,) = run(running, 1, 40)
    assert len(estimates) == 3
    assert np.ptp(estimates) > 0.1
    assert np.mean(estimates) == pytest.approx(bound_of(problem, parameters), rel=1e-7)


@SEEDS
@pytest.mark.parametrize("batch_size", [7, 1, 29])
def test_estimates_are_right_on_average(seed, batch_size):
    # Minibatches of 7 are of 6 as well, and those of 29 of 15.
    problem = problem_of(seed)
    running = begun(problem)
    parameters = somewhere(running)
    other = begun(problem, batch_size=batch_size, learning_rate=STILL)
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


def test_it_begins_at_the_prior():
    problem = problem_of()
    running = begun(problem, batch_size=N)
    parameters = running.parameters(0)
    mean, covariance = inducing_posterior("cholesky", parameters, None, 0)
    here = problem.with_theta([parameters[name] for name in THETA])
    np.testing.assert_array_equal(mean, 0)
    np.testing.assert_allclose(covariance, here.covariances[1], rtol=1e-9, atol=1e-12)
    # Nothing tells the points apart, and there is nothing to pay for.
    variance = np.full((N, 1), np.exp(here.theta[0]) + np.exp(here.theta[2]))
    expected = log_likelihood(np.zeros((N, 1)), variance, np.ones((1, 1)), np.zeros(1), problem.positive[:, None])
    assert running.step(0, 0) == pytest.approx(expected, rel=1e-6)


def test_each_pass_sees_every_point_once_in_an_order_that_the_seed_decides(monkeypatch):
    seen, make_batch = [], module.make_batch

    def watching(coordinates, labels, rows):
        seen.append(rows)
        return make_batch(coordinates, labels, rows)

    monkeypatch.setattr(module, "make_batch", watching)
    orders = {}
    for seed in (0, 1):
        running = begun(problem_of(), batch_size=7, seed=seed)
        assert running.steps_per_epoch == 5
        for iteration in range(3):
            seen.clear()
            run(running, 1, iteration)
            assert [len(rows) for rows in seen] == [6] * 5
            order = np.concatenate(seen)
            np.testing.assert_array_equal(np.sort(order), np.arange(N))
            orders[seed, iteration] = tuple(order)
    assert len(set(orders.values())) == 6
    # Whatever was before.
    seen.clear()
    run(begun(problem_of(), batch_size=7), 1, 2)
    assert tuple(np.concatenate(seen)) == orders[0, 2]


@SEEDS
def test_steps_raise_the_bound_and_move_all_but_the_inducing_inputs(seed):
    problem = problem_of(seed)
    running = begun(problem)
    start = running.parameters(0)
    before = bound_of(problem, start)
    run(running, 300)
    end = running.parameters(300)
    # To the log evidence there are less than log 2 a point.
    assert bound_of(problem, end) > before + 2
    assert bound_of(problem, end) > N * np.log(0.5)
    assert list(end) == ["inducing", *THETA, "posterior.mean", "posterior.factor"]
    np.testing.assert_array_equal(end.pop("inducing"), problem.inducing)
    for name, value in end.items():
        assert np.abs(value - start[name]).max() > 0.01, name
    assert not running.converged


@pytest.mark.parametrize("rate", [0.1, 1.0, 3.0])
def test_the_learning_rate_multiplies_the_first_step(rate):
    moved = []
    for chosen in ({"learning_rate": rate}, {}):
        running = begun(problem_of(), **chosen)
        start = running.parameters(0)
        running.step(0, 0)
        end = running.parameters(1)
        moved.append(np.concatenate([np.ravel(end[name] - start[name]) for name in end]))
    np.testing.assert_allclose(moved[0], rate * moved[1], rtol=1e-6, atol=1e-12)
