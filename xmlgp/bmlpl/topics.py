"""Topics as a reader wants them: which ones matter, and the labels that each is about."""

import numpy as np

__all__ = ["top_labels", "topic_shares"]


def topic_shares(counts, frequencies):
    """Return the share of each topic in the positive labels of the training points, T: Σ_k N_k m_kt / Σ_s m_ks, scaled.

    Labels are shared out among topics as the latent counts that they stand for are, so that each counts once, however
    often a topic would have it.

    Parameters
    ----------
    counts : ndarray, K×T
        m_kt.
    frequencies : ndarray of int, K
        N_k, how many points have each label.
    """
    totals = counts.sum(axis=1, dtype=np.float64)
    weights = np.divide(frequencies, totals, out=np.zeros(len(totals)), where=totals > 0)
    found = weights.astype(counts.dtype) @ counts
    if not found.any():
        # Without labels no topic is more than another.
        found = np.ones_like(found)
    return found / found.sum()


def top_labels(topic, count):
    """Return the labels of highest weight in a topic, the highest first, equal ones by label: min(count, K).

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
