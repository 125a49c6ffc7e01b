"""The bound against log p(Y), by brute force on tiny problems, and against its dense definition."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.gp.reference import (
    KERNELS,
    conditional,
    gaussian_kl,
    inducing_posterior,
    log_evidence,
    log_likelihood,
    random_labels,
    random_parameters,
    scikit_covariances,
)
from xmlgp.features.inputs import Points
from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.likelihood import AllPairs
from xmlgp.gp.posteriors import POSTERIORS

EVERY_POSTERIOR = pytest.mark.parametrize("name", POSTERIORS)

#: Points, latent functions and quadrature nodes per axis of log p(Y), whose grid has N·P axes.
SIZES = pytest.mark.parametrize(("points", "factors", "grid"), [(3, 1, 32), (2, 2, 12)], ids=["P=1", "P=2"])

LABELS, DIMENSION, NODES = 2, 2, 40

HYPERPARAMETERS = ("kernel.se.log_variance", "kernel.se.log_lengthscale")


def problem(name, points, factors, inducing, seed, noise=1.0):
    """Return a kernel, random parameters and a data set as one minibatch.

    Data, kernel, Φ and b depend on the seed only, not on the posterior. Without `inducing`, Z = X.
    """
    random = np.random.default_rng(seed)
    rows = random.normal(size=(points, DIMENSION))
    batch = Batch(Points(rows, np.zeros(points)), AllPairs(random_labels(random, points, LABELS, 0.5)), scale=1.0)
    start = rows.copy() if inducing is None else random.normal(size=(inducing, DIMENSION))
    model = {"loadings": random.normal(0, 0.7, (LABELS, factors)), "bias": random.normal(size=LABELS)}
    model |= {key: np.array(random.uniform(-0.7, 0.7)) for key in HYPERPARAMETERS}
    kernel, parameters = random_parameters(random, ("se",), False, name, start, factors, LABELS, noise=noise)
    return kernel, parameters | model, batch


def evidence_of(parameters, batch, grid):
    """Return log p(Y)."""
    rows = batch.points.coordinates
    prior = scikit_covariances(("se",), parameters, rows, rows)[2]
    return log_evidence(prior, parameters["loadings"], parameters["bias"], batch.likelihood.positives.toarray(), grid)


def maximised(bound, parameters, batch):
    """Return the parameters that maximise the bound, by L-BFGS with its gradients."""
    names = sorted(parameters.keys() - bound.fixed)
    shapes = [parameters[name].shape for name in names]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def unpack(vector):
        arrays = [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes, strict=True)]
        return parameters | dict(zip(names, arrays, strict=True))

    def objective(vector):
        value, gradients = bound.value_and_gradients(unpack(vector), batch)
        return -value, -np.concatenate([gradients[name].ravel() for name in names])

    start = np.concatenate([parameters[name].ravel() for name in names])
    options = {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-7}
    return unpack(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)


def value_of(bound, parameters, batch):
    return bound.value_and_gradients(parameters, batch)[0]


@SIZES
def test_optimal_bounds_are_ordered_and_close_to_the_evidence(points, factors, grid):
    optimum = {}
    for name in POSTERIORS:
        kernel, parameters, batch = problem(name, points, factors, None, 0)
        fixed = {"inducing", "loadings", "bias", *HYPERPARAMETERS}
        bound = Bound(Inducing(kernel, POSTERIORS[name]), Quadrature(NODES), fixed)
        optimum[name] = value_of(bound, maximised(bound, parameters, batch), batch)
    evidence = evidence_of(parameters, batch, grid)
    assert all(value <= evidence + 1e-5 for value in optimum.values())
    # The remaining difference is due to a normal q and, for P > 1, to independent latent functions.
    assert optimum["diagonal"] >= evidence - 0.03
    assert optimum["shared-diagonal"] <= optimum["diagonal"] + 1e-6
    if factors == 1:
        assert optimum["shared-diagonal"] == pytest.approx(optimum["diagonal"], abs=1e-9)
    # With Z = X the optimal covariance is (K⁻¹ + Λ⁻¹)⁻¹ with a diagonal Λ, so the full posterior is not better.
    assert optimum["cholesky"] == pytest.approx(optimum["diagonal"], abs=1e-5)


@EVERY_POSTERIOR
@pytest.mark.parametrize("terms", KERNELS, ids="+".join)
@pytest.mark.parametrize("ard", [False, True], ids=["plain", "ard"])
@pytest.mark.parametrize("dimension", [5, 9], ids=["whole", "subspace"])
def test_bound_agrees_with_its_dense_definition(name, terms, ard, dimension):
    # In the subspace 4 of 9 dimensions are residual, with a relevance of one.
    random = np.random.default_rng(8)
    points, inducing, coordinates, factors, labels, scale = 5, 4, 5, 3, 4, 2.5
    rows = 0.7 * random.normal(size=(points, dimension))
    start = random.normal(size=(inducing, coordinates))
    kernel, parameters = random_parameters(random, terms, ard, name, start, factors, labels)
    positives = random_labels(random, points, labels)
    residual = (rows[:, coordinates:] ** 2).sum(axis=1)
    batch = Batch(Points(rows[:, :coordinates].copy(), residual), AllPairs(positives), scale)
    value = value_of(Bound(Inducing(kernel, POSTERIORS[name]), Quadrature(80)), parameters, batch)

    padding = dimension - coordinates
    dense = {key: np.pad(value, (0, padding)) if "relevance" in key else value for key, value in parameters.items()}
    dense["inducing"] = np.pad(start, [(0, 0), (0, padding)])
    K_BZ, K_Z, K_B = scikit_covariances(terms, dense, rows, dense["inducing"])
    posteriors = [inducing_posterior(name, parameters, K_Z, p) for p in range(factors)]
    latent = [conditional(K_BZ, K_Z, K_B, *posterior) for posterior in posteriors]
    mean = np.stack([mean for mean, _ in latent], axis=1)
    variance = np.stack([np.diagonal(covariance) for _, covariance in latent], axis=1)
    expected = scale * log_likelihood(mean, variance, parameters["loadings"], parameters["bias"], positives.toarray())
    expected -= sum(gaussian_kl(*posterior, K_Z) for posterior in posteriors)
    assert value == pytest.approx(expected, rel=1e-5 if name == "cholesky" else 1e-8)
