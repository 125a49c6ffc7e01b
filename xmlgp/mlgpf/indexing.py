"""The index of labels that a trained model keeps, made at the end of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmlgp.label_index.clusters import FEWEST_LABELS, LABEL_INDEX, LabelIndex, cluster_labels
from xmlgp.label_index.search import LabelSearch
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.prediction.selection import searched_count
from xmlgp.regression.neighbours import NEIGHBOURS
from xmlgp.regression.regression import REGRESSION
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.runtime.threads import one_blas_thread

if TYPE_CHECKING:
    from xmlgp.data.features import Features
    from xmlgp.mlgpf.method import Parameters
    from xmlgp.mlgpf.settings import MLGPFSettings
    from xmlgp.preprocess.pipeline import Preprocessed

__all__ = ["with_index"]

#: Points on which the recall is measured.
MEASURED = 500

#: The best labels of each point whose recall is measured.
BEST = 5


def with_index(
    settings: MLGPFSettings, preprocessed: Preprocessed, parameters: Parameters, features: Features
) -> Parameters:
    """Return the parameters of a trained model with an index whose recall is measured on some of these points.

    There is none where labels are few, and none with a regression, whose part of the utility it does not have.
    An index by other latent functions is made anew.
    """
    without = {name: value for name, value in parameters.items() if name not in LABEL_INDEX.arrays}
    K = len(parameters["bias"])
    has_regression = REGRESSION.is_in(parameters) or NEIGHBOURS.is_in(parameters)
    if K < FEWEST_LABELS or has_regression or not features.N:
        return without
    index = LabelIndex.of(parameters)
    if index is None or index.centroids.shape[1] != parameters["loadings"].shape[1]:
        index = cluster_labels(parameters["loadings"], parameters["bias"], settings.seed)
    random = random_stream(settings.seed, Stream.INDEX_POINTS)
    rows = np.sort(random.choice(features.N, min(features.N, MEASURED), replace=False))
    predictor = MLGPFPredictor(settings, preprocessed, without, features.D)
    return without | _measured(index, predictor, features[rows], parameters).parameters()


def _measured(index: LabelIndex, predictor: MLGPFPredictor, features: Features, parameters: Parameters) -> LabelIndex:
    """Return an index with its recall of the best labels of points, found by an exact ranking."""
    features = predictor.filled(features)
    output = predictor.default_output
    labels = [ranked.labels.reshape(ranked.N, -1) for ranked in predictor.top(features, BEST, output)]
    best = np.concatenate(labels)
    with one_blas_thread():
        latent = predictor.prepare(features, output, False).batch.latent
        # Whether a label is among the candidates if all clusters are scanned.
        search = LabelSearch(index, parameters["loadings"], parameters["bias"], len(index.biases))
        candidates = search.candidates(latent, searched_count(BEST, len(parameters["bias"])))
    is_candidate = (best[:, :, None] == candidates[:, None, :]).any(axis=2)
    return index.measured(latent.mean, best, is_candidate)
