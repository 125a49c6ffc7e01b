"""Kernels against scikit-learn on explicit points, inside and outside the subspace, and their gradients."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.central_differences import central_differences
from tests.gp.reference import KERNELS, covariances_of, scikit_covariances
from tests.grids import each_value, grid
from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Points
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.kernels import NOISE_START, Kernel
from xmlgp.gp.parameters import LIMIT

B, M, D, R = 6, 5, 9, 4
EVERY_TERMS = [(*terms, *noise) for noise in ((), ("noise",)) for terms in KERNELS]


def random_kernel(random, terms, ard, dimension):
    """Return a kernel and random hyperparameters."""
    kernel = Kernel(terms, ard)
    start = kernel.initial(dimension, 1.0, np.float64)
    return kernel, {name: np.array(value + random.normal(0, 0.5, value.shape)) for name, value in start.items()}


def random_rows(random, count, dimension):
    return random.normal(size=(count, dimension)) * (random.random((count, dimension)) < 0.6)


def assert_equal_covariances(covariances, expected):
    K_BZ, K_Z, K_B = expected
    np.testing.assert_allclose(covariances.K_BZ, K_BZ, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(covariances.K_Z, K_Z, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(covariances.K_diag, np.diagonal(K_B), rtol=1e-10, atol=1e-13)


def sparse(points):
    return Features(sp.csr_array(points))


@each_value(terms=list(EVERY_TERMS), ard=[False, True], storage=[np.asarray, sparse])
def test_free_inducing_inputs_agree_with_scikit_learn(terms, ard, storage):
    random = np.random.default_rng(0)
    kernel, parameters = random_kernel(random, terms, ard, D)
    points, parameters["inducing"] = random_rows(random, B, D), random.normal(size=(M, D))
    covariances, _ = covariances_of(kernel, parameters, Points(storage(points), np.zeros(B)))
    assert_equal_covariances(covariances, scikit_covariances(terms, parameters, points, parameters["inducing"]))


@each_value(terms=list(EVERY_TERMS), ard=[False, True], place=["inside", "outside"])
def test_subspace_agrees_with_scikit_learn_on_all_dimensions(terms, ard, place):
    random = np.random.default_rng(0)
    kernel, parameters = random_kernel(random, terms, ard, R)
    whole, _ = np.linalg.qr(random.normal(size=(D, D)))
    basis, rest = whole.T[:R], whole.T[R:]
    points = random_rows(random, B, D)
    if place == "inside":
        points = points @ basis.T @ basis
    parameters["inducing"] = random.normal(size=(M, R))
    coordinates = points @ basis.T
    residual = (points**2).sum(axis=1) - (coordinates**2).sum(axis=1)
    covariances, _ = covariances_of(kernel, parameters, Points(coordinates, residual))

    # After a rotation to the basis, ARD has one relevance per axis, which is one for axes outside the subspace.
    dense = dict(parameters)
    for term in set(terms) - {"noise"} if ard else ():
        relevance = parameters[f"kernel.{term}.log_relevance"]
        dense[f"kernel.{term}.log_relevance"] = np.concatenate([relevance, np.zeros(D - R)])
    dense["inducing"] = parameters["inducing"] @ basis @ whole
    assert np.abs(points @ rest.T).max() > 0.1 or place == "inside"
    assert_equal_covariances(covariances, scikit_covariances(terms, dense, points @ whole, dense["inducing"]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_covariance_of_equal_points_is_at_most_the_variance(dtype):
    # Squared distances of equal points are differences of large numbers; rounding errors must not raise k above σ².
    random = np.random.default_rng(0)
    inducing = (10 + random.normal(size=(40, 30))).astype(dtype)
    kernel = Kernel(("se",), ard=False)
    parameters = {"inducing": inducing, **kernel.initial(30, 0.5, dtype)}
    covariances, _ = covariances_of(kernel, parameters, Points(inducing, np.zeros(40, dtype)))
    assert covariances.K_BZ.max() <= 1
    assert covariances.K_Z.max() <= 1
    np.testing.assert_array_equal(np.diagonal(covariances.K_Z), 1)
    np.testing.assert_array_equal(covariances.K_diag, 1)


@each_value(terms=list(EVERY_TERMS), ard=[False, True], dtype=[np.float32, np.float64])
def test_initial_kernel_has_unit_variance_and_the_given_lengthscale(terms, ard, dtype):
    kernel = Kernel(terms, ard)
    start = kernel.initial(R, 0.25, dtype)
    assert list(start) == kernel.parameter_names()
    assert {value.dtype for value in start.values()} == {np.dtype(dtype)}
    unit = np.eye(R, dtype=dtype)
    covariances, _ = covariances_of(kernel, start | {"inducing": unit[:1]}, Points(unit, np.zeros(R, dtype)))
    noise = NOISE_START if "noise" in terms else 0
    np.testing.assert_allclose(covariances.K_diag, 1 + noise, rtol=1e-6)
    # The distance of orthogonal unit vectors is √2.
    covariance = np.exp(-(0.25**-2)) / len(set(terms) - {"noise"}) if "se" in terms else 0
    np.testing.assert_allclose(covariances.K_BZ[1:, 0], covariance, rtol=1e-5, atol=1e-12)


def with_random_gradients(terms, ard, storage=np.asarray):
    """Return a kernel, random parameters and points, and random gradients of the covariances."""
    random = np.random.default_rng(0)
    kernel, parameters = random_kernel(random, terms, ard, D)
    parameters["inducing"] = random.normal(size=(M, D))
    points = Points(storage(random_rows(random, B, D)), random.random(B))
    return kernel, parameters, points, Covariances(*(random.normal(size=shape) for shape in ((B, M), (M, M), B)))


@grid(terms=EVERY_TERMS, ard=[False, True], inducing_needed=[True, False], storage=[np.asarray, sparse])
def test_gradients_agree_with_central_differences(terms, ard, inducing_needed, storage):
    kernel, parameters, points, d_covariances = with_random_gradients(terms, ard, storage)

    def value(moved):
        covariances, _ = covariances_of(kernel, moved, points)
        return sum(map(np.vdot, covariances, d_covariances))

    _, tape = covariances_of(kernel, parameters, points)
    gradients = kernel.backward(tape, d_covariances, inducing_needed)
    assert gradients.keys() == set(parameters) - (set() if inducing_needed else {"inducing"})
    for name, numeric in central_differences(value, parameters, gradients).items():
        atol = 1e-8 * (1 + np.abs(numeric).max())
        np.testing.assert_allclose(gradients[name], numeric, rtol=1e-7, atol=atol, err_msg=name)


@pytest.mark.parametrize("log_variance", [-LIMIT - 1, LIMIT + 1])
def test_noise_variance_beyond_the_limits_has_no_gradient(log_variance):
    kernel, parameters, points, d_covariances = with_random_gradients(("se", "noise"), False)
    parameters["kernel.noise.log_variance"] = np.array(log_variance)
    covariances, tape = covariances_of(kernel, parameters, points)
    limit = np.exp(np.clip(log_variance, -LIMIT, LIMIT))
    np.testing.assert_allclose(covariances.K_diag - np.exp(parameters["kernel.se.log_variance"]), limit, atol=1e-15)
    assert kernel.backward(tape, d_covariances)["kernel.noise.log_variance"] == 0
