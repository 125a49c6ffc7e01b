"""Small problems for BMLPL, and inferences that are ready to step."""

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs
from xmlgp.features.pipeline import Preprocessed
from xmlgp.features.weighting import Weighting
from xmlgp.models.bmlpl.inference import Problem
from xmlgp.models.bmlpl.settings import BMLPLSettings

__all__ = ["UNWEIGHTED", "clustered", "problem", "start_inference", "unrelated"]

UNWEIGHTED = Preprocessed(Weighting.named("none", None), None, None)


def problem(N=25, D=6, K=5, seed=0):
    """Return features, and labels that depend on them; the first point and the last label have no positives."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(N, D)) * (random.random((N, D)) < 0.6)
    labels = features @ random.normal(size=(D, K)) + random.normal(size=(N, K)) > 1
    if N > 1:
        labels[0] = False
    if K > 1:
        labels[:, -1] = False
    return features, labels


def unrelated(N=12, D=4, K=5, seed=0):
    """Return features, and labels that do not depend on them."""
    random = np.random.default_rng(seed)
    return random.normal(size=(N, D)) * (random.random((N, D)) < 0.7), random.random((N, K)) < 0.3


def clustered(N=300, K=12, kinds=4, seed=0):
    """Return features of points in clusters, and labels that depend on the cluster and on chance."""
    random = np.random.default_rng(seed)
    kind = random.integers(kinds, size=N)
    features = np.eye(kinds)[kind] + 0.05 * random.normal(size=(N, kinds))
    likely = np.where(np.arange(K) % kinds == kind[:, None], 0.6, 0.02)
    return features, random.random((N, K)) < likely


def start_inference(features, labels, **chosen):
    """Return an inference at its initial values, by default in double precision."""
    settings = BMLPLSettings(**{"dtype": "float64"} | chosen)
    coordinates = Inputs(Features(sp.csr_array(np.asarray(features, settings.dtype))), None, settings.dtype)
    random = np.random.default_rng(settings.seed)
    problem = Problem(coordinates, sp.csr_array(labels), settings)
    return settings.method.load()(problem, random)
