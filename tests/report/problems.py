"""Reports of small data: probabilities and labels that are written as tables."""

import numpy as np
from scipy.sparse import csr_array

from xmlgp.prediction.contributions import Contributions
from xmlgp.prediction.scores_file import Scores

__all__ = ["explain", "labels_of", "ranked", "random_problem"]


def ranked(probabilities, k=None):
    """Return the k best labels of each point as `Scores`, of a table of all probabilities."""
    probabilities = np.asarray(probabilities, float)
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(probabilities, order, axis=1)
    return Scores.from_top(order.astype(np.int32), values, probabilities.shape[1])


def labels_of(sets, K):
    """Return true labels as a csr_array, of a sequence of sets."""
    table = np.zeros((len(sets), K), bool)
    for row, true in zip(table, sets, strict=True):
        row[list(true)] = True
    return csr_array(table)


def random_problem(N, K, seed=0):
    """Return probabilities, N×K, and labels that are true as often as they say."""
    random = np.random.default_rng(seed)
    p = random.beta(0.3, 1.5, (N, K))
    return p, csr_array(random.random((N, K)) < p)


def explain(features, scores):
    """Return contributions of all D features to the utilities of pairs, with their sign alternating."""
    pairs, D = len(scores.labels), features.D
    values = np.random.default_rng(scores.labels[0]).random((pairs, D)) * (-1) ** np.arange(D)
    indices = np.tile(np.arange(D), pairs)
    return Contributions(np.arange(pairs + 1) * D, indices, values.ravel(), np.zeros(pairs))
