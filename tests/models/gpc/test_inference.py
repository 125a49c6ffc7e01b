"""The inference methods of GPC: convergence, limits, the safeguards of vi-taylor, and estimates of svi-adadelta."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from tests.gp.reference import gaussian_kl, inducing_posterior, log_likelihood
from tests.grids import each_value
from tests.models.gpc.dense_gpc import THETA, Problem, moments, random_problem
from tests.training.interrupting import assert_same_result, train_with_interruptions
from xmlgp.models.gpc import inference as module
from xmlgp.models.gpc.collapsed import CollapsedBound, optimal_tangent_points, tangent_point_gradient
from xmlgp.models.gpc.settings import INFERENCES, GPCSettings
from xmlgp.models.gpc.train import run_inference
from xmlgp.runtime.errors import NumericalError

ALL = [name for name in INFERENCES if name != "svi-adadelta"]
BOUNDS = [name for name in ALL if name != "vi-taylor"]
any_bound = pytest.mark.parametrize("inference", BOUNDS)


def settings(inference, **chosen):
    return GPCSettings(**{"inference": inference, "nodes": 40} | chosen)


def started(problem, inference, **chosen):
    """Return an inference method before its first iteration."""
    return INFERENCES[inference].load()(
        problem.inputs(), problem.positive, problem.inducing, settings(inference, **chosen)
    )


def prepared(problem, inference, **chosen):
    """Return the arguments of `run_inference`."""
    labels = sp.csr_array(problem.positive[:, None])
    return problem.inputs(), labels, problem.inducing, settings(inference, **chosen)


def trained(problem, inference, **chosen):
    return run_inference(*prepared(problem, inference, **chosen))


def state_of(problem, running):
    """Return the problem at the current θ, and a copy of the tangent points."""
    arrays = running.arrays()
    return problem.with_theta(arrays["hyperparameters"]), arrays["tangent_points"].copy()


def separable(N=60, width=8.0, seed=0):
    """Return two classes far apart in one of two features."""
    random = np.random.default_rng(seed)
    positive = np.arange(N) % 2 == 0
    points = random.normal(size=(N, 2))
    points[:, 0] += np.where(positive, width, -width)
    return Problem(points, positive, points[:8].copy(), np.zeros(3))


def by_quadrature(problem, parameters):
    """Return the bound of SPEC section 1 by dense formulas."""
    problem = problem.with_theta([parameters[name] for name in THETA])
    mean, covariance = inducing_posterior("cholesky", parameters, problem.covariances[1], 0)
    m, s = moments(problem, mean, covariance)
    exact = log_likelihood(m[:, None], s[:, None], np.ones((1, 1)), np.zeros(1), problem.positive[:, None])
    return exact - gaussian_kl(mean, covariance, problem.covariances[1])


@any_bound
def test_no_iteration_lowers_the_bound(inference):
    problem = random_problem(N=40, M=8)
    running = started(problem, inference)
    values = []
    for iteration in range(12):
        here, tangent_points = state_of(problem, running)
        values.append(here.optimum(tangent_points).value)
        running.step(iteration, 0)
    assert min(np.diff(values)) > -1e-9 * abs(values[0])
    assert values[-1] > values[0] + 0.5


@pytest.mark.parametrize("inference", ALL)
def test_parameters_are_the_optimal_q_and_steps_return_its_bound_by_quadrature(inference):
    problem = random_problem(N=20)
    running = started(problem, inference)
    returned = [running.step(iteration, 0) for iteration in range(3)]
    parameters = running.parameters(3)
    assert list(parameters) == ["inducing", *THETA, "posterior.whitened_mean", "posterior.whitened_factor"]
    np.testing.assert_array_equal(parameters["inducing"], problem.inducing)
    assert returned[-1] == pytest.approx(by_quadrature(problem, parameters), rel=1e-8)
    if inference != "vi-taylor":
        here, tangent_points = state_of(problem, running)
        np.testing.assert_array_equal([parameters[name] for name in THETA], here.theta)
        mean, covariance = inducing_posterior("cholesky", parameters, here.covariances[1], 0)
        best_mean, best_covariance = here.optimal_posterior(tangent_points)
        np.testing.assert_allclose(mean, best_mean, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(covariance, best_covariance, rtol=1e-5, atol=1e-7)


def test_all_methods_converge_to_the_same_stationary_point_of_the_bound(monkeypatch):
    monkeypatch.setattr(module, "TOLERANCE", 1e-9)
    problem = random_problem(N=60, M=8)
    ends = {}
    for inference in BOUNDS:
        running = started(problem, inference)
        for iteration in range(400):
            running.step(iteration, 0)
            if running.converged:
                break
        assert running.converged
        here, tangent_points = state_of(problem, running)
        optimum = here.optimum(tangent_points)
        gradients = optimum.gradients()
        along = tangent_point_gradient(
            tangent_points, optimum.moments, *here.collapsed().slope_and_curvature(tangent_points)
        )
        # At the lower limit of the noise its gradient need not be zero.
        at_limit = here.theta[2] <= np.log(module.MIN_NOISE_VARIANCE)
        free = [gradients[name] for name in THETA if name != THETA[2] or not at_limit]
        assert np.abs([*free, *along]).max() < 0.02, inference
        ends[inference] = optimum.value
    assert np.ptp(list(ends.values())) < 0.05


def test_noise_variance_has_a_lower_limit():
    random = np.random.default_rng(0)
    points = np.sort(random.normal(size=(80, 1)), axis=0)
    problem = Problem(points, points[:, 0] > 0, points[::8].copy(), np.zeros(3))
    parameters, _ = trained(problem, "vi-jj")
    assert parameters[THETA[2]] >= np.log(module.MIN_NOISE_VARIANCE) * (1 + 1e-12)


@pytest.mark.parametrize(("inference", "seed"), [("vi-jj-full", 2), ("vi-taylor", 26)])
def test_bound_of_linearly_separable_classes_is_not_dominated_by_rounding(monkeypatch, inference, seed):
    # Without limits, variance and lengthscale would grow until rounding errors dominate the bound.
    seen = []
    original = CollapsedBound.optimum

    def watching(self, *arguments):
        optimum = original(self, *arguments)
        seen.append(optimum.value)
        return optimum

    monkeypatch.setattr(CollapsedBound, "optimum", watching)
    problem = random_problem(seed, N=200, M=20)
    parameters, history = trained(problem, inference)
    # Log likelihoods are at most zero, and the bound is higher than that of a fair coin.
    assert max(seen) < 0
    assert history[-1]["bound"] > 200 * np.log(0.5)
    assert parameters[THETA[0]] <= np.log(module.MAX_VARIANCE) + 1e-12
    assert history[-1]["bound"] == pytest.approx(by_quadrature(problem, parameters), rel=1e-5)


@pytest.mark.parametrize("inference", ["vi-jj-hybrid", "vi-taylor"])
def test_lengthscale_has_an_upper_limit(monkeypatch, inference):
    # If labels do not depend on features, the longest lengthscale is the best.
    problem = random_problem(3, N=200, M=20)
    problem = problem._replace(positive=np.random.default_rng(0).random(200) < 0.02)
    monkeypatch.setattr(module, "MAX_LENGTHSCALE", 3.0)
    most = started(problem, inference)._theta[1] + np.log(3)
    parameters, _ = trained(problem, inference)
    assert parameters[THETA[1]] == pytest.approx(most, abs=1e-9)


def test_tangent_points_do_not_stay_at_zero():
    # At zero the gradient is zero, even if other tangent points have a higher bound.
    problem = random_problem(N=200, M=20)
    running = started(problem, "vi-jj-full")
    while not running.converged:
        running.step(0, 0)
    here, tangent_points = state_of(problem, running)
    assert tangent_points.all()
    optimum = here.optimum(tangent_points)
    updated = here.optimum(optimal_tangent_points(optimum.moments))
    assert updated.value - optimum.value < module.TOLERANCE * 200


DEGENERATE = {
    "one class": random_problem()._replace(positive=np.ones(13, bool)),
    "the other class": random_problem()._replace(positive=np.zeros(13, bool)),
    "one point": random_problem(N=1),
    "one inducing input": random_problem(M=1),
    "more inducing inputs than points": random_problem(N=4, M=12),
    "duplicate inducing inputs": random_problem()._replace(inducing=np.repeat(random_problem().inducing, 2, axis=0)),
    "equal inducing inputs": random_problem()._replace(inducing=np.ones((4, 3))),
    "constant features": random_problem()._replace(points=np.ones((13, 3)), inducing=np.ones((4, 3))),
    "classes far apart": separable(),
    "classes very far apart": separable(width=1e6),
    "duplicate points with opposite labels": Problem(
        np.repeat(random_problem().points, 2, axis=0), np.tile([True, False], 13), np.ones((2, 3)), np.zeros(3)
    ),
}


@each_value(name=list(DEGENERATE), inference=ALL)
def test_degenerate_problems(inference, name):
    problem = DEGENERATE[name]
    parameters, history = trained(problem, inference, inducing_count=len(problem.inducing), iterations=60)
    assert all(np.isfinite(value).all() for value in parameters.values())
    # A prior with almost no variance predicts ½ everywhere. Training reaches its bound, up to the tolerance of early
    # stopping.
    assert len(problem.points) * (np.log(0.5) - 0.01) < history[-1]["bound"] < 0


# vi-taylor, whose objective is not a bound.


def curved(N=800, M=30, seed=3):
    """Return classes on either side of a sine curve, without overlap."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(N, 2))
    return Problem(points, np.sin(2 * points[:, 0]) > points[:, 1], points[:M].copy(), np.zeros(3))


