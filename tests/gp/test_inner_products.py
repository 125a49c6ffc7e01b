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
