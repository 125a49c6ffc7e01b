"""The topics V, distributions over labels: initial values, updates, their prior, their shares, and lists for users."""

from typing import NamedTuple

import numpy as np

from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import logarithm
from xmlgp.runtime.threads import parallel_for

__all__ = ["Topic", "initial_topics", "list_topics", "log_prior_of_topics", "topic_shares", "update_topics"]

#: Weight that all labels together have in each initial topic, and scale of the random weights of labels without one.
BACKGROUND, RANDOM_SCALE = 1e-3, 0.1

#: Labels per partial sum, so that results do not depend on the number of cores; least number of elements per thread.
ROWS, GRAIN = 128, 1 << 15

#: Least weight of a label in a logarithm.
TINY = 1e-37


def initial_topics(frequencies, count, random, dtype):
    """Return V, K×T: each of the T most frequent labels dominates one topic.

    The other labels have small random weights in all topics, because labels with equal weights would keep them equal.
    """
    K = len(frequencies)
    order = np.argsort(-frequencies, kind="stable")
    topics = np.full((K, count), BACKGROUND / K, dtype)
    topics[order[:count], np.arange(count)] = 1
    others = order[count:]
    topics[others] += RANDOM_SCALE * frequencies[others, None] * random.standard_gamma(1, (len(others), count))
    topics /= topics.sum(axis=0)
    return topics


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


def topic_shares(counts, frequencies):
    """Return the share of each topic in the positive labels, T, given m_kt, K×T, and N_k, K, the points of each label.

    It is proportional to Σ_k N_k m_kt / Σ_s m_ks: each positive label counts once and is divided among topics in
    proportion to its latent counts.
    """
    totals = counts.sum(axis=1, dtype=np.float64)
    weights = np.divide(frequencies, totals, out=np.zeros(len(totals)), where=totals > 0)
    shares = weights.astype(counts.dtype) @ counts
    if not shares.any():
        # Without positive labels all topics have the same share.
        shares = np.ones_like(shares)
    return shares / shares.sum()


class Topic(NamedTuple):
    """A topic: its number, its share in the positive labels, and its labels of highest weight with their weights.

    The number counts from 0. The shares of all topics sum to 1. The highest label is the first, equal ones are in the
    order of labels; weights are probabilities in the topic.
    """

    index: int
    share: float
    labels: list
    weights: list


def list_topics(parameters, top=5):
    """Return the topics of a trained model (list of `Topic`) with at most `top` labels, highest share first.

    Equal ones are listed by index.
    """
    topics, shares = parameters["topics"], parameters["shares"]
    listed = []
    for index in np.argsort(-shares, kind="stable").tolist():
        topic = np.ascontiguousarray(topics[:, index], np.float64)
        labels = _top_labels(topic, top)
        listed.append(Topic(index, float(shares[index]), labels.tolist(), topic[labels].tolist()))
    return listed


def _top_labels(topic, count):
    """Return the min(count, K) labels of highest weight in descending order of weight, ties by label."""
    count = min(count, len(topic))
    least = np.partition(topic, len(topic) - count)[len(topic) - count]
    labels = np.flatnonzero(topic >= least)
    return labels[np.argsort(-topic[labels], kind="stable")[:count]]
