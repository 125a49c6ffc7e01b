"""New points join the index of a trained model; nothing is trained."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.dataset import Dataset
from xmlgp.features.pipeline import Preprocessed, check_magnitudes
from xmlgp.features.weighting import count_points, inverse_frequencies
from xmlgp.models.mlgpf.methods import Parameters
from xmlgp.models.mlgpf.predictor import word_scales
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.neighbours.predictions import Neighbours, scaled_words
from xmlgp.training.result import label_counts

__all__ = ["join"]


def join(
    settings: MLGPFSettings,
    preprocessed: Preprocessed,
    parameters: Parameters,
    points: Dataset,
    rows: NDArray[np.integer],
) -> tuple[Preprocessed, Parameters] | None:
    """Return the preprocessing and the parameters of a model whose index new points have joined.

    None if the model has no index. Of the earlier points and the new ones after them, the index has those in `rows`, in
    this order. The points may have more features and labels than the model. What is trained is the same arrays as
    before: it does not know the new features and labels.
    """
    neighbours = Neighbours.of(parameters, points.D, points.K)
    if neighbours is None:
        return None
    preprocessed = _extended(preprocessed, settings.weighting, points, len(rows))
    weighted = preprocessed.weigh(points.features)
    # Training on all of these points would refuse them, too.
    check_magnitudes(weighted.sparse, "train with another weighting")
    words = scaled_words(weighted.sparse, word_scales(parameters, points.D))
    joined = neighbours.extended(words, points.labels, weighted.dense, rows)
    return preprocessed, parameters | joined.parameters() | label_counts(joined.labels)


def _extended(preprocessed: Preprocessed, weighting: str, points: Dataset, N: int) -> Preprocessed:
    """Return preprocessing that weights new features by how many of N points have them; earlier ones as before."""
    idf = preprocessed.weighting.idf
    if idf is None or len(idf) == points.D:
        return preprocessed
    counts = count_points(points.features.sparse)[len(idf) :]
    more = inverse_frequencies(weighting, N, counts)
    return preprocessed._replace(weighting=preprocessed.weighting._replace(idf=np.concatenate([idf, more])))