@pytest.mark.parametrize("far", [0.5, 3.0, -30.0])
def test_step_that_lowers_the_bound_too_much_is_halved_or_undone(monkeypatch, far):
    problem = random_problem(1, N=60, M=8)
    running = started(problem, "vi-taylor")
    for iteration in range(4):
        running.step(iteration, 0)
    start, _ = state_of(problem, running)

    def move(self, evaluations):
        self._theta += far
        self._optimum = None

    monkeypatch.setattr(module.TaylorExpansion, "_ascend", move)
    monkeypatch.setattr(module, "UPDATES", 0)
    _, tangent_points = state_of(problem, running)

    def bound(theta):
        here = problem.with_theta(theta)
        return by_quadrature(here, here.parameters | here.optimum(tangent_points, "taylor").posterior())

    running._iterate()
    moved = np.unique(np.round(state_of(problem, running)[0].theta - start.theta, 9))
    assert len(moved) == 1
    before = bound(start.theta)
    allowed = [
        share for share in [far / 2**k for k in range(5)] if bound(start.theta + share) >= before - 0.01 * abs(before)
    ]
    assert moved[0] == pytest.approx(allowed[0] if allowed else 0)
    assert moved[0] != far or abs(far) < 1


def test_parameters_of_the_highest_bound_are_kept(monkeypatch):
    # Each step after the first lowers the bound, but too little to be halved.
    problem = curved(N=100, M=10)
    shift = iter([0.0, *[0.05] * 20])

    def move(self, evaluations):
        self._theta[0] -= next(shift)
        self._optimum = None

    monkeypatch.setattr(module.TaylorExpansion, "_ascend", move)
    monkeypatch.setattr(module, "UPDATES", 0)
    running = started(problem, "vi-taylor")
    running._update()
    returned = []
    converged = []
    theta = []
    for iteration in range(6):
        returned.append(running.step(iteration, 0))
        converged.append(running.converged)
        theta.append(state_of(problem, running)[0].theta[0])
    assert theta[-1] < theta[0] - 0.2
    assert returned == returned[:1] * 6
    assert converged == [iteration >= module.PATIENCE for iteration in range(6)]
    parameters = running.parameters(6)
    assert parameters[THETA[0]] == theta[0]
    assert returned[0] == pytest.approx(by_quadrature(problem, parameters), rel=1e-8)


