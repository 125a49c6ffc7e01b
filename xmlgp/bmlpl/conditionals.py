"""Draws from the conditional posteriors of BMLPL, for Gibbs sampling ([B] section 3.1)."""

import numpy as np

from xmlgp.bmlpl.activations import LARGEST_EXPONENT, softplus_sums
from xmlgp.bmlpl.counts import LEAST_RATE, Counts
from xmlgp.bmlpl.hyperparameters import LEAST_SHAPE, SHAPE_RATE
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["sample_activations", "sample_counts", "sample_omega", "sample_shapes", "sample_topics"]

#: Rates above this are drawn as of a Poisson variable that may be zero, which it is once in 10¹³.
LARGE_RATE = 30

#: Counts are drawn one by one; more than so many a positive label are none that labels call for, but numbers lost.
MOST_COUNTS = 1000

#: Log odds beyond which a Pólya–Gamma variable is drawn as an inverse Gaussian one, which it is there to 11 digits; the
#: package polyagamma returns up to three times too large ones from 30 on.
LARGE_LOG_ODDS = 25

#: The package polyagamma takes no first parameter below 1e-4.
LEAST_TOTAL = 1e-3

#: Activations are not below this, so that their logarithms are numbers.
LEAST_ACTIVATION = 1e-30


def sample_counts(positives, topics, activations, random):
    """Return latent counts given topics and activations (`Counts`).

    m_nk ~ Poisson(λ_nk), not zero, for every positive, and each of them is of topic t with probability
    v_kt u_nt / λ_nk ([B] (10) and (11)).

    Parameters
    ----------
    positives : Positives
    topics : ndarray, K×T
        V.
    activations : ndarray, N×T
        U.
    random : numpy.random.Generator

    Raises
    ------
    NumericalError
        Where the rates of all positives together are far beyond what labels call for.
    """
    rates, log_likelihood = np.empty(len(positives)), np.empty(len(activations))
    pattern = positives.indptr, positives.indices

    def part(start, stop):
        _rates(*pattern, topics, activations, rates, log_likelihood, start, stop)

    parallel_for(part, len(activations), 256)
    if not rates.sum() <= MOST_COUNTS * len(rates):
        raise NumericalError(f"a positive label has more than {MOST_COUNTS} latent counts on average")
    totals = _positive_poisson(rates, random.random(len(rates)))
    large = rates > LARGE_RATE
    totals[large] = np.maximum(random.poisson(rates[large]), 1)
    ends = np.concatenate([[0], np.cumsum(totals)])
    uniform = random.random(ends[-1])
    chosen = np.empty(ends[-1], np.int32)
    points = np.zeros_like(activations)

    def choose(start, stop):
        _choose(*pattern, topics, activations, rates, ends, uniform, chosen, points, start, stop)

    parallel_for(choose, len(activations), 256)
    labels = np.zeros_like(topics)
    _add_up(positives.indices, ends, chosen, labels)
    return Counts(points, labels, float(log_likelihood.sum() - activations.sum(dtype=np.float64)))


def sample_topics(counts, concentration, random):
    """Return V, K×T: columns from Dirichlet(η + m_kt) ([B] (12)).

    Parameters
    ----------
    counts : ndarray, K×T
        m_kt.
    concentration : float
        η.
    random : numpy.random.Generator
    """
    # Where η is small a gamma variable underflows; Γ(a) has the law of Γ(a + 1) U^(1/a).
    shape = counts + concentration
    logarithms = np.log(random.standard_gamma(shape + 1)) + np.log1p(-random.random(shape.shape)) / shape
    logarithms -= logarithms.max(axis=0)
    topics = np.exp(logarithms, out=logarithms)
    topics /= topics.sum(axis=0)
    return topics.astype(counts.dtype, copy=False)


