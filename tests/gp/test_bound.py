"""Central differences over every component in every combination, and the bound against what it bounds."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.factors import Pairs, Rows
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.gp.products import Points

N, Q, K, M, P = 7, 5, 6, 4, 3
KERNELS = [("linear",), ("se",), ("se", "linear")]


def problem(terms, ard, posterior, coordinates="dense", seed=0):
    random = np.random.default_rng(seed)
    kernel = Kernel(terms, ard)
    parameters = {"inducing": random.normal(size=(M, Q))}
    parameters |= kernel.initial(Q, 1.5, np.float64)
    parameters |= POSTERIORS[posterior].initial(M, P, 0.5, random, np.float64)
    parameters |= {"loadings": 0.4 * random.normal(size=(K, P)), "bias": random.normal(size=K)}
    for name, value in parameters.items():
        noise = random.normal(0, 0.3, value.shape)
        parameters[name] = np.array(value + (np.tril(noise) if name == "posterior.factor" else noise))
    points = 0.4 * random.normal(size=(N, Q)) * (random.random((N, Q)) < 0.6)
    points = sp.csr_array(points) if coordinates == "sparse" else points
    residual = 0.2 * random.random(N)
    labels = sp.csr_array(random.random((N, K)) < 0.3)
    return kernel, parameters, Points(points, residual), labels


def sampled(labels, random, count=2):
    """Pairs written out in loops: positives, then `count` of the other labels."""
    indptr, columns, positive, weight = [0], [], [], []
    for i in range(labels.shape[0]):
        present = set(labels.indices[labels.indptr[i] : labels.indptr[i + 1]])
        absent = [k for k in range(labels.shape[1]) if k not in present]
        chosen = random.choice(absent, min(count, len(absent)), replace=False)
        columns += [*present, *chosen]
        positive += [True] * len(present) + [False] * len(chosen)
        weight += [1.0] * len(present) + [len(absent) / len(chosen)] * len(chosen)
        indptr.append(len(columns))
    return Pairs(np.array(indptr), np.array(columns), np.array(positive), np.array(weight))


COMBINATIONS = list(itertools.product(KERNELS, [False, True], POSTERIORS, ["dense", "sparse"], ["all", "sampled"]))


@pytest.mark.parametrize(("terms", "ard", "posterior", "coordinates", "negatives"), COMBINATIONS)
def test_gradients_agree_with_central_differences(terms, ard, posterior, coordinates, negatives):
    kernel, parameters, points, labels = problem(terms, ard, posterior, coordinates)
    pairs = sampled(labels, np.random.default_rng(1)) if negatives == "sampled" else None
    # Small variances and many nodes: the quadrature of the derivative is then the derivative of the quadrature.
    bound = Bound(kernel, POSTERIORS[posterior], nodes=40)
    batch = Batch(points, labels, pairs, scale=1.7)
    _, gradients = bound.value_and_gradients(parameters, batch)
    assert gradients.keys() == parameters.keys()
    step = 1e-5
    for name, gradient in gradients.items():
        gradient = gradient.toarray(K) if isinstance(gradient, Rows) else gradient
        assert gradient.shape == parameters[name].shape
        numeric = np.zeros_like(gradient)
        for index in np.ndindex(gradient.shape):
            if name == "posterior.factor" and index[2] > index[1]:
                continue  # above the diagonal of a lower triangle
            values = []
            for sign in (1, -1):
                moved = dict(parameters)
                moved[name] = parameters[name].copy()
                moved[name][index] += sign * step
                values.append(bound.value_and_gradients(moved, batch)[0])
            numeric[index] = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max(), err_msg=name)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_preconditioned_directions_lead_upwards(posterior):
    kernel, parameters, points, labels = problem(("linear",), False, posterior)
    bound = Bound(kernel, POSTERIORS[posterior])
    batch = Batch(points, labels, None, scale=1.0)
    value, gradients = bound.value_and_gradients(parameters, batch)
    _, directions = bound.value_and_gradients(parameters, batch, for_step=True)
    for name, gradient in gradients.items():
        assert np.vdot(gradient, directions[name]) > 0, name
    # Expectations of a step may err by 1e-4.
    changed = [n for n, g in gradients.items() if np.abs(g - directions[n]).max() > 1e-2 * np.abs(g).max()]
    assert changed == ["posterior.mean"]
    moved = {name: value + 1e-4 * directions[name] for name, value in parameters.items()}
    assert bound.value_and_gradients(moved, batch)[0] > value
