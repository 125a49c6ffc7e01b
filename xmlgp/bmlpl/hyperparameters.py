"""Updates of the topics V, the shapes r and the precisions τ."""

import numpy as np

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import logarithm
from xmlgp.runtime.threads import parallel_for

__all__ = ["SHAPE_RATE", "update_precisions", "log_prior_of_topics", "update_shapes", "update_topics"]

#: Rate of the prior of r, Gamma(1, 1).
SHAPE_RATE = 1.0

#: Labels per partial sum, so that results do not depend on the number of cores; least number of elements per thread.
ROWS, GRAIN = 128, 1 << 15

#: Least weight of a label in a logarithm.
TINY = 1e-37

#: Bounds of r and τ, so that their powers are finite.
LEAST_SHAPE, LEAST_PRECISION, LARGEST_PRECISION = 1e-6, 1e-6, 1e6

#: Largest shape: beyond, a gamma distribution is nearly constant.
LARGEST_SHAPE = 1e4


def update_topics(counts, concentration):
    """Return V, K×T, with v_kt = (η + m_kt) / Σ_k (η + m_kt) ([B] (12)); V overwrites the counts m_kt.

    This is the posterior mean of topics and the posterior mode of their logits. It exists for every η, whereas the mode
    of the topics themselves exists for η ≥ 1 only.
    """
    counts += concentration
    counts /= counts.sum(axis=0, dtype=np.float64)
    return counts


def log_prior_of_topics(topics, concentration, added=0):
    """Return η Σ_kt log(v_kt + added), the Dirichlet log density of the logits of topics up to a constant."""
    sums = np.zeros(-(-len(topics) // ROWS))

    def fill(first, last):
        for i in range(first, last):
            sums[i] = _sum_of_logarithms(topics[i * ROWS : (i + 1) * ROWS], added)

    parallel_for(fill, len(sums), -(-GRAIN // max(1, ROWS * topics.shape[1])))
    return float(concentration * sums.sum())


@compiled
def _sum_of_logarithms(values, added):
    real = values.dtype.type
    total = 0.0
    for row in values:
        for t in range(len(row)):
            total += logarithm(max(row[t] + real(added), real(TINY)))
    return total


def update_shapes(shapes, sums, tables=0, rate=SHAPE_RATE):
    """Return r, T, after an EM step, which never lowers Σ_n log NegBin(m_nt; r_t, σ(ψ_nt)) + log Gamma(r_t; 1, 1).

    r ← r Σ_n [Ψ(m_nt + r) − Ψ(r)] / (1 + Σ_n log(1 + e^ψ_nt)). The latent variables are the table counts l ~ CRT(m, r)
    of the Chinese restaurant process, whose mean is r [Ψ(m + r) − Ψ(r)]; given them r has a gamma density. Source: M.
    Zhou, L. Carin, Negative binomial process count and mixture modeling, IEEE TPAMI 37, 2015.

    With another prior, Gamma(1 + a, b), r ← (a + r Σ…) / (b + Σ…). For points that are added to earlier ones, a are the
    table counts (`tables`) and b (`rate`) is 1 + Σ_n log(1 + e^ψ_nt) of the earlier ones.
    """
    updated = (tables + shapes * sums.digamma) / (rate + sums.softplus)
    return np.clip(updated, LEAST_SHAPE, LARGEST_SHAPE).astype(shapes.dtype)


def update_precisions(second_moments, dtype):
    """Return τ_d = T / Σ_t E w_dt², D, which maximises the expected log prior of W (type-II maximum likelihood).

    The second moments, D×T, are E w_dt², or w_dt² of a posterior sample.
    """
    total = second_moments.sum(axis=1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        precisions = second_moments.shape[1] / total
    return np.clip(precisions, LEAST_PRECISION, LARGEST_PRECISION).astype(dtype)