# All methods, and svi-adadelta.


def test_resuming_with_early_stopping_gives_the_same_result(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "TOLERANCE", 1e-3)
    monkeypatch.setattr(module, "PATIENCE", 2)
    arguments = prepared(random_problem(3, 40, 8), "vi-taylor", iterations=60)
    expected = run_inference(*arguments)
    assert len(expected[1]) < 60
    result, _ = train_with_interruptions(run_inference, arguments, tmp_path / "checkpoint", itertools.repeat(1))
    assert_same_result(result, expected)


@pytest.mark.parametrize("inference", INFERENCES)
def test_an_initial_lengthscale_out_of_range_is_refused(inference):
    problem = random_problem()
    with pytest.raises(NumericalError, match="^training diverged before the first step: the lengthscale is 1"):
        trained(problem._replace(inducing=1e100 * problem.inducing), inference)


def test_divergence_with_a_high_learning_rate_raises_an_error_with_advice():
    with pytest.raises(NumericalError, match="; try a lower learning_rate$"):
        trained(random_problem(), "svi-adadelta", learning_rate=1e300)


def test_the_mean_estimate_of_minibatches_is_the_bound_which_rises():
    problem = random_problem(N=30, M=6)
    running = started(problem, "svi-adadelta", batch_size=10)
    start = running.parameters(0)
    for epoch in range(150):
        for done in range(3):
            running.step(epoch, done)
    # Further steps leave the parameters almost unchanged.
    running._rate = 1e-12
    end = running.parameters(150)
    estimates = [running.step(150, done) for done in range(3)]
    bound = by_quadrature(problem, end)
    assert np.ptp(estimates) > 0.1
    assert np.mean(estimates) == pytest.approx(bound, rel=1e-7)
    # The bound can rise by less than log 2 per point.
    assert bound > max(by_quadrature(problem, start) + 2, 30 * np.log(0.5))
    for name in end.keys() - {"inducing"}:
        assert np.abs(end[name] - start[name]).max() > 0.01, name