def sample_omega(counts, log_odds, shapes, random):
    """Return Pólya–Gamma variables ω_nt ~ PG(m_nt + r_t, ψ_nt), N×T ([B] section 3.1).

    Where |ψ| is large, cosh(ψ/2) is e^(|ψ|/2)/2, and with h = m + r the Laplace transform is that of an inverse
    Gaussian variable of mean h/(2|ψ|) and shape h²/4. Elsewhere, where h is below ε = `LEAST_TOTAL`, as of topics that
    bring about nothing, it is PG(ε, ψ) with probability h/ε and otherwise 0: that has the same mean, and the same law
    as far as ε is small.

    Parameters
    ----------
    counts, log_odds : ndarray, N×T
        m and ψ.
    shapes : ndarray, T
        r.
    random : numpy.random.Generator
    """
    from polyagamma import random_polyagamma

    # It takes arrays of double precision.
    h, z = (np.asarray(array, np.float64) for array in (counts + shapes, np.abs(log_odds)))
    large = z > LARGE_LOG_ODDS
    few = ~large & (h < LEAST_TOTAL)
    drawn = random_polyagamma(np.maximum(h, LEAST_TOTAL), np.where(large, 0, z), random_state=random)
    drawn[few] *= random.random(np.count_nonzero(few)) * LEAST_TOTAL < h[few]
    drawn[large] = random.wald(h[large] / (2 * z[large]), np.square(h[large]) / 4)
    return drawn.astype(counts.dtype, copy=False)


def sample_activations(counts, log_odds, shapes, random):
    """Return activations u_nt ~ Gamma(r_t + m_nt, scale σ(ψ_nt)), N×T ([B] (13)).

    Parameters
    ----------
    counts, log_odds : ndarray, N×T
        m and ψ.
    shapes : ndarray, T
        r.
    random : numpy.random.Generator
    """
    drawn = random.standard_gamma(counts + shapes).astype(counts.dtype, copy=False)
    drawn /= 1 + np.exp(np.clip(-log_odds, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    return np.maximum(drawn, LEAST_ACTIVATION, out=drawn)


def sample_shapes(counts, log_odds, shapes, random):
    """Return r_t ~ Gamma(1 + Σ_n l_nt, rate 1 + Σ_n log(1 + e^ψ_nt)), T, with l_nt ~ CRT(m_nt, r_t).

    Activations are integrated out: they are to be drawn afterwards.

    Parameters
    ----------
    counts, log_odds : ndarray, N×T
        m and ψ.
    shapes : ndarray, T
        r so far.
    random : numpy.random.Generator
    """
    # Customer j of a restaurant sits down at a table of its own with probability r/(r + j), j from 0 on.
    points, topics = np.nonzero(counts)
    customers = counts[points, topics].astype(np.int64)
    owner = np.repeat(topics, customers)
    order = np.arange(len(owner)) - np.repeat(np.cumsum(customers) - customers, customers)
    r = shapes.astype(np.float64)
    own_table = random.random(len(owner)) * (r[owner] + order) < r[owner]
    tables = np.bincount(owner[own_table], minlength=len(r))
    drawn = random.standard_gamma(1 + tables) / (SHAPE_RATE + softplus_sums(log_odds))
    return np.maximum(drawn, LEAST_SHAPE).astype(shapes.dtype)


@compiled
def _rates(indptr, indices, topics, activations, rates, log_likelihood, start, stop):
    for n in range(start, stop):
        own = activations[n]
        likelihood = 0.0
        for e in range(indptr[n], indptr[n + 1]):
            topic = topics[indices[e]]
            rate = 0.0
            for t in range(len(own)):
                rate += float(topic[t]) * own[t]
            rates[e] = max(rate, LEAST_RATE)
            likelihood += np.log(-np.expm1(-rates[e])) + rates[e]
        log_likelihood[n] = likelihood


@compiled
def _positive_poisson(rates, uniform):
    """Return a draw from each Poisson distribution without zero, by its distribution function."""
    drawn = np.ones(len(rates), np.int64)
    for e in range(len(rates)):
        rate = rates[e]
        if rate > LARGE_RATE:
            continue
        # In terms of e^λ − 1, of which small rates keep all digits.
        term, left = rate, uniform[e] * np.expm1(rate)
        m = 1
        while left > term and m < 1000:
            left -= term
            m += 1
            term *= rate / m
        drawn[e] = m
    return drawn


@compiled
def _choose(indptr, indices, topics, activations, rates, ends, uniform, chosen, points, start, stop):
    for n in range(start, stop):
        own = activations[n]
        for e in range(indptr[n], indptr[n + 1]):
            topic = topics[indices[e]]
            for i in range(ends[e], ends[e + 1]):
                left = uniform[i] * rates[e]
                t = 0
                while t + 1 < len(own):
                    left -= float(topic[t]) * own[t]
                    if left < 0:
                        break
                    t += 1
                chosen[i] = t
                points[n, t] += 1


@compiled
def _add_up(indices, ends, chosen, labels):
    for e in range(len(indices)):
        for i in range(ends[e], ends[e + 1]):
            labels[indices[e], chosen[i]] += 1
