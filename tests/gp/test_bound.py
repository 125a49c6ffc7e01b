"""Gradients of the bound by central differences over components and their combinations, and ascent directions."""

import numpy as np
import scipy.sparse as sp

from tests.central_differences import central_differences
from tests.gp.reference import FACTORS
from tests.grids import each_value, grid
from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.expectations import EXPECTATIONS, make_expectations
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.inner_products import Points
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.likelihood import IndexedRows, SampledPairs
from xmlgp.gp.posteriors import POSTERIORS

N, Q, K, M, P = 5, 3, 5, 3, 2
KERNELS = [("linear",), ("se",), ("se", "linear")]


def random_problem(terms, ard, posterior, coordinates, negatives, seed=0, dtype=np.float64):
    """Return a kernel, random parameters and a minibatch."""
    random = np.random.default_rng(seed)
    kernel = Kernel(terms, ard)
    parameters = {"inducing": random.normal(size=(M, Q))}
    parameters |= kernel.initial(Q, 1.5, np.float64)
    parameters |= POSTERIORS[posterior].initial(M, P, 0.5, random, np.float64)
    parameters |= {"loadings": 0.4 * random.normal(size=(K, P)), "bias": random.normal(size=K)}
    for name, value in parameters.items():
        noise = random.normal(0, 0.3, value.shape)
        parameters[name] = np.array(value + (np.tril(noise) if name in FACTORS else noise))
    points = 0.4 * random.normal(size=(N, Q)) * (random.random((N, Q)) < 0.6)
    points = sp.csr_array(points) if coordinates == "sparse" else points
    points = Points(points.astype(dtype), 0.2 * random.random(N).astype(dtype))
    labels = sp.csr_array(random.random((N, K)) < 0.3)
    pairs = sample_pairs(labels, np.random.default_rng(1), dtype) if negatives == "sampled" else None
    parameters = {name: value.astype(dtype) for name, value in parameters.items()}
    return kernel, parameters, Batch(points, labels, pairs, 1.7)


def sample_pairs(labels, random, dtype, count=2):
    """Return all positives and `count` negatives of each point, by plain loops."""
    indptr, columns, positive, weight = [0], [], [], []
    for i in range(labels.shape[0]):
        present = set(labels.indices[labels.indptr[i] : labels.indptr[i + 1]])
        absent = [k for k in range(labels.shape[1]) if k not in present]
        chosen = random.choice(absent, min(count, len(absent)), replace=False)
        columns += [*present, *chosen]
        positive += [True] * len(present) + [False] * len(chosen)
        weight += [1.0] * len(present) + [len(absent) / len(chosen)] * len(chosen)
        indptr.append(len(columns))
    return SampledPairs(np.array(indptr), np.array(columns), np.array(positive), np.array(weight, dtype))


def dense_gradients(value, gradients):
    """Return the value and the gradients, with those of some rows as dense arrays."""
    return value, {name: g.toarray(K) if isinstance(g, IndexedRows) else g for name, g in gradients.items()}


#: The components of a bound, and the kinds of data.
COMPONENTS = {
    "terms": KERNELS,
    "ard": [False, True],
    "posterior": list(POSTERIORS),
    "coordinates": ["dense", "sparse"],
    "negatives": ["all", "sampled"],
}


@grid(**COMPONENTS, expectations=list(EXPECTATIONS), fixed=[(), ("inducing",)])
def test_gradients_agree_with_central_differences(terms, ard, posterior, coordinates, negatives, expectations, fixed):
    kernel, parameters, batch = random_problem(terms, ard, posterior, coordinates, negatives)
    # Small variances and many nodes, so that the quadrature of the derivative is the derivative of the quadrature.
    bound = Bound(Inducing(kernel, POSTERIORS[posterior]), make_expectations(expectations, 40), fixed)
    _, gradients = dense_gradients(*bound.value_and_gradients(parameters, batch))
    assert gradients.keys() == parameters.keys() - set(fixed)
    numeric = central_differences(lambda moved: bound.value_and_gradients(moved, batch)[0], parameters, gradients)
    for name, gradient in gradients.items():
        assert gradient.shape == parameters[name].shape
        atol = 1e-6 * np.abs(numeric[name]).max()
        np.testing.assert_allclose(gradient, numeric[name], rtol=1e-6, atol=atol, err_msg=name)


@each_value(posterior=list(POSTERIORS), negatives=["all", "sampled"])
def test_preconditioned_directions_are_ascent_directions(posterior, negatives):
    kernel, parameters, batch = random_problem(("linear",), False, posterior, "dense", negatives)
    bound = Bound(Inducing(kernel, POSTERIORS[posterior]))
    value, gradients = dense_gradients(*bound.value_and_gradients(parameters, batch))
    _, directions = dense_gradients(*bound.value_and_gradients(parameters, batch, for_step=True))
    for name, gradient in gradients.items():
        assert np.vdot(gradient, directions[name]) > 0, name
    # The expectations of a step have errors up to 1e-4.
    changed = [n for n, g in gradients.items() if np.abs(g - directions[n]).max() > 1e-2 * np.abs(g).max()]
    assert changed == ([] if posterior == "cholesky" else ["posterior.mean"])
    moved = parameters | {name: parameters[name] + 1e-4 * direction for name, direction in directions.items()}
    assert bound.value_and_gradients(moved, batch)[0] > value


@each_value(posterior=list(POSTERIORS), negatives=["all", "sampled"])
def test_jaakkola_jordan_bound_is_slightly_below_that_of_quadrature(posterior, negatives):
    kernel, parameters, batch = random_problem(("se",), False, posterior, "dense", negatives)
    below, above = (
        Bound(Inducing(kernel, POSTERIORS[posterior]), make_expectations(name, 40)).value_and_gradients(
            parameters, batch
        )[0]
        for name in ("jj", "quadrature")
    )
    # The difference exceeds rounding errors and is below a tenth of the value.
    assert above - 0.1 * abs(above) < below < above - 1e-4
