"""Summaries of topics: their shares of the labels, and their labels of highest weight."""

import numpy as np

__all__ = ["top_labels", "topic_shares"]


def topic_shares(counts, frequencies):
    """Return the share of each topic in the positive labels of the training points, T.

    It is proportional to Σ_k N_k m_kt / Σ_s m_ks: each positive label counts once and is divided among topics in
    proportion to its latent counts.

    Parameters
    ----------
    counts : ndarray, K×T
        m_kt.
    frequencies : ndarray of int, K
        N_k, the number of points of each label.
    """
    totals = counts.sum(axis=1, dtype=np.float64)
    weights = np.divide(frequencies, totals, out=np.zeros(len(totals)), where=totals > 0)
    shares = weights.astype(counts.dtype) @ counts
    if not shares.any():
        # Without positive labels all topics have the same share.
        shares = np.ones_like(shares)
    return shares / shares.sum()


def top_labels(topic, count):
    """Return the min(count, K) labels of highest weight in a topic, in descending order of weight, ties by label.

    Parameters
    ----------
    topic : ndarray, K
        A column of V.
    count : int
    """
    count = min(count, len(topic))
    least = np.partition(topic, len(topic) - count)[len(topic) - count]
    labels = np.flatnonzero(topic >= least)
    return labels[np.argsort(-topic[labels], kind="stable")[:count]]
