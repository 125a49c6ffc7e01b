"""Gradients of the bound by central differences over components and their combinations, and ascent directions."""

import numpy as np
import scipy.sparse as sp

from tests.central_differences import central_differences
from tests.gp.reference import KERNELS, pairs_of, random_labels, random_parameters
from tests.grids import each_value, grid
from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Points
from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.likelihood import AllPairs
from xmlgp.gp.parameters import IndexedRows
from xmlgp.gp.posteriors import POSTERIORS

N, Q, K, M, P = 5, 3, 5, 3, 2


def random_problem(terms, ard, posterior, coordinates, negatives, dtype=np.float64):
    """Return a kernel, random parameters and a minibatch."""
    random = np.random.default_rng(0)
    kernel, parameters = random_parameters(random, terms, ard, posterior, random.normal(size=(M, Q)), P, K, dtype)
    parameters["loadings"] *= dtype(0.5)
    points = 0.4 * random.normal(size=(N, Q)) * (random.random((N, Q)) < 0.6)
    points = Features(sp.csr_array(points)) if coordinates == "sparse" else points
    points = Points(points.astype(dtype), 0.2 * random.random(N).astype(dtype))
    labels = random_labels(random, N, K)
    pairs = AllPairs(labels)
    if negatives == "sampled":
        positives = labels.toarray()
        pairs = pairs_of(positives, [random.permutation(np.flatnonzero(~row))[:2] for row in positives])
        pairs = pairs._replace(weight=pairs.weight.astype(dtype))
    return kernel, parameters, Batch(points, pairs, 1.7)


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


@grid(**COMPONENTS, fixed=[(), ("inducing",)])
def test_gradients_agree_with_central_differences(terms, ard, posterior, coordinates, negatives, fixed):
    kernel, parameters, batch = random_problem(terms, ard, posterior, coordinates, negatives)
    # Small variances and many nodes, so that the quadrature of the derivative is the derivative of the quadrature.
    bound = Bound(Inducing(kernel, POSTERIORS[posterior]), Quadrature(40), fixed)
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
