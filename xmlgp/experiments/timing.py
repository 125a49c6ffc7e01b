"""The two times in table 2 of [S]: of the bound and of its KL divergences alone, each with its gradients."""

import statistics
import time

import numpy as np

from xmlgp.gp.inner_products import Points
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.mlgpf.model import MLGPF
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.minibatches import make_batch

__all__ = ["time_bound"]

#: Number of evaluations; their median counts.
ROUNDS = 5


def time_bound(settings, parameters, coordinates, labels):
    """Measure one evaluation of the bound on a minibatch and one of its KL terms, each with its gradients."""
    model = MLGPF(settings)
    rows = np.arange(min(settings.batch_size, labels.shape[0]))
    batch = make_batch(coordinates, labels, rows)
    no_points = Points(np.empty((0, coordinates.dimension), coordinates.dtype), np.empty(0, coordinates.dtype))

    def kl_terms():
        covariances, kernel_tape = model.kernel.forward(parameters, no_points)
        moments, _, tape = model.posterior.forward(parameters, covariances)
        # Without points the likelihood has no gradient.
        d_covariances, _ = model.posterior.backward(tape, Moments(*moments), d_kl=-1)
        model.kernel.backward(kernel_tape, d_covariances, "inducing" not in model.bound.fixed)

    with one_blas_thread():
        return {
            "bound_s": _median_seconds(lambda: model.bound.value_and_gradients(parameters, batch)),
            "kl_s": _median_seconds(kl_terms),
        }


def _median_seconds(action):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
