"""The bound of a step in weight space with its labels divided among the workers of a Dask cluster.

A step costs most where all points of a minibatch meet all labels of the sample. Where that takes long enough
(`xmlgp.mlgpf.step_division`), each worker computes it for its share of these labels: it receives the moments of the
latent functions, B×P, with the loadings of its labels, and returns the gradients of both. T, Φ and the optimiser stay
in one place, so a lost worker loses nothing.
"""

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.bound import WeightSpaceBound
from xmlgp.gp.expectations import make_expectations
from xmlgp.gp.likelihood import full_log_likelihood
from xmlgp.gp.posteriors import Moments
from xmlgp.mlgpf.step_division import best_parts

__all__ = ["SharedBound"]

#: Seconds of one core for a point, a label and a latent function: 11 ms on two cores for 500, 1815 and 200.
CORE_SECONDS = 1.2e-10


class SharedBound(WeightSpaceBound):
    """`WeightSpaceBound`, whose expected log likelihood is a sum over parts of the labels.

    Parameters
    ----------
    cluster : Cluster
    latent : WeightSpace
    settings : MLGPFSettings
    """

    def __init__(self, cluster, latent, settings):
        self._how = settings.expectations, settings.nodes
        super().__init__(latent, make_expectations(*self._how))
        self._cluster = cluster

    def _log_likelihood_of(
        self, moments, loadings, bias, labels, value_needed=True, fast=False, linear_term=None, negative_weights=None
    ):
        # There is no linear term: label weights come after the steps.
        (B, count), P, weights = labels.shape, loadings.shape[1], negative_weights
        itemsize = loadings.itemsize
        number = best_parts(
            CORE_SECONDS * B * count * P, lambda parts: 2 * itemsize * P * (B + count / parts), self._cluster
        )
        if not number:
            return super()._log_likelihood_of(
                moments, loadings, bias, labels, value_needed=value_needed, fast=fast, negative_weights=weights
            )
        bounds = np.linspace(0, count, number + 1).astype(int)
        by_label = labels.tocsc()
        parts = []
        for start, stop in zip(bounds, bounds[1:], strict=False):
            first, last = by_label.indptr[[start, stop]]
            positives = by_label.indptr[start : stop + 1] - first, by_label.indices[first:last]
            some = loadings[start:stop], bias[start:stop], None if weights is None else weights[start:stop]
            parts.append((self._how, *moments, *some, *positives, value_needed, fast))
        values, d_means, d_variances, d_loadings, d_biases = zip(*self._cluster.call(_part, parts), strict=True)
        gradients = {"loadings": np.concatenate(d_loadings), "bias": np.concatenate(d_biases)}
        return sum(values) if value_needed else None, Moments(sum(d_means), sum(d_variances)), gradients


def _part(how, mean, variance, loadings, bias, weights, starts, points, value_needed, fast):
    """Return the log likelihood of some labels and its gradients by the moments, Φ and b."""
    shape = len(mean), len(loadings)
    labels = sp.csc_array((np.ones(len(points), bool), points, starts), shape=shape).tocsr()
    # Messages are read-only, for which compiled loops would be compiled again.
    moments, loadings = Moments(mean.copy(), variance.copy()), loadings.copy()
    value, d_moments, gradients = full_log_likelihood(
        moments,
        loadings,
        bias.copy(),
        labels,
        make_expectations(*how),
        value_needed=value_needed,
        fast=fast,
        negative_weights=None if weights is None else weights.copy(),
    )
    return value, *d_moments, gradients["loadings"], gradients["bias"]
