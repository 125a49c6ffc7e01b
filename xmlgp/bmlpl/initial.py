"""Initial values of the inference methods of BMLPL."""

import numpy as np

from xmlgp.bmlpl.least_squares import INTERCEPT_PRECISION
from xmlgp.bmlpl.positives import Positives

__all__ = ["DEFAULT_TOPICS", "initial_topics", "initial_values", "initial_weights", "reveal_labels", "topic_count"]

#: Default number of topics.
DEFAULT_TOPICS = 200

#: Initial shape r of the prior of activations.
INITIAL_SHAPE = 0.1

#: Weight that all labels together have in each topic, and scale of the random weights of labels without a topic.
BACKGROUND, RANDOM_SCALE = 1e-3, 0.1


def initial_values(feature_count, labels, settings, random):
    """Return V, K×T; W with the intercepts last, (D+1)×T; r, T; and τ with that of the intercepts last, D+1."""
    dtype, N = np.dtype(settings.dtype), max(1, labels.shape[0])
    T = topic_count(settings, labels.shape[1])
    topics = initial_topics(Positives(labels).frequencies() / N, T, random, dtype)
    precisions = np.full(feature_count + 1, settings.precision, dtype)
    precisions[-1] = INTERCEPT_PRECISION
    return topics, *initial_weights(feature_count, T, labels.nnz / N, dtype), precisions


def topic_count(settings, label_count):
    """Return T, at most K, because each topic is initialised from one label."""
    return max(1, min(settings.topics or DEFAULT_TOPICS, label_count))


def reveal_labels(labels, share, random):
    """Return labels of which each positive is kept with probability `share`; the others become unknown.

    A share of 1 keeps all and draws no random number.
    """
    if share == 1:
        return labels
    kept = labels.copy()
    kept.data = random.random(labels.nnz) < share
    kept.eliminate_zeros()
    return kept


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


def initial_weights(feature_count, count, labels_per_point, dtype):
    """Return W, (D+1)×T, and r, T: zero weights, and intercepts with the right mean number of labels."""
    weights, shapes = np.zeros((feature_count + 1, count), dtype), np.full(count, INITIAL_SHAPE, dtype)
    weights[-1] = np.log(max(labels_per_point, np.finfo(np.float32).tiny) / count / INITIAL_SHAPE)
    return weights, shapes
