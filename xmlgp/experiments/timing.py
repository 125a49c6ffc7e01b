"""The two times in table 2 of [S]: of the bound and of its KL divergences alone, each with its gradients."""

import statistics
import time

import numpy as np

from xmlgp.gp.bound import Bound
from xmlgp.gp.inner_products import Points
from xmlgp.mlgpf.inducing import InducingMethod
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.minibatches import make_batch

__all__ = ["time_bound"]

#: Number of evaluations; their median counts.
ROUNDS = 5


def time_bound(settings, parameters, coordinates, labels):
    """Measure one evaluation of the bound on a minibatch and one of its KL terms, each with its gradients."""
    method = InducingMethod(settings)
    latent, bound = method.latent, Bound(method.latent, method.expectations)
    rows = np.arange(min(settings.batch_size, labels.shape[0]))
    batch = make_batch(coordinates, labels, rows)
    no_points = Points(np.empty((0, coordinates.dimension), coordinates.dtype), np.empty(0, coordinates.dtype))

    def kl_terms():
        moments, _, tape = latent.forward(parameters, no_points)
        # Without points the likelihood has no gradient.
        latent.backward(tape, moments)

    with one_blas_thread():
        return {
            "bound_s": _median_seconds(lambda: bound.value_and_gradients(parameters, batch)),
            "kl_s": _median_seconds(kl_terms),
        }


def _median_seconds(action):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
