"""The Newton start against Newton steps of each label, and against their best low-rank approximation."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.special import expit

from tests.grids import each_value
from xmlgp.mlgpf import initial
from xmlgp.mlgpf.initial import DAMPING, newton_start

N, M, K = 60, 5, 7


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch):
    monkeypatch.setattr(initial, "JITTER", 0)


def problem(seed=0, labels=K):
    random = np.random.default_rng(seed)
    points, inducing = random.normal(size=(N, 8)), random.normal(size=(M, 8))
    positives = random.random((N, labels)) < expit(points[:, :labels] - 1)
    return points @ inducing.T / 8, inducing @ inducing.T / 8, sp.csr_array(positives), random.normal(-1, 0.5, labels)


def step_of(cross, prior, positives, bias):
    """Return the Newton step from f = b for one label, by differences of the gradient of its log posterior."""

    def gradient(weights):
        return cross.T @ (positives - expit(bias + cross @ weights)) - prior @ weights

    hessian = np.array([approx_fprime(np.zeros(M), lambda w, j=j: gradient(w)[j], 1e-6) for j in range(M)])
    return -np.linalg.solve(hessian, gradient(np.zeros(M)))


@each_value(seed=list(range(3)), block=[2, 100])
def test_full_rank_start_is_the_newton_step_of_every_label(monkeypatch, seed, block):
    monkeypatch.setattr(initial, "LABEL_BLOCK", block)
    cross, prior, labels, bias = problem(seed)
    weights, loadings = newton_start(cross, prior, labels, bias, size=M)
    assert (weights.shape, loadings.shape) == ((M, M), (K, M))
    steps = np.stack([step_of(cross, prior, labels.toarray()[:, k], bias[k]) for k in range(K)], axis=1)
    np.testing.assert_allclose(cross @ weights @ loadings.T, DAMPING * cross @ steps, rtol=1e-4, atol=1e-6)
    assert np.square(loadings).sum() == pytest.approx(K)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_lower_rank_start_is_the_best_approximation_of_that_rank(size):
    cross, prior, labels, bias = problem()
    whole = np.matmul(*(a if i == 0 else a.T for i, a in enumerate(newton_start(cross, prior, labels, bias, M))))
    weights, loadings = newton_start(cross, prior, labels, bias, size)
    root = np.sqrt(expit(bias) * expit(-bias))
    error = np.linalg.norm((cross @ (weights @ loadings.T - whole)) * root)
    singular = np.linalg.svd((cross @ whole) * root, compute_uv=False)
    assert error == pytest.approx(np.linalg.norm(singular[size:]), rel=1e-6)


def test_scale_multiplies_the_weight_of_points():
    cross, prior, labels, bias = problem()
    one = newton_start(cross, prior, labels, bias, 3, scale=2)
    two = newton_start(np.vstack([cross, cross]), prior, sp.csr_array(sp.vstack([labels, labels])), bias, 3)
    np.testing.assert_allclose(one[0] @ one[1].T, two[0] @ two[1].T, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_without_information_are_left_out(monkeypatch, dtype):
    monkeypatch.setattr(initial, "JITTER", 1e-4)
    cross, prior, labels, bias = problem(labels=2)
    # Two labels give two directions. Equal inducing inputs, and one without covariance with any point, add none.
    cross[:, 1], prior[1], prior[:, 1] = cross[:, 0], prior[0], prior[:, 0]
    cross[:, 2], prior[2], prior[:, 2], prior[2, 2] = 0, 0, 0, 1
    weights, loadings = newton_start(*(a.astype(dtype) for a in (cross, prior)), labels, bias.astype(dtype), M)
    assert weights.dtype == loadings.dtype == dtype
    assert weights.shape[1] == 2
    assert np.isfinite(weights).all()
    assert np.abs(cross @ weights @ loadings.T).max() < 10


@pytest.mark.parametrize("case", ["no labels", "no points", "no covariance"])
def test_no_directions_without_labels_points_or_covariance(case):
    cross, prior, labels, bias = problem()
    if case == "no labels":
        labels, bias = labels[:, :0], bias[:0]
    elif case == "no points":
        cross, labels = cross[:0], labels[:0]
    else:
        cross = np.zeros_like(cross)
    weights, loadings = newton_start(cross, prior, labels, bias, 3)
    assert weights.shape[1] == loadings.shape[1] == 0
