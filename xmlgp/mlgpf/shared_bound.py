"""The bound of a step in weight space with its labels divided among the workers of a Dask cluster.

A step costs most where all points of a minibatch meet all labels of the sample. Each worker computes that for its share
of these labels: it receives the moments of the latent functions, B×P, with the loadings of its labels, and returns the
gradients of both. T, Φ and the optimiser stay in one place, so a lost worker loses nothing.
"""

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.bound import WeightSpaceBound
from xmlgp.gp.expectations import make_expectations
from xmlgp.gp.likelihood import full_log_likelihood
from xmlgp.gp.posteriors import Moments

__all__ = ["SharedBound"]

#: Fewest labels that are worth a message.
LEAST_LABELS = 128


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
        #: As many as there are workers at first: sums in another order would differ in the last digits.
        self._parts = cluster.worker_count

    def _log_likelihood_of(
        self, moments, loadings, bias, labels, value_needed=True, fast=False, linear_term=None, negative_weights=None
    ):
        # There is no linear term: label weights come after the steps.
        count, weights = len(loadings), negative_weights
        bounds = np.linspace(0, count, min(self._parts, max(1, count // LEAST_LABELS)) + 1).astype(int)
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
