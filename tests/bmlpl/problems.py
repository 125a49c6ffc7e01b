"""Inferences of BMLPL on small problems, ready to make steps."""

import numpy as np
import scipy.sparse as sp

from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.preprocess.coordinates import Coordinates

__all__ = ["begun", "ordinary", "problem", "separable"]


def problem(N=25, D=6, K=5, seed=0):
    """Features and labels that have to do with each other; the first point and the last label have none."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(N, D)) * (random.random((N, D)) < 0.6)
    labels = features @ random.normal(size=(D, K)) + random.normal(size=(N, K)) > 1
    if N > 1:
        labels[0] = False
    if K > 1:
        labels[:, -1] = False
    return features, labels


def ordinary(N=12, D=4, K=5, seed=0):
    """Features and labels that have nothing to do with each other."""
    random = np.random.default_rng(seed)
    return random.normal(size=(N, D)) * (random.random((N, D)) < 0.7), random.random((N, K)) < 0.3


def separable(N=300, K=12, kinds=4, seed=0):
    """Each point is of a kind, which its features tell, and has the labels of that kind but for a few."""
    random = np.random.default_rng(seed)
    kind = random.integers(kinds, size=N)
    features = np.eye(kinds)[kind] + 0.05 * random.normal(size=(N, kinds))
    likely = np.where(np.arange(K) % kinds == kind[:, None], 0.6, 0.02)
    return features, random.random((N, K)) < likely


def begun(features, labels, **chosen):
    """An inference with its start; in double precision unless told otherwise."""
    settings = BMLPLSettings(**{"dtype": "float64"} | chosen)
    coordinates = Coordinates(sp.csr_array(np.asarray(features, settings.dtype)), None, settings.dtype)
    random = np.random.default_rng(settings.seed)
    return settings.method.load()(coordinates, sp.csr_array(labels), settings, random)
