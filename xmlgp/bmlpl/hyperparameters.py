"""Updates of what has a prior of its own or none: topics V, shapes r and precisions τ."""

import numpy as np

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import logarithm
from xmlgp.runtime.threads import parallel_for

__all__ = ["SHAPE_RATE", "update_precisions", "log_prior_of_topics", "update_shapes", "update_topics"]

#: Rate of the prior of r, Gamma(1, 1).
SHAPE_RATE = 1.0

#: Labels over which sums are taken in a row, and elements that are worth a thread.
ROWS, GRAIN = 128, 1 << 15

#: Topics give a label at least so much, so that there is a logarithm.
TINY = 1e-37

#: r and τ are held within these, where powers of them are numbers yet.
LEAST_SHAPE, LEAST_PRECISION, LARGEST_PRECISION = 1e-6, 1e-6, 1e6

#: Beyond this a gamma distribution hardly varies, so that a greater r says no more.
LARGEST_SHAPE = 1e4


def update_topics(counts, concentration):
    """Return V, K×T, with v_kt = (η + m_kt) / Σ_k (η + m_kt).

    It is the mode of the posterior of the logits of topics, and the mean of that of topics ([B] (12)): there is one for
    every η, where the mode of the topics themselves asks for η of 1 or more.

    Parameters
    ----------
    counts : ndarray, K×T
        m_kt, of labels and topics; taken as the place of V.
    concentration : float
        η.
    """
    counts += concentration
    counts /= counts.sum(axis=0, dtype=np.float64)
    return counts


def log_prior_of_topics(topics, concentration, added=0):
    """Return η Σ_kt log v_kt: the logarithm of the Dirichlet density of the logits, without its constant.

    Parameters
    ----------
    topics : ndarray, K×T
        V.
    concentration : float
        η.
    added : float
        What is to be added to each element of V before.
    """
    sums = np.zeros(-(-len(topics) // ROWS))

    def part(first, last):
        for i in range(first, last):
            sums[i] = _sum_of_logarithms(topics[i * ROWS : (i + 1) * ROWS], added)

    parallel_for(part, len(sums), -(-GRAIN // max(1, ROWS * topics.shape[1])))
    return float(concentration * sums.sum())


@compiled
def _sum_of_logarithms(values, added):
    real = values.dtype.type
    total = 0.0
    for row in values:
        for t in range(len(row)):
            total += logarithm(max(row[t] + real(added), real(TINY)))
    return total


def update_shapes(shapes, activated):
    """Return r, T, after a step that never lowers Σ_n log NegBin(m_nt; r_t, σ(ψ_nt)) + log Gamma(r_t; 1, 1).

    r ← r Σ_n [Ψ(m_nt + r) − Ψ(r)] / (1 + Σ_n log(1 + e^ψ_nt)): with the number of tables that m customers sit down at,
    l ~ CRT(m, r), as a latent variable, r has a gamma density, and the sum is the mean of l.

    Parameters
    ----------
    shapes : ndarray, T
        r.
    activated : ActivationSums
    """
    found = shapes * activated.digamma / (SHAPE_RATE + activated.softplus)
    return np.clip(found, LEAST_SHAPE, LARGEST_SHAPE).astype(shapes.dtype)


def update_precisions(second_moments, dtype):
    """Return τ_d = T / Σ_t E w_dt², D: the maximum of the expected log likelihood (type-II maximum likelihood).

    Parameters
    ----------
    second_moments : ndarray, D×T
        E w_dt², or w_dt² of a draw from the posterior.
    dtype : dtype
        Of τ.
    """
    total = second_moments.sum(axis=1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        found = second_moments.shape[1] / total
    return np.clip(found, LEAST_PRECISION, LARGEST_PRECISION).astype(dtype)
