"""Single precision is close to double precision, and no intermediate result is of double precision."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.gp.reference import KERNELS, covariances_of, pairs_of, random_labels, random_parameters
from tests.grids import each_value
from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Points
from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.likelihood import AllPairs
from xmlgp.gp.parameters import IndexedRows
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.linear_algebra import cholesky

B, M, D, P, K = 60, 50, 80, 7, 40

every_combination = each_value(posterior=list(POSTERIORS), terms=KERNELS, ard=[False, True], sampled=[False, True])


def problem(terms, ard, posterior, sampled, dtype):
    """Return the same random problem in either precision, with rows of about unit norm and M < D."""
    random = np.random.default_rng(10)
    kernel, parameters = random_parameters(
        random, terms, ard, posterior, random.normal(size=(M, D)) / np.sqrt(D), P, K, dtype, noise=0.1
    )
    rows = random.normal(size=(B, D)) * (random.random((B, D)) < 0.3) / np.sqrt(0.3 * D)
    labels = random_labels(random, B, K, 0.1)
    positives = labels.toarray()
    pairs = pairs_of(positives, [random.choice(np.flatnonzero(~row), 5, replace=False) for row in positives])
    pairs = pairs._replace(weight=pairs.weight.astype(dtype))
    rows, residual = rows.astype(dtype), (0.1 * random.random(B)).astype(dtype)
    points = Points(Features(sp.csr_array(rows)) if sampled else rows, residual)
    return kernel, parameters, Batch(points, pairs if sampled else AllPairs(labels), scale=3.5)


def double_paths(item, path=""):
    """Return the paths of arrays and numbers of double precision in nested tuples, lists, mappings and objects."""
    if isinstance(item, np.ndarray | np.generic | sp.sparray):
        return [path] if item.dtype == np.float64 else []
    if isinstance(item, dict):
        return [inner for key, value in item.items() for inner in double_paths(value, f"{path}.{key}")]
    if isinstance(item, tuple | list):
        return [inner for index, value in enumerate(item) for inner in double_paths(value, f"{path}[{index}]")]
    return double_paths(vars(item), path) if hasattr(item, "__dict__") else []


@every_combination
def test_single_precision_is_close_to_double(terms, ard, posterior, sampled, monkeypatch):
    # With the same jitter in both precisions.
    single = np.dtype(np.float32)
    monkeypatch.setitem(cholesky.INDUCING_JITTER, np.dtype(np.float64), cholesky.INDUCING_JITTER[single])
    results = []
    for dtype in (np.float64, np.float32):
        kernel, parameters, batch = problem(terms, ard, posterior, sampled, dtype)
        results.append(Bound(Inducing(kernel, POSTERIORS[posterior])).value_and_gradients(parameters, batch))
    (value, gradients), (single_value, single_gradients) = results
    assert single_value == pytest.approx(value, rel=2e-6)
    for name, gradient in gradients.items():
        single_gradient = single_gradients[name]
        if isinstance(gradient, IndexedRows):
            gradient, single_gradient = gradient.toarray(K), single_gradient.toarray(K)
        assert single_gradient.dtype == single
        error = np.linalg.norm(single_gradient - gradient)
        assert error <= 2e-5 * np.linalg.norm(gradient), name


@every_combination
def test_no_intermediate_result_is_of_double_precision(terms, ard, posterior, sampled):
    kernel, parameters, batch = problem(terms, ard, posterior, sampled, np.float32)
    chosen = POSTERIORS[posterior]
    covariances, kernel_tape = covariances_of(kernel, parameters, batch.points)
    prepared = chosen.prepare(parameters, covariances.K_Z)
    moments, kl, posterior_tape = chosen.forward(prepared, covariances)
    d_covariances, d_posterior = chosen.backward(posterior_tape, moments)
    d_kernel = kernel.backward(kernel_tape, Covariances(*d_covariances))
    _, gradients = Bound(Inducing(kernel, chosen)).value_and_gradients(parameters, batch)
    everything = {
        "covariances": covariances, "kernel_tape": kernel_tape, "moments": moments, "kl": kl,
        "posterior_tape": posterior_tape, "d_covariances": d_covariances, "d_posterior": d_posterior,
        "d_kernel": d_kernel, "gradients": gradients,
    }  # fmt: skip
    assert double_paths(everything) == []
