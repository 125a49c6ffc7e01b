"""The collapsed bound against the one that is not collapsed, in dense formulas, and against scikit-learn's Laplace."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tests.gp.reference import STEADY, gaussian_kl, inducing_posterior, log_likelihood
from tests.gpc.dense_gpc import THETA, expanded, moments, predicted, random_problem
from xmlgp.errors import NumericalError
from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.expectations import JaakkolaJordan, Quadrature, Taylor
from xmlgp.gp.inner_products import Points
from xmlgp.gp.posteriors.cholesky import JITTER
from xmlgp.gpc import collapsed as module
from xmlgp.gpc.collapsed import Moments, gradient_of_touching, tightest
from xmlgp.gpc.model import GPC

SEEDS = pytest.mark.parametrize("seed", range(6))
KINDS = pytest.mark.parametrize("kind", ["jj", "taylor"])
#: N and M: more inducing inputs than points too, and one of each.
SHAPES = pytest.mark.parametrize(("N", "M"), [(13, 5), (5, 9), (40, 1), (1, 4), (1, 1)])


def somewhere(problem, seed, kind="jj"):
    """Points t where the quadratic functions may touch, near and far, of either sign for Taylor's."""
    random = np.random.default_rng([seed, 7])
    touching = random.gamma(1.0, 2.0, len(problem.points)) + 1e-3
    return touching if kind == "jj" else touching * random.choice([-1, 1], len(touching))


def mean_and_covariance(posterior):
    return inducing_posterior("cholesky", posterior, None, 0)


def of_section_1(problem, posterior, expectations):
    """The bound of SPEC section 1 as MLGPF's training has it, with P = K = 1, Φ = 1 and b = 0."""
    model = GPC()
    parameters = problem.parameters | posterior | {"loadings": np.ones((1, 1)), "bias": np.zeros(1)}
    batch = Batch(
        Points(problem.points, np.zeros(len(problem.points))), sp.csr_array(problem.positive[:, None]), None, 1
    )
    return Bound(model.kernel, model.posterior, expectations=expectations).value_and_gradients(parameters, batch)[0]


@KINDS
@SEEDS
@SHAPES
def test_it_is_the_bound_that_is_not_collapsed_at_its_best_q(kind, seed, N, M):
    problem = random_problem(seed, N, M)
    touching = somewhere(problem, seed, kind)
    optimum = problem.at(touching, kind)
    mean, covariance = mean_and_covariance(optimum.posterior())
    found = expanded(problem, kind, touching, mean, covariance)
    assert optimum.value == pytest.approx(found, rel=1e-9, abs=1e-9)


