"""Latent counts: how often each topic brought about each positive label. Where there is no label there is no count."""

from typing import NamedTuple

import numpy as np

from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import exponential, logarithm
from xmlgp.runtime.threads import parallel_for

__all__ = ["Counts", "expected_counts"]

#: A rate below this counts as it, so that a label no topic explains is one topic's or another's all the same.
LEAST_RATE = 1e-30

#: Rates up to which 1 − e^(−λ) is computed by its series.
NEAR = 0.1

#: Points that are worked on at a time; sums do not depend on how many cores there are.
ROWS = 128

#: Multiplications that are worth a thread.
GRAIN = 1 << 17


class Counts(NamedTuple):
    """Latent counts, summed up.

    Attributes
    ----------
    by_point : ndarray, N×T
        m_nt = Σ_k m_nkt, over the labels of each point.
    by_label : ndarray, K×T
        m_kt = Σ_n m_nkt, over the points of each label.
    log_likelihood : float
        Σ_nk log p(y_nk | V, u_n).
    """

    by_point: np.ndarray
    by_label: np.ndarray
    log_likelihood: float


def expected_counts(positives, topics, activations, points=None):
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
    points : ndarray, N×T, optional
        Where the counts of points go.

    Returns
    -------
    Counts
    """
    factors = np.empty(len(positives), topics.dtype)
    if points is None:
        points = np.empty_like(activations)
    starts = range(0, len(activations), ROWS)
    log_likelihood = np.zeros(len(starts))

    def part(first, last):
        for i in range(first, last):
            start, stop = starts[i], min(starts[i] + ROWS, len(activations))
            log_likelihood[i] = _expect(
                positives.indptr, positives.indices, topics, activations, factors, points, start, stop
            )

    work = max(1, len(positives) * topics.shape[1])
    parallel_for(part, len(starts), max(1, len(starts) * GRAIN // work))
    labels = sparse.product(positives.by_label(factors), activations)
    labels *= topics
    return Counts(points, labels, float(log_likelihood.sum()))


@compiled
def _expect(indptr, indices, topics, activations, factors, points, start, stop):
    """Fill in for each positive E m / λ and for each point its counts; return Σ_k log(e^λ − 1) − Σ_t u, summed up."""
    real = factors.dtype.type
    first, last = indptr[start], indptr[stop]
    for n in range(start, stop):
        own = activations[n]
        e, end = indptr[n], indptr[n + 1]
        # Four labels at a time: activations are read a quarter as often.
        while e + 4 <= end:
            r0, r1, r2, r3 = real(0), real(0), real(0), real(0)
            v0, v1, v2, v3 = topics[indices[e]], topics[indices[e + 1]], topics[indices[e + 2]], topics[indices[e + 3]]
            for t in range(len(own)):
                u = own[t]
                r0 += v0[t] * u
                r1 += v1[t] * u
                r2 += v2[t] * u
                r3 += v3[t] * u
            factors[e], factors[e + 1], factors[e + 2], factors[e + 3] = r0, r1, r2, r3
            e += 4
        while e < end:
            topic, rate = topics[indices[e]], real(0)
            for t in range(len(own)):
                rate += topic[t] * own[t]
            factors[e] = rate
            e += 1
    total = 0.0
    for e in range(first, last):
        rate = max(factors[e], real(LEAST_RATE))
        # 1 − e^(−λ), by its series where λ is small.
        near = rate * real(-1 / 720) + real(1 / 120)
        near = near * rate + real(-1 / 24)
        near = near * rate + real(1 / 6)
        near = near * rate + real(-1 / 2)
        near = near * rate + real(1)
        not_zero = rate * near if rate < real(NEAR) else real(1) - exponential(-rate)
        factors[e] = real(1) / not_zero
        total += logarithm(not_zero) + rate
    for n in range(start, stop):
        own, sums = activations[n], points[n]
        sparse.row(indices, factors, indptr[n], indptr[n + 1], topics, sums)
        activity = real(0)
        for t in range(len(own)):
            sums[t] *= own[t]
            activity += own[t]
        total -= activity
    return total
