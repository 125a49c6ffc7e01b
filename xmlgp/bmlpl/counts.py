"""Latent counts: how often each topic brought about each positive label. Where there is no label there is no count."""

from typing import NamedTuple

import numpy as np

from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.threads import in_parts

__all__ = ["Counts", "expected_counts"]

#: A rate below this counts as it, so that a label no topic explains is one topic's or another's all the same.
LEAST_RATE = 1e-30

#: Multiplications that are worth a thread.
GRAIN = 1 << 17


class Counts(NamedTuple):
    """Latent counts, summed up.

    Attributes
    ----------
    points : ndarray, N×T
        m_nt = Σ_k m_nkt, over the labels of each point.
    labels : ndarray, K×T
        m_kt = Σ_n m_nkt, over the points of each label.
    log_likelihood : float
        Σ_nk log p(y_nk | V, u_n).
    """

    points: np.ndarray
    labels: np.ndarray
    log_likelihood: float


def expected_counts(positives, topics, activations):
    """Return the expected latent counts given topics and activations: the E-step.

    With λ_nk = Σ_t v_kt u_nt a positive has E m_nk = λ_nk / (1 − e^(−λ_nk)), the mean of a Poisson variable that is not
    zero, of which topic t has the share v_kt u_nt / λ_nk; a negative has none ([B] (9) to (11)). As each topic sums up
    to one, log p(Y | V, U) = Σ_positives log(e^λ − 1) − Σ_nt u_nt, so that negatives cost nothing here either.

    Parameters
    ----------
    positives : Positives
    topics : ndarray, K×T
        V, columns sum up to one.
    activations : ndarray, N×T
        U.

    Returns
    -------
    Counts
    """
    factors = np.empty(len(positives), topics.dtype)
    points, log_likelihood = np.empty_like(activations), np.empty(len(activations))

    def part(start, stop):
        _expect(positives.indptr, positives.indices, topics, activations, factors, points, log_likelihood, start, stop)

    in_parts(part, len(activations), _grain(positives, topics))
    labels = sparse.product(positives.by_label(factors), activations)
    labels *= topics
    return Counts(points, labels, float(log_likelihood.sum() - activations.sum(dtype=np.float64)))


def _grain(positives, topics):
    """Return how many points are worth a thread."""
    work = max(1, len(positives) * topics.shape[1])
    return max(1, positives.shape[0] * GRAIN // work)


@compiled
def _expect(indptr, indices, topics, activations, factors, points, log_likelihood, start, stop):
    """For each positive E m / λ, for each point its counts and Σ log(e^λ − 1)."""
    for n in range(start, stop):
        own, total = activations[n], points[n]
        total[:] = 0
        likelihood = 0.0
        for e in range(indptr[n], indptr[n + 1]):
            topic = topics[indices[e]]
            rate = own[0] * 0
            for t in range(len(own)):
                rate += topic[t] * own[t]
            wide = max(float(rate), LEAST_RATE)
            not_zero = -np.expm1(-wide)
            factor = 1 / not_zero
            likelihood += np.log(not_zero) + wide
            # Sums of many could overflow single precision where a label is all but impossible.
            factor = min(factor, 1e30)
            factors[e] = factor
            scale = factors[e]
            for t in range(len(own)):
                total[t] += scale * topic[t]
        for t in range(len(own)):
            total[t] *= own[t]
        log_likelihood[n] = likelihood