@SEEDS
@SHAPES
def test_the_best_q_is_what_the_specification_has(seed, N, M):
    problem = random_problem(seed, N, M)
    touching = somewhere(problem, seed)
    mean, covariance = mean_and_covariance(problem.at(touching).posterior())
    best_mean, best_covariance = problem.best(touching)
    np.testing.assert_allclose(mean, best_mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(covariance, best_covariance, rtol=1e-7, atol=1e-9)


@KINDS
@SEEDS
def test_no_other_q_is_better(kind, seed):
    problem = random_problem(seed)
    touching = somewhere(problem, seed, kind)
    optimum, random = problem.at(touching, kind), np.random.default_rng(seed)
    mean, covariance = mean_and_covariance(optimum.posterior())
    factor = np.linalg.cholesky(covariance)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for which in ("mean", "factor", "both"):
            other_mean = mean + size * random.normal(size=len(mean)) * (which != "factor")
            other = factor + size * np.tril(random.normal(size=factor.shape)) * (which != "mean")
            assert expanded(problem, kind, touching, other_mean, other @ other.T) < optimum.value - 1e-3 * size**2


@SEEDS
def test_bounds_are_in_the_order_that_they_must_be_in(seed):
    # At ξ that are not the best; at the best ξ for this q(u); by quadrature.
    problem = random_problem(seed)
    optimum = problem.at(somewhere(problem, seed))
    found, positive = optimum.moments(), problem.positive
    best, quadrature = (optimum.bound(found, positive, e) for e in (JaakkolaJordan(), Quadrature(80)))
    assert optimum.value < best - 1e-6 < best < quadrature - 1e-6
    mean, covariance = mean_and_covariance(optimum.posterior())
    assert best == pytest.approx(expanded(problem, "jj", tightest(found), mean, covariance), rel=1e-9)
    m, s = moments(problem, mean, covariance)
    exact = log_likelihood(m[:, None], s[:, None], np.ones((1, 1)), np.zeros(1), positive[:, None])
    assert quadrature == pytest.approx(exact - gaussian_kl(mean, covariance, problem.covariances[1]), rel=1e-9)


@KINDS
@SEEDS
@pytest.mark.parametrize("expectations", [Quadrature(20), JaakkolaJordan(), Taylor()], ids=lambda e: e.name)
def test_its_bound_is_that_which_mlgpf_is_trained_with(kind, seed, expectations):
    problem = random_problem(seed)
    optimum = problem.at(somewhere(problem, seed, kind), kind)
    found = optimum.bound(optimum.moments(), problem.positive, expectations)
    assert found == pytest.approx(of_section_1(problem, optimum.posterior(), expectations), rel=1e-9)


@KINDS
@SEEDS
@SHAPES
def test_moments_are_those_of_the_posterior(kind, seed, N, M):
    problem = random_problem(seed, N, M)
    optimum = problem.at(somewhere(problem, seed, kind), kind)
    found = optimum.moments()
    mean, variance = moments(problem, *mean_and_covariance(optimum.posterior()))
    np.testing.assert_allclose(found.mean, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.square, variance + mean**2, rtol=1e-7)
    mean, variance = predicted(problem, optimum.posterior(), problem.points)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.square, variance + mean**2, rtol=1e-7)
    _, with_gradients = optimum.gradients()
    for one, other in zip(found, with_gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def central(function, at, step=1e-5):
    """Central differences."""
    numeric = np.empty(len(at))
    for i in range(len(at)):
        sides = np.repeat(np.array(at, float)[None], 2, axis=0)
        sides[:, i] += [step, -step]
        above, below = map(function, sides)
        numeric[i] = (above - below) / (2 * step)
    return numeric


@KINDS
@SEEDS
@SHAPES
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_gradients_by_hyperparameters(kind, seed, N, M, sparse):
    problem = random_problem(seed, N, M, absent=0.5 * sparse)
    touching, collapsed = somewhere(problem, seed, kind), problem.collapsed(kind, sparse)
    gradients, _ = collapsed.at(problem.parameters, touching).gradients()
    assert gradients.keys() == set(THETA)
    numeric = central(lambda theta: collapsed.at(problem.with_theta(theta).parameters, touching).value, problem.theta)
    found = np.array([gradients[name] for name in THETA])
    np.testing.assert_allclose(found, numeric, rtol=1e-6, atol=1e-7 * (1 + np.abs(numeric).max()))


@SEEDS
def test_gradients_know_of_the_jitter(monkeypatch, seed):
    monkeypatch.setitem(JITTER, np.dtype(np.float64), 0.1)
    problem = random_problem(seed)
    touching, collapsed = somewhere(problem, seed), problem.collapsed()
    gradients, _ = collapsed.at(problem.parameters, touching).gradients()
    numeric = central(lambda theta: collapsed.at(problem.with_theta(theta).parameters, touching).value, problem.theta)
    np.testing.assert_allclose([gradients[name] for name in THETA], numeric, rtol=1e-6)


@SEEDS
@SHAPES
def test_gradients_by_where_the_functions_touch(seed, N, M):
    problem = random_problem(seed, N, M)
    touching, collapsed = somewhere(problem, seed), problem.collapsed()
    found = gradient_of_touching(
        touching, collapsed.at(problem.parameters, touching).moments(), *collapsed.touch(touching)
    )
    numeric = central(lambda touching: collapsed.at(problem.parameters, touching).value, touching)
    np.testing.assert_allclose(found, numeric, rtol=1e-6, atol=1e-8)


def test_gradients_where_the_functions_touch_at_zero_and_near_it():
    # λ′(ξ) is odd, and nearly −ξ/24: neither form of it may lose it.
    touching = np.array([0.0, 1e-12, 1e-6, 0.99e-4, 1.01e-4, 1e-3, 0.1])
    moments = Moments(np.zeros(7), np.full(7, 2.5))
    slope, curvature = random_problem(N=7).collapsed().touch(touching)
    found = gradient_of_touching(touching, moments, slope, curvature)
    derivative = -touching / 24 + touching**3 / 120
    np.testing.assert_allclose(found, -0.5 * derivative * (2.5 - touching**2), rtol=1e-5)


@KINDS
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kept", [None, 0], ids=["kept", "computed again"])
@pytest.mark.parametrize("size", [1, 4, 39])
def test_blocks_of_points_make_no_difference(monkeypatch, kind, sparse, kept, size):
    problem = random_problem(N=40, absent=0.5 * sparse)
    touching = somewhere(problem, 0, kind)

    def everything():
        optimum = problem.collapsed(kind, sparse).at(problem.parameters, touching)
        gradients, with_gradients = optimum.gradients()
        return [
            optimum.value,
            *optimum.moments(),
            *with_gradients,
            *(gradients[name] for name in THETA),
            *optimum.posterior().values(),
        ]

    whole = everything()
    monkeypatch.setattr(module, "BLOCK", 1)
    monkeypatch.setattr(module, "LEAST", size)
    if kept is not None:
        monkeypatch.setattr(module, "KEPT", kept)
    for found, expected in zip(everything(), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@KINDS
def test_where_one_was_before_makes_no_difference(kind):
    problem = random_problem()
    touching, collapsed = somewhere(problem, 0, kind), problem.collapsed(kind)
    other = problem.with_theta(problem.theta + 0.3)
    for one in (problem, other, other, problem):
        for t in (touching, 2 * touching):
            found = collapsed.at(one.parameters, t)
            expected = one.collapsed(kind).at(one.parameters, t)
            assert found.value == expected.value
            assert found.gradients()[0] == expected.gradients()[0]


@STEADY
@given(
    seed=st.integers(0, 10**6),
    N=st.integers(1, 30),
    M=st.integers(1, 12),
    scale=st.sampled_from([0.1, 1.0, 3.0]),
    start=st.sampled_from([1e-8, 1e-3, 1.0, 30.0]),
    classes=st.sampled_from(["both", "one"]),
)
def test_no_closed_form_update_lowers_the_bound(seed, N, M, scale, start, classes):
    problem = random_problem(seed, N, M, scale=scale)
    if classes == "one":
        problem = problem._replace(positive=np.ones(N, bool))
    touching = start * np.random.default_rng(seed).random(N)
    optimum, values = problem.at(touching), []
    for _ in range(10):
        # ξ first, which leaves q(u) as it is; then q(u), which leaves ξ.
        found = optimum.moments()
        values += [optimum.value, optimum.bound(found, problem.positive, JaakkolaJordan())]
        optimum = problem.at(tightest(found))
    rounding = 1e-10 * (1 + np.abs(values[0]))
    assert min(np.diff(values)) > -rounding
    assert values[-1] <= 0


@SEEDS
def test_updates_end_where_no_change_of_q_or_touching_points_helps(seed):
    problem = random_problem(seed)
    touching = np.ones(len(problem.points))
    for _ in range(500):
        optimum = problem.at(touching)
        touching = tightest(optimum.moments())
    slope, curvature = problem.collapsed().touch(touching)
    found = optimum.moments()
    assert np.abs(gradient_of_touching(touching, found, slope, curvature)).max() < 1e-9
    # There it is section 1's bound, with the tightest bound of Jaakkola and Jordan in place of each expectation.
    assert optimum.value == pytest.approx(of_section_1(problem, optimum.posterior(), JaakkolaJordan()), rel=1e-9)


def taylor_fixed_point(problem, tolerance=1e-12):
    collapsed, touching = problem.collapsed("taylor"), np.zeros(len(problem.points))
    for _ in range(200):
        optimum = collapsed.at(problem.parameters, touching)
        mean = optimum.moments().mean
        if np.abs(mean - touching).max() < tolerance:
            return optimum, touching
        touching = mean
    raise AssertionError("the updates do not end")


@SEEDS
def test_updates_by_taylors_expansion_end_where_its_objective_is_flat(seed):
    problem = random_problem(seed)
    optimum, touching = taylor_fixed_point(problem)
    mean, covariance = mean_and_covariance(optimum.posterior())
    factor = np.linalg.cholesky(covariance)
    below = np.tril_indices(len(mean))
    np.testing.assert_allclose(moments(problem, mean, covariance)[0], touching, atol=1e-9)

    def objective(both):
        other = np.zeros_like(factor)
        other[below] = both[len(mean) :]
        return expanded(problem, "taylor", touching, both[: len(mean)], other @ other.T)

    slope = central(objective, np.concatenate([mean, factor[below]]))
    steep = central(objective, 1.1 * np.concatenate([mean, factor[below]]))
    assert np.abs(slope).max() < 1e-7
    assert np.abs(steep).max() > 1e-2


@SEEDS
def test_with_inducing_inputs_at_the_points_taylors_fixed_point_is_laplaces_approximation(seed):
    # Without noise f is u there, and the two agree: mode, evidence, and with them the curvature.
    problem = random_problem(seed, N=12, scale=0.3)
    problem = problem._replace(inducing=problem.points).with_theta([*problem.theta[:2], -18])
    optimum, touching = taylor_fixed_point(problem, 1e-9)
    kernel = ConstantKernel(np.exp(problem.theta[0])) * RBF(np.exp(problem.theta[1]))
    laplace = GaussianProcessClassifier(kernel, optimizer=None, max_iter_predict=500)
    laplace.fit(problem.points, problem.positive)
    np.testing.assert_allclose(touching, laplace.base_estimator_.f_cached, atol=1e-4)
    assert optimum.value == pytest.approx(laplace.log_marginal_likelihood(kernel.theta), abs=1e-4)


def test_labels_the_other_way_round_turn_the_mean_alone():
    problem = random_problem()
    touching = somewhere(problem, 0)
    one, other = (p.at(touching) for p in (problem, problem._replace(positive=~problem.positive)))
    assert one.value == pytest.approx(other.value, rel=1e-12)
    np.testing.assert_allclose(one.moments().mean, -other.moments().mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.moments().square, other.moments().square, rtol=1e-12)


EXTREMES = {
    "little noise": ({}, [0, 0.5, -14]),
    "no noise": ({}, [0, 0.5, -40]),
    "much noise": ({}, [0, 0.5, 8]),
    "great variance": ({}, [12, 0.5, -14]),
    "little variance": ({}, [-20, 0.5, -14]),
    "flat": ({}, [0, 15, -14]),
    "diagonal": ({}, [0, -15, -14]),
    "inducing inputs twice": ({"inducing": np.repeat(random_problem().inducing, 2, axis=0)}, [0, 0.5, -14]),
    "inducing inputs at one place": ({"inducing": np.ones((6, 3))}, [0, 0.5, -40]),
    "inducing inputs at the points": ({"inducing": random_problem().points}, [0, 0.5, -14]),
    "constant features": ({"points": np.ones((13, 3))}, [0, 0.5, -14]),
    "no features": ({"points": np.zeros((13, 3)), "inducing": np.zeros((5, 3))}, [0, 0.5, -14]),
    "one class": ({"positive": np.ones(13, bool)}, [0, 0.5, -14]),
    "the other class": ({"positive": np.zeros(13, bool)}, [0, 0.5, -14]),
    "one point": ({"points": np.ones((1, 3)), "positive": np.ones(1, bool)}, [0, 0.5, -14]),
    "far away": ({"points": random_problem().points + 1e6}, [0, 0.5, -14]),
}


@KINDS
@pytest.mark.parametrize("extreme", EXTREMES)
def test_extremes(kind, extreme):
    changes, theta = EXTREMES[extreme]
    problem = random_problem()._replace(**changes).with_theta(theta)
    touching = np.full(len(problem.points), 0.5)
    optimum = problem.at(touching, kind)
    gradients, found = optimum.gradients()
    prior = np.exp(theta[0]) + np.exp(theta[2])
    variance = found.square - found.mean**2
    assert np.isfinite([optimum.value, *gradients.values()]).all()
    # No point is known better than by its own label, or worse than before any.
    assert (variance <= prior * (1 + 1e-6)).all()
    assert (variance > -1e-6 * prior).all()
    assert kind == "taylor" or optimum.value < 0
    parameters = optimum.posterior()
    assert all(np.isfinite(value).all() for value in parameters.values())
    mean, predicted_variance = predicted(problem, parameters, problem.points)
    scale = np.sqrt(prior)
    np.testing.assert_allclose(mean, found.mean, atol=1e-4 * (scale + np.abs(found.mean).max()))
    np.testing.assert_allclose(predicted_variance, variance, atol=1e-4 * prior)


@KINDS
@pytest.mark.parametrize("noise", [1e-6, 1e-2])
def test_rounding_is_no_more_than_a_small_part_of_the_bound(kind, noise):
    # L-BFGS-B sees differences of the bound: many points about inducing inputs close to each other would make them
    # noise where anything is solved with K_Z + K_ZX Λ K_XZ.
    problem = random_problem(N=2000, M=60, D=2).with_theta([1.0, 1.0, np.log(noise)])
    touching, collapsed = somewhere(problem, 0, kind), problem.collapsed(kind)
    steps = 1e-11 * np.arange(-10, 11)
    values = np.array(
        [collapsed.at(problem.with_theta(problem.theta + step).parameters, touching).value for step in steps]
    )
    around = np.abs(values - np.polyval(np.polyfit(steps / steps[-1], values, 1), steps / steps[-1])).max()
    assert around < 4e-10 * abs(values[0])


def test_what_is_not_finite_is_refused():
    problem = random_problem()
    touching = np.ones(len(problem.points))
    for kind in ("jj", "taylor"):
        with pytest.raises(NumericalError, match="^K_Z is not finite$"):
            problem.with_theta([np.nan, 0, 0]).at(touching, kind)
        with pytest.raises(NumericalError, match="not finite$"):
            problem.at(np.where(np.arange(13) == 4, np.nan, touching), kind)
