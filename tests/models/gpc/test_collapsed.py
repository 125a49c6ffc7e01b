"""The collapsed bound against dense formulas of the uncollapsed one and scikit-learn's Laplace approximation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tests.central_differences import central_differences
from tests.gp.reference import DETERMINISTIC, inducing_posterior
from tests.grids import each_value
from tests.models.gpc.dense_gpc import THETA, moments, predicted, random_problem, uncollapsed_bound
from xmlgp.gp.expectations import JaakkolaJordan
from xmlgp.linear_algebra.cholesky import INDUCING_JITTER
from xmlgp.models.gpc import collapsed as module
from xmlgp.models.gpc.collapsed import PointMoments, optimal_tangent_points, tangent_point_gradient

#: Of random problems.
SEED = 1
KINDS = pytest.mark.parametrize("kind", ["jj", "taylor"])
#: N and M, with more inducing inputs than points, and with one of each.
SHAPES = pytest.mark.parametrize(("N", "M"), [(13, 5), (5, 9), (1, 1)])


def random_tangent_points(problem, seed, kind="jj"):
    """Return random tangent points, positive for Jaakkola and Jordan, of either sign for Taylor."""
    random = np.random.default_rng([seed, 7])
    t = random.gamma(1.0, 2.0, len(problem.points)) + 1e-3
    return t if kind == "jj" else t * random.choice([-1, 1], len(t))


@KINDS
@SHAPES
def test_value_posterior_and_moments_agree_with_dense_formulas(kind, N, M):
    problem = random_problem(SEED, N, M)
    t = random_tangent_points(problem, SEED, kind)
    optimum = problem.optimum(t, kind)
    mean, covariance = inducing_posterior("cholesky", optimum.posterior(), problem.covariances[1], 0)
    result = uncollapsed_bound(problem, kind, t, mean, covariance)
    assert optimum.value == pytest.approx(result, rel=1e-9, abs=1e-9)
    if kind == "jj":
        best_mean, best_covariance = problem.optimal_posterior(t)
        np.testing.assert_allclose(mean, best_mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(covariance, best_covariance, rtol=1e-7, atol=1e-9)
    result = optimum.moments
    dense = moments(problem, mean, covariance)
    for m, s in (dense, predicted(problem, optimum.posterior(), problem.points)):
        np.testing.assert_allclose(result.mean, m, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(result.second_moment, s + m**2, rtol=1e-7)
    optimum.gradients()
    for one, other in zip(result, optimum.moments, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def gradient_of(function, x):
    """Return the gradient of a function of a vector by central differences."""
    return central_differences(lambda arrays: function(arrays["x"]), {"x": np.asarray(x)})["x"]


@each_value(kind=["jj", "taylor"], sparse=[False, True], jitter=[1e-8, 0.1])
@SHAPES
def test_gradients_by_hyperparameters_agree_with_central_differences(monkeypatch, kind, N, M, sparse, jitter):
    monkeypatch.setitem(INDUCING_JITTER, np.dtype(np.float64), jitter)
    problem = random_problem(SEED, N, M, absent=0.5 * sparse)
    t = random_tangent_points(problem, SEED, kind)
    collapsed = problem.collapsed(kind, sparse)
    gradients = collapsed.optimum(problem.parameters, t).gradients()
    assert gradients.keys() == set(THETA)
    numeric = gradient_of(lambda theta: collapsed.optimum(problem.with_theta(theta).parameters, t).value, problem.theta)
    result = np.array([gradients[name] for name in THETA])
    np.testing.assert_allclose(result, numeric, rtol=1e-6, atol=1e-7 * (1 + np.abs(numeric).max()))


@SHAPES
def test_gradients_by_tangent_points_agree_with_central_differences(N, M):
    problem = random_problem(SEED, N, M)
    t = random_tangent_points(problem, SEED)
    collapsed = problem.collapsed()
    result = tangent_point_gradient(
        t, collapsed.optimum(problem.parameters, t).moments, *collapsed.slope_and_curvature(t)
    )
    numeric = gradient_of(lambda t: collapsed.optimum(problem.parameters, t).value, t)
    np.testing.assert_allclose(result, numeric, rtol=1e-6, atol=1e-8)


def test_gradients_by_tangent_points_are_accurate_near_zero():
    # λ′(ξ) = −ξ/24 + ξ³/120 − …; both branches of the code must keep the leading term.
    t = np.array([0.0, 1e-12, 1e-6, 0.99e-4, 1.01e-4, 1e-3, 0.1])
    moments = PointMoments(np.zeros(7), np.full(7, 2.5))
    slope, curvature = random_problem(N=7).collapsed().slope_and_curvature(t)
    result = tangent_point_gradient(t, moments, slope, curvature)
    derivative = -t / 24 + t**3 / 120
    np.testing.assert_allclose(result, -0.5 * derivative * (2.5 - t**2), rtol=1e-5)


@each_value(kind=["jj", "taylor"], sparse=[False, True], cache_limit=[None, 0], size=[1, 4, 39])
def test_result_does_not_depend_on_blocks_or_cache(monkeypatch, kind, sparse, cache_limit, size):
    problem = random_problem(N=40, absent=0.5 * sparse)
    t = random_tangent_points(problem, 0, kind)

    def everything():
        optimum = problem.collapsed(kind, sparse).optimum(problem.parameters, t)
        moments = optimum.moments
        gradients = optimum.gradients()
        return [
            optimum.value,
            *moments,
            *optimum.moments,
            *(gradients[name] for name in THETA),
            *optimum.posterior().values(),
        ]

    in_one_block = everything()
    monkeypatch.setattr(module, "BLOCK", 1)
    monkeypatch.setattr(module, "LEAST", size)
    if cache_limit is not None:
        monkeypatch.setattr(module, "CACHE_LIMIT", cache_limit)
    for result, expected in zip(everything(), in_one_block, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


@KINDS
def test_result_does_not_depend_on_earlier_calls(kind):
    problem = random_problem()
    t = random_tangent_points(problem, 0, kind)
    collapsed = problem.collapsed(kind)
    other = problem.with_theta(problem.theta + 0.3)
    for one in (problem, other, other, problem):
        for points in (t, 2 * t):
            result = collapsed.optimum(one.parameters, points)
            expected = one.collapsed(kind).optimum(one.parameters, points)
            assert result.value == expected.value
            assert result.gradients() == expected.gradients()


@DETERMINISTIC
@given(
    seed=st.integers(0, 10**6),
    N=st.integers(1, 30),
    M=st.integers(1, 12),
    scale=st.sampled_from([0.1, 1.0, 3.0]),
    start=st.sampled_from([1e-8, 1e-3, 1.0, 30.0]),
    classes=st.sampled_from(["both", "one"]),
)
def test_closed_form_updates_never_lower_the_bound(seed, N, M, scale, start, classes):
    problem = random_problem(seed, N, M, scale=scale)
    if classes == "one":
        problem = problem._replace(positive=np.ones(N, bool))
    t = start * np.random.default_rng(seed).random(N)
    optimum = problem.optimum(t)
    values = []
    for _ in range(10):
        # The first value is before the update of ξ, the second after it and before that of q(u).
        result = optimum.moments
        values += [optimum.value, optimum.bound(problem.positive, JaakkolaJordan())]
        optimum = problem.optimum(optimal_tangent_points(result))
    rounding = 1e-10 * (1 + np.abs(values[0]))
    assert min(np.diff(values)) > -rounding
    assert values[-1] <= 0


def taylor_fixed_point(problem, tolerance=1e-12):
    """Return the optimum and the tangent points where the closed-form updates converge."""
    collapsed = problem.collapsed("taylor")
    t = np.zeros(len(problem.points))
    for _ in range(200):
        optimum = collapsed.optimum(problem.parameters, t)
        mean = optimum.moments.mean
        if np.abs(mean - t).max() < tolerance:
            return optimum, t
        t = mean
    raise AssertionError("the updates do not converge")


def test_taylor_fixed_point_is_the_laplace_approximation_if_the_points_are_the_inducing_inputs():
    # Without noise f equals u at the points, so the mode and the evidence agree, and with them the curvature.
    problem = random_problem(SEED, N=12, scale=0.3)
    problem = problem._replace(inducing=problem.points).with_theta([*problem.theta[:2], -18])
    optimum, t = taylor_fixed_point(problem, 1e-9)
    kernel = ConstantKernel(np.exp(problem.theta[0])) * RBF(np.exp(problem.theta[1]))
    laplace = GaussianProcessClassifier(kernel, optimizer=None, max_iter_predict=500)
    laplace.fit(problem.points, problem.positive)
    np.testing.assert_allclose(t, laplace.base_estimator_.f_cached, atol=1e-4)
    assert optimum.value == pytest.approx(laplace.log_marginal_likelihood(kernel.theta), abs=1e-4)


#: θ; degenerate points and inducing inputs are those of test_inference.py.
EXTREMES = {
    "no noise": [0, 0.5, -40],
    "large noise": [0, 0.5, 8],
    "large variance": [12, 0.5, -14],
    "small variance": [-20, 0.5, -14],
    "flat": [0, 15, -14],
    "diagonal": [0, -15, -14],
}


@each_value(kind=["jj", "taylor"], extreme=list(EXTREMES))
def test_extreme_hyperparameters_have_finite_results(kind, extreme):
    theta = EXTREMES[extreme]
    problem = random_problem().with_theta(theta)
    t = np.full(len(problem.points), 0.5)
    optimum = problem.optimum(t, kind)
    gradients = optimum.gradients()
    result = optimum.moments
    prior = np.exp(theta[0]) + np.exp(theta[2])
    variance = result.second_moment - result.mean**2
    assert np.isfinite([optimum.value, *gradients.values()]).all()
    # The posterior variance is between zero and the prior variance.
    assert (variance <= prior * (1 + 1e-6)).all()
    assert (variance > -1e-6 * prior).all()
    assert kind == "taylor" or optimum.value < 0
    parameters = optimum.posterior()
    assert all(np.isfinite(value).all() for value in parameters.values())
    mean, predicted_variance = predicted(problem, parameters, problem.points)
    scale = np.sqrt(prior)
    np.testing.assert_allclose(mean, result.mean, atol=1e-4 * (scale + np.abs(result.mean).max()))
    np.testing.assert_allclose(predicted_variance, variance, atol=1e-4 * prior)


@each_value(kind=["jj", "taylor"], noise=[1e-6, 1e-2])
def test_rounding_errors_of_the_bound_are_small(kind, noise):
    # L-BFGS-B uses differences of the bound. Solving with K_Z + K_ZX Λ K_XZ would hide them in rounding errors with
    # many points and close inducing inputs.
    problem = random_problem(N=2000, M=60, D=2).with_theta([1.0, 1.0, np.log(noise)])
    t = random_tangent_points(problem, 0, kind)
    collapsed = problem.collapsed(kind)
    steps = 1e-11 * np.arange(-10, 11)
    values = np.array(
        [collapsed.optimum(problem.with_theta(problem.theta + step).parameters, t).value for step in steps]
    )
    residual = np.abs(values - np.polyval(np.polyfit(steps / steps[-1], values, 1), steps / steps[-1])).max()
    assert residual < 4e-10 * abs(values[0])
