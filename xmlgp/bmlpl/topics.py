"""The topics of a trained BMLPL: the share of each in the positive labels, and its labels of highest weight."""

from typing import NamedTuple

import numpy as np

__all__ = ["Topic", "list_topics", "topic_shares"]


class Topic(NamedTuple):
    """A topic, a distribution over labels.

    Attributes
    ----------
    index : int
        Its number, from 0.
    share : float
        Its share in the positive labels of the training points; the shares of all topics sum to 1.
    labels : list of int
        Those of highest weight, the highest first, equal ones by label.
    weights : list of float
        Their probabilities in the topic.
    """

    index: int
    share: float
    labels: list
    weights: list


def list_topics(parameters, top=5):
    """Return the topics of a model (list of `Topic`), highest share first, equal ones by index.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        Of a trained BMLPL.
    top : int
        Number of labels to list of each topic, at least 1; all K labels if there are fewer.
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
