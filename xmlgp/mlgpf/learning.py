"""Learning on: MLGPF with new points, labels and features, where the posterior of what it knows is the prior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.label_weights.posterior import LabelWeights
from xmlgp.mlgpf.growth import grown_parameters
from xmlgp.mlgpf.incremental import IncrementalTraining
from xmlgp.mlgpf.indexing import with_updated_index
from xmlgp.mlgpf.learning_problem import LearningProblem
from xmlgp.mlgpf.method import Problem
from xmlgp.mlgpf.replay import ReplayBuffer, bounded
from xmlgp.mlgpf.replay_selection import select_replayed
from xmlgp.regression.fitting import add_points
from xmlgp.regression.neighbours import NeighbourRegression, add_neighbours
from xmlgp.regression.regression import Regression, scaled_features
from xmlgp.runtime.progress import silent
from xmlgp.runtime.random_streams import Stream
from xmlgp.training.loop import Loop
from xmlgp.training.trained import TRAIN_AGAIN, Trained, statistics_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from xmlgp.data.features import Features
    from xmlgp.mlgpf.settings import MLGPFSettings
    from xmlgp.preprocess.pipeline import Preprocessed
    from xmlgp.preprocess.weighting import Weighting
    from xmlgp.runtime.progress import Progress
    from xmlgp.training.checkpoints import CheckpointWriter
    from xmlgp.training.trained import Earlier

__all__ = ["learn"]

AnyRegression = TypeVar("AnyRegression", Regression, NeighbourRegression)


def learn(
    earlier: Earlier[MLGPFSettings],
    features: Features,
    labels: csr_array,
    preprocessed: Preprocessed,
    progress: Progress = silent,
    checkpoints: CheckpointWriter | None = None,
) -> Trained:
    """Learn on: the posterior of what a trained MLGPF knows is the prior of what a batch of points says.

    See `Model.learn`. Earlier points that are not replayed (`xmlgp.mlgpf.replay`) are known by the posterior q₀: the
    bound that is maximised is that of training over the points of the batch and those that are replayed, with
    KL[q(u) ‖ q₀(u)] and KL[q(W) ‖ q₀(W)] in place of the divergences from the priors, for the labels of the batch and
    those that `Replayed` adds. Kernel and inducing inputs have no posterior and stay. Where all earlier points are
    replayed, all of T, Φ, b and W move. Otherwise the loadings of known labels stay, and the bias of each label changes
    as the log odds of its frequency. New labels get loadings and label weights, new features weights. A regression on
    all points gets the new ones (`xmlgp.regression.fitting.add_points`), and so does that on neighbours. The history is
    that of this batch.

    Raises
    ------
    SettingsError
        If an earlier version trained the model, so that it lacks what is needed.
    TrainingDiverged, ModelFolderError
        As training does.
    """
    settings = earlier.settings
    method = settings.load_method()
    _check_complete(earlier.parameters, method.has_label_weights)
    n, K = labels.shape
    parameters = grown_parameters(earlier, statistics_of(features, labels), n)
    coordinates = preprocessed.inputs(features, settings.dtype)
    buffer = ReplayBuffer.of(earlier.parameters, features.D, K)
    history: list[dict[str, Any]] = []
    shortlist = None
    if labels.nnz:
        problem = Problem(settings, features, labels, preprocessed, coordinates)
        replayed = buffer and select_replayed(buffer, parameters, problem, earlier.N)
        loop = Loop(IncrementalTraining, LearningProblem(method, problem, parameters, earlier.N, replayed))
        _, history = loop.run(progress, None, checkpoints)
        parameters = loop.inference.model()
        shortlist = loop.inference.shortlist
        if buffer and replayed and buffer.shortlist is not None and replayed.shortlist is not None:
            shortlist = np.concatenate([buffer.shortlist, replayed.shortlist])
    if buffer and n:
        buffer = buffer.extended(features, labels, shortlist)
        parameters |= bounded(buffer, parameters["statistics.labels"], earlier.N + n, settings).parameters()
    regression = Regression.of(parameters, features.D)
    if regression and n:
        regression = _reweighted(regression, earlier, preprocessed.weighting)
        weighted = coordinates.weighted(slice(None))
        if regression.features.dense is None:
            weighted = Features(weighted.sparse)
        seed = [settings.seed, Stream.REGRESSION_POINTS, earlier.N]
        parameters |= add_points(regression, weighted, labels, seed).parameters()
    neighbours = NeighbourRegression.of(earlier.parameters, earlier.D, earlier.K)
    if neighbours and n:
        neighbours = _reweighted(neighbours, earlier, preprocessed.weighting)
        parameters |= add_neighbours(neighbours, coordinates.weighted(slice(None)), labels).parameters()
    parameters = with_updated_index(settings, preprocessed, parameters, features)
    return Trained(parameters, history)


def _check_complete(parameters: Mapping[str, NDArray[Any]], has_label_weights: bool) -> None:
    """Raise SettingsError if an earlier version trained the model, so that it lacks what learning on needs."""
    lacks_labels = "regression.weights" in parameters and "regression.labels" not in parameters
    if lacks_labels or (LabelWeights.of(parameters) and not has_label_weights):
        raise SettingsError(TRAIN_AGAIN)


def _reweighted(regression: AnyRegression, earlier: Earlier[MLGPFSettings], weighting: Weighting) -> AnyRegression:
    """Return the regression, its points weighted by the `weighting` of all points, those of the batch too."""
    if weighting.idf is None:
        return regression
    ratio = np.ones(regression.features.D, np.float32)
    ratio[: earlier.D] = weighting.idf[: earlier.D] / earlier.preprocessed.weighting.idf
    # Points keep their length, so the ratio of weights suffices.
    return regression._replace(features=scaled_features(regression.features, ratio))
