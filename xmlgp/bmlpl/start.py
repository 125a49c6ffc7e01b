"""What every inference starts from."""

from typing import NamedTuple

import numpy as np

from xmlgp.bmlpl.least_squares import INTERCEPT_PRECISION
from xmlgp.bmlpl.positives import Positives

__all__ = [
    "USUAL_TOPICS",
    "Start",
    "initial_precisions",
    "initial_topics",
    "initial_weights",
    "revealed",
    "start",
    "topic_count",
]

#: Topics where none are asked for.
USUAL_TOPICS = 200

#: Shape r of the prior of activations to start from.
INITIAL_SHAPE = 0.1

#: Weight in a topic of labels that it does not start from: of all alike, and at random of those no topic starts from.
BACKGROUND, SHARE = 1e-3, 0.1


class Start(NamedTuple):
    """What every inference starts from.

    Attributes
    ----------
    topics : ndarray, K×T
        V.
    weights : ndarray, (D+1)×T
        W, the intercepts last.
    shapes : ndarray, T
        r.
    precisions : ndarray, D+1
        τ, the intercept's last.
    """

    topics: np.ndarray
    weights: np.ndarray
    shapes: np.ndarray
    precisions: np.ndarray


def start(feature_count, labels, settings, random):
    """Return the `Start` of an inference.

    Parameters
    ----------
    feature_count : int
        Number of features, D.
    labels : csr_array of bool, N×K
        Y.
    settings : BMLPLSettings
    random : numpy.random.Generator
    """
    dtype, N = np.dtype(settings.dtype), max(1, labels.shape[0])
    T = topic_count(settings, labels.shape[1])
    topics = initial_topics(Positives(labels).frequencies() / N, T, random, dtype)
    weights, shapes = initial_weights(feature_count, T, labels.nnz / N, dtype)
    return Start(topics, weights, shapes, initial_precisions(feature_count, settings.precision, dtype))


def topic_count(settings, label_count):
    """Return T, at most K: topics start from a label each.

    Parameters
    ----------
    settings : BMLPLSettings
    label_count : int
        K.
    """
    return max(1, min(settings.topics or USUAL_TOPICS, label_count))


def revealed(labels, share, random):
    """Return the labels with each positive kept with the probability `share`, and otherwise taken for unknown.

    Parameters
    ----------
    labels : csr_array of bool, N×K
        Y.
    share : float
        1 keeps all, and draws nothing.
    random : numpy.random.Generator
    """
    if share == 1:
        return labels
    # Compared as such: sums of shares would round.
    kept = labels.copy()
    kept.data = random.random(labels.nnz) < share
    kept.eliminate_zeros()
    return kept


def initial_topics(frequencies, count, random, dtype):
    """Return V, K×T: each topic starts from a label, the most frequent ones.

    Labels that no topic starts from have a little of each at random: what starts alike would stay so.

    Parameters
    ----------
    frequencies : ndarray, K
        Share of the points that have each label.
    count : int
        T, at most K.
    random : numpy.random.Generator
    dtype : dtype
    """
    K = len(frequencies)
    order = np.argsort(-frequencies, kind="stable")
    topics = np.full((K, count), BACKGROUND / K, dtype)
    topics[order[:count], np.arange(count)] = 1
    others = order[count:]
    topics[others] += SHARE * frequencies[others, None] * random.standard_gamma(1, (len(others), count))
    topics /= topics.sum(axis=0)
    return topics


def initial_weights(feature_count, count, positives_a_point, dtype):
    """Return W, (D+1)×T, and r, T: no feature counts, and all topics together bring as many labels as there are.

    Parameters
    ----------
    feature_count : int
        Number of features, D.
    count : int
        T.
    positives_a_point : float
    dtype : dtype
    """
    weights, shapes = np.zeros((feature_count + 1, count), dtype), np.full(count, INITIAL_SHAPE, dtype)
    weights[-1] = np.log(max(positives_a_point, np.finfo(np.float32).tiny) / count / INITIAL_SHAPE)
    return weights, shapes


def initial_precisions(feature_count, precision, dtype):
    """Return τ, D+1.

    Parameters
    ----------
    feature_count : int
        Number of features, D.
    precision : float
        Of all features; the intercept has its own.
    dtype : dtype
    """
    precisions = np.full(feature_count + 1, precision, dtype)
    precisions[-1] = INTERCEPT_PRECISION
    return precisions
