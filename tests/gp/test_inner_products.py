"""Inner products against plain loops, and their gradients against exact differences."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.gp import inner_products
from xmlgp.gp.inner_products import Covariances, Points

B, M, R = 5, 4, 6


@pytest.fixture(params=["dense", "sparse"])
def points(request):
    random = np.random.default_rng(0)
    coordinates = random.normal(size=(B, R)) * (random.random((B, R)) < 0.5)
    coordinates[2] = 0
    return Points(sp.csr_array(coordinates) if request.param == "sparse" else coordinates, random.random(B))


@pytest.fixture
def inducing():
    return np.random.default_rng(1).normal(size=(M, R))


@pytest.fixture(params=[False, True], ids=["plain", "ard"])
def log_relevance(request):
    return np.random.default_rng(2).normal(size=R) if request.param else None


def forward(points, inducing, log_relevance):
    K_Z, scaled = inner_products.forward_inducing(inducing, log_relevance)
    K_BZ, norms, tape = inner_products.forward_points(points, scaled)
    return Covariances(K_BZ, K_Z, norms), tape


def test_forward_agrees_with_loops(points, inducing, log_relevance):
    weight = np.ones(R) if log_relevance is None else np.exp(log_relevance)
    rows = points.coordinates.toarray() if sp.issparse(points.coordinates) else points.coordinates
    values, _ = forward(points, inducing, log_relevance)
    for i, m in np.ndindex(B, M):
        assert values.K_BZ[i, m] == pytest.approx(sum(weight * rows[i] * inducing[m]))
    for m, n in np.ndindex(M, M):
        assert values.K_Z[m, n] == pytest.approx(sum(weight * inducing[m] * inducing[n]))
    for i in range(B):
        assert values.K_diag[i] == pytest.approx(sum(weight * rows[i] ** 2) + points.residual[i])


def test_backward_agrees_with_exact_differences(points, inducing, log_relevance):
    # The products are quadratic in A and linear in the relevances, so central differences are exact for any step.
    random = np.random.default_rng(3)
    values, tape = forward(points, inducing, log_relevance)
    d_products = Covariances(*(random.normal(size=value.shape) for value in values))
    d_inducing, d_log_relevance = inner_products.backward(tape, d_products)

    def weighted_sum(moved, relevance):
        result, _ = forward(points, moved, relevance)
        return sum(np.vdot(gradient, value) for gradient, value in zip(d_products, result, strict=True))

    step = random.normal(size=inducing.shape)
    difference = weighted_sum(inducing + step, log_relevance) - weighted_sum(inducing - step, log_relevance)
    np.testing.assert_allclose(np.vdot(d_inducing, step), difference / 2, rtol=1e-12)
    if log_relevance is None:
        assert d_log_relevance is None
        return
    relevance, step = np.exp(log_relevance), 0.5 * np.exp(log_relevance) * random.uniform(-1, 1, R)
    difference = weighted_sum(inducing, np.log(relevance + step)) - weighted_sum(inducing, np.log(relevance - step))
    np.testing.assert_allclose(np.vdot(d_log_relevance / relevance, step), difference / 2, rtol=1e-12)


def test_gradient_by_relevances_does_not_need_that_by_inducing_inputs(points, inducing, log_relevance):
    values, tape = forward(points, inducing, log_relevance)
    _, expected = inner_products.backward(tape, values)
    d_inducing, d_log_relevance = inner_products.backward(tape, values, inducing_needed=False)
    assert d_inducing is None
    if log_relevance is None:
        assert d_log_relevance is None
    else:
        np.testing.assert_allclose(d_log_relevance, expected, rtol=1e-12)
