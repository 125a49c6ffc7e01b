"""Central differences over every component in every combination, and the bound against what it bounds."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.grids import grid
from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.expectations import EXPECTATIONS, make_expectations
from xmlgp.gp.inner_products import Points
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.label_weights import LABEL_WEIGHTS_FIXED
from xmlgp.gp.likelihood import IndexedRows, Pairs
from xmlgp.gp.posteriors import POSTERIORS

N, Q, K, M, P, D = 7, 5, 6, 4, 3, 8
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


def label_weights(random):
    """Weights of every label but one on some features, of which there are more than coordinates, and those of points.

    One point has no feature, and one feature is neither a point's nor a label's.
    """
    chosen = random.random((K, D)) < 0.5
    chosen[2], chosen[:, 4] = False, False
    columns = np.nonzero(chosen)[1].astype(np.int32)
    parameters = {
        "label_weights.indptr": np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]),
        "label_weights.features": columns,
        "label_weights.mean": random.normal(0, 0.7, len(columns)),
        "label_weights.log_variance": random.normal(-2, 0.3, len(columns)),
        "label_weights.log_prior": random.normal(0, 0.5, D),
    }
    features = 0.5 * random.random((N, D)) * (random.random((N, D)) < 0.5)
    features[1], features[:, 4] = 0, 0
    return parameters, sp.csr_array(features)


def written_out(value, gradients):
    """The same with gradients of some labels as those of all."""
    return value, {name: g.toarray(K) if isinstance(g, IndexedRows) else g for name, g in gradients.items()}


#: The components of a bound and the forms of its data.
COMPONENTS = {
    "terms": KERNELS,
    "ard": [False, True],
    "posterior": list(POSTERIORS),
    "coordinates": ["dense", "sparse"],
    "negatives": ["all", "sampled"],
    "own": [False, True],
}


@grid(**COMPONENTS, expectations=list(EXPECTATIONS))
def test_gradients_agree_with_central_differences(terms, ard, posterior, coordinates, negatives, own, expectations):
    kernel, parameters, points, labels = problem(terms, ard, posterior, coordinates)
    weights, features = label_weights(np.random.default_rng(2)) if own else ({}, None)
    parameters |= weights
    pairs = sampled(labels, np.random.default_rng(1)) if negatives == "sampled" else None
    # Small variances and many nodes: the quadrature of the derivative is then the derivative of the quadrature.
    bound = Bound(kernel, POSTERIORS[posterior], expectations=make_expectations(expectations, 40))
    batch = Batch(points, labels, pairs, 1.7, features)
    _, gradients = bound.value_and_gradients(parameters, batch)
    # Where weights are is no matter of degree.
    assert gradients.keys() == parameters.keys() - LABEL_WEIGHTS_FIXED
    step = 1e-5
    for name, gradient in written_out(None, gradients)[1].items():
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


@pytest.mark.parametrize("own", [False, True], ids=["", "own"])
@pytest.mark.parametrize("negatives", ["all", "sampled"])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_preconditioned_directions_lead_upwards(posterior, negatives, own):
    kernel, parameters, points, labels = problem(("linear",), False, posterior)
    weights, features = label_weights(np.random.default_rng(2)) if own else ({}, None)
    parameters |= weights
    bound = Bound(kernel, POSTERIORS[posterior])
    pairs = sampled(labels, np.random.default_rng(1)) if negatives == "sampled" else None
    batch = Batch(points, labels, pairs, 1.0, features)
    value, gradients = written_out(*bound.value_and_gradients(parameters, batch))
    _, directions = written_out(*bound.value_and_gradients(parameters, batch, for_step=True))
    for name, gradient in gradients.items():
        assert np.vdot(gradient, directions[name]) > 0, name
    # Expectations of a step may err by 1e-4.
    changed = [n for n, g in gradients.items() if np.abs(g - directions[n]).max() > 1e-2 * np.abs(g).max()]
    assert changed == ["posterior.mean"]
    moved = parameters | {name: parameters[name] + 1e-4 * direction for name, direction in directions.items()}
    assert bound.value_and_gradients(moved, batch)[0] > value


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("negatives", ["all", "sampled"])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_bound_of_jaakkola_and_jordan_is_never_above_that_of_quadrature(posterior, negatives, seed):
    kernel, parameters, points, labels = problem(("se",), False, posterior, seed=seed)
    pairs = sampled(labels, np.random.default_rng(1)) if negatives == "sampled" else None
    batch = Batch(points, labels, pairs, 1.7)
    below, above = (
        Bound(kernel, POSTERIORS[posterior], expectations=make_expectations(name, 40)).value_and_gradients(
            parameters, batch
        )[0]
        for name in ("jj", "quadrature")
    )
    # By more than rounding, and by less than a tenth of what there is to lose.
    assert above - 0.1 * abs(above) < below < above - 1e-4
