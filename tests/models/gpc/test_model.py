"""The GPC model: initial parameters, the uncollapsed bound, and q(f*) at its limits."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from tests.central_differences import central_differences
from tests.grids import each_value
from tests.models.gpc.dense_gpc import THETA, random_problem
from xmlgp.features.inputs import Points
from xmlgp.gp.bound import Batch
from xmlgp.gp.kernels import NOISE_START
from xmlgp.gp.likelihood import AllPairs
from xmlgp.models.gpc.model import Predictive, initial_parameters, uncollapsed_bound


def posterior(seed, M):
    random = np.random.default_rng(seed)
    return {
        "posterior.whitened_mean": random.normal(size=(M, 1)),
        "posterior.whitened_factor": np.tril(0.4 * random.normal(size=(M, M)))[None],
    }


@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_the_uncollapsed_bound_agree_with_central_differences(seed):
    problem = random_problem(seed)
    bound, parameters = uncollapsed_bound(problem.inducing, 40)
    parameters |= posterior(seed, 5)
    labels = sp.csr_array(problem.positive[:, None])
    batch = Batch(Points(problem.points, np.zeros(len(problem.points))), AllPairs(labels), 2.5)
    _, gradients = bound.value_and_gradients(parameters, batch)
    assert gradients.keys() == {*THETA, "posterior.whitened_mean", "posterior.whitened_factor"}
    numeric = central_differences(lambda moved: bound.value_and_gradients(moved, batch)[0], parameters, gradients)
    for name, gradient in gradients.items():
        atol = 1e-6 * np.abs(numeric[name]).max()
        np.testing.assert_allclose(gradient, numeric[name], rtol=1e-6, atol=atol, err_msg=name)


def test_variance_of_a_narrow_posterior_is_not_negative():
    problem = random_problem().with_theta([0, 3, -40])
    factor = np.diag(np.full(5, -40.0))[None]
    parameters = problem.parameters | {"posterior.whitened_mean": np.zeros((5, 1)), "posterior.whitened_factor": factor}
    _, variance = Predictive(parameters)(Points(problem.inducing, np.zeros(5)))
    assert (variance >= 0).all()
    assert (variance < 1e-6).all()


@each_value(seed=list(range(4)), unit=[1e-3, 1.0, 1e3])
def test_initial_lengthscale_is_proportional_to_the_scale_of_features(seed, unit):
    inducing = unit * np.random.default_rng(seed).normal(size=(40, 6))
    start = initial_parameters(inducing)
    assert list(start) == ["inducing", *THETA]
    assert {value.dtype for value in start.values()} == {np.dtype(np.float64)}
    np.testing.assert_array_equal(start["inducing"], inducing)
    assert start["inducing"] is not inducing
    assert start[THETA[0]] == 0
    assert start[THETA[2]] == pytest.approx(np.log(NOISE_START))
    # The mean includes the pairs of each input with itself.
    mean_square = 2 * (pdist(inducing) ** 2).sum() / 40**2
    assert np.exp(2 * start[THETA[1]]) == pytest.approx(mean_square / 2)


@pytest.mark.parametrize("inducing", [np.ones((1, 3)), np.ones((4, 3)), np.zeros((2, 3)), np.ones((3, 0))], ids=str)
def test_initial_lengthscale_is_one_if_inducing_inputs_are_equal(inducing):
    assert initial_parameters(inducing)[THETA[1]] == 0
