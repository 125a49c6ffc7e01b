"""Small data sets and hypothesis settings that tests of several packages share."""

import numpy as np
import scipy.sparse as sp
from hypothesis import settings

from xmlgp.data.dataset import Dataset, Features

__all__ = ["DETERMINISTIC", "paired_dataset", "small_dataset", "small_features"]

#: The same examples in every run, without a time limit.
DETERMINISTIC = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def small_features(N=40, D=25, density=0.25, seed=0, scale=1.0):
    """Return sparse nonnegative features, N×D, as a csr_array of float32."""
    random = np.random.default_rng(seed)
    present = random.random((N, D)) < density
    return sp.csr_array((scale * present * random.gamma(2.0, size=(N, D))).astype(np.float32))


def small_dataset(N=40, D=25, K=7, seed=0):
    """Return points whose features determine their labels; some have no label."""
    random = np.random.default_rng(seed + 1)
    features = small_features(N, D, seed=seed)
    utilities = features @ random.normal(size=(D, K)) - 2 + 0.1 * random.normal(size=(N, K))
    return Dataset(Features(features), sp.csr_array(utilities > 0))


def paired_dataset(N=100, D=25, K=7, seed=0):
    """Return points with two of six features; each pair of features has its own labels, which no linear model can rank.

    The other features are in no point.
    """
    random = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(np.ones((6, 6)), 1))
    labels = random.random((len(pairs), K)) < 0.2
    kinds = random.integers(len(pairs), size=N)
    features = np.zeros((N, D), np.float32)
    features[np.arange(N)[:, None], pairs[kinds]] = 1
    return Dataset(Features(sp.csr_array(features)), sp.csr_array(labels[kinds]))
