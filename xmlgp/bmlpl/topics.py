"""Topics as a reader wants them: which ones matter, and the labels that each is about."""

import numpy as np

from xmlgp.bmlpl.hyperparameters import LEAST_SHAPE
from xmlgp.bmlpl.predictive import LARGEST_LOG_ODDS

__all__ = ["heaviest_labels", "shares"]

#: Bytes of topics that are looked at together: a column by itself would have all pages of the array read for it.
BLOCK = 1 << 24


def shares(topics, intercepts, shapes):
    """Return the share of each topic in the labels expected of a point whose features tell nothing (x = 0), T.

    Topic t alone brings about Σ_k P(y_k = 1) = Σ_k 1 − (1 + v_kt e^ψ_t)^(−r_t) labels, with ψ_t the intercept. It is
    near E u_t = r_t e^ψ_t where labels are rare, but counts a label once, however often the topic would have it.

    Parameters
    ----------
    topics : ndarray, K×T
        V.
    intercepts, shapes : ndarray, T
        ψ and r.
    """
    scales = np.exp(np.clip(intercepts.astype(np.float64), -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS))
    # Below the least that is learned, all of them could come to nothing.
    shapes = np.maximum(shapes.astype(np.float64), LEAST_SHAPE)
    K, T = topics.shape
    expected = np.empty(T)
    size = max(1, BLOCK // (8 * K))
    for start in range(0, T, size):
        block = slice(start, start + size)
        rates = topics[:, block].astype(np.float64)
        rates *= scales[block]
        np.log1p(rates, out=rates)
        with np.errstate(over="ignore"):
            rates *= -shapes[block]
        expected[block] = -np.expm1(rates, out=rates).sum(axis=0)
    return expected / expected.sum()


def heaviest_labels(topic, count):
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
