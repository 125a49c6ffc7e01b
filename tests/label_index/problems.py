"""Labels in clusters, and points, for tests of the index."""

import numpy as np

from xmlgp.gp.likelihood import Moments
from xmlgp.linear_algebra.dense import product

K, P, BLOBS = 600, 5, 30


def blobs(dtype=np.float32):
    """Return loadings and bias of labels around some centers, and the number of the center of each label."""
    random = np.random.default_rng(0)
    centers = 3 * random.normal(size=(BLOBS, P + 1))
    blob = random.integers(0, BLOBS, K)
    rows = centers[blob] + 0.1 * random.normal(size=(K, P + 1))
    return rows[:, :-1].astype(dtype), rows[:, -1].astype(dtype), blob


def latent_of(count, dtype=np.float32):
    """Return moments of the latent functions of points."""
    random = np.random.default_rng(1)
    return Moments(random.normal(size=(count, P)).astype(dtype), random.random((count, 1)).astype(dtype))


def shrunk_utilities(latent, loadings, bias):
    """Return the mean utilities of all labels divided by √(1 + π/8 of their variance)."""
    variance = latent.variance * np.square(loadings).sum(axis=1)
    return (product(latent.mean, np.ascontiguousarray(loadings.T)) + bias) / np.sqrt(1 + np.pi / 8 * variance)
