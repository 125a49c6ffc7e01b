"""The sweep where a model learns on: what stands for the earlier points that are not replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.features import Features
from xmlgp.label_weights.pairs import MeanPoint, PairWeights
from xmlgp.label_weights.pattern import WEIGHTS_LIMIT, label_features
from xmlgp.label_weights.posterior import LabelWeights, WeightsPrior, prior_scales
from xmlgp.mlgpf.sweep import OFFSET_SHARE
from xmlgp.mlgpf.sweep_data import SweepData, SweepPrior
from xmlgp.work import THIS_MACHINE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.mlgpf.learning_problem import LearningProblem
    from xmlgp.mlgpf.method import Parameters
    from xmlgp.mlgpf.replay_selection import Replayed

__all__ = ["learned_sweep_data"]


def learned_sweep_data(
    problem: LearningProblem, old: LabelWeights, shape: tuple[int, int], stepped: Callable[[], Parameters]
) -> SweepData:
    """Return the `SweepData` of so many points and labels, given the label weights of the model.

    `stepped` returns the parameters after stochastic steps.

    Of the earlier points with a label, a share f is replayed. The prior of the label has the posterior of the model for
    the other points (`_prior_without`), and their mean stands for these (`MeanPoint`).
    """
    settings = problem.batch.settings
    replayed = problem.replayed
    swept = problem.swept
    scales = prior_scales(problem.parameters["statistics.labels"][swept], settings.dtype)
    weights, posterior = _swept_weights(problem, old, scales)
    before = problem.counts_before[swept]
    shares = _replayed_shares(problem)
    prior = SweepPrior(_prior_without(posterior, weights.prior_of_training(scales), weights.indptr, shares))
    if replayed:
        pair_weights = PairWeights(replayed.points.weights, shares)
        prior = SweepPrior(prior.weights, pair_weights, replayed.drawn, replayed.population)
    features = problem.all_features
    make_mean_point = None
    if (shares < 1).any():
        mean = _mean_of_earlier(problem)
        features = Features.stack([features, mean])

        def make_mean_point(data: SweepData) -> MeanPoint:
            _, latent, loadings, bias = data.factors
            means = csr_array((posterior.mean, weights.features, weights.indptr), shape=(len(swept), features.D))
            by_weights = (means @ mean.sparse.T).toarray().ravel()
            utility = bias + OFFSET_SHARE * (loadings @ latent[-1]) + by_weights
            return MeanPoint.of(utility, problem.N * (1 - shares), before > 0)

    def swept_parameters() -> Parameters:
        trained = stepped()
        return trained | {name: trained[name][swept] for name in ("loadings", "bias")}

    # A sum, because the draws of a sweep have no key for the points before.
    seed = settings.seed + problem.N
    data = SweepData(THIS_MACHINE, seed, features, shape, swept_parameters, weights, prior, make_mean_point)
    if replayed:
        _take_shortlists(data.shortlist, replayed, len(problem.parameters["bias"]))
    return data


def _swept_weights(
    problem: LearningProblem, weights: LabelWeights, scales: NDArray[np.floating]
) -> tuple[LabelWeights, WeightsPrior]:
    """Return the weights of the labels that are swept, also on features of the batch, and their posterior."""
    swept = problem.swept
    most = max(len(swept), WEIGHTS_LIMIT - len(weights.mean))
    pattern = label_features(problem.features.sparse, csr_array(problem.batch.labels[:, swept]), most)
    return weights.take(swept, pattern, scales)


def _replayed_shares(problem: LearningProblem) -> NDArray[np.float32]:
    """Return the share f of the earlier points with each swept label that is replayed, 1 if there are none."""
    replayed = problem.replayed
    if replayed is None:
        return np.zeros(len(problem.swept), np.float32)
    before = problem.counts_before[problem.swept]
    counts = np.bincount(replayed.points.labels.indices, minlength=len(problem.counts))[problem.swept]
    return np.where(before > 0, counts / np.maximum(before, 1), 1).astype(np.float32)


def _take_shortlists(shortlist: NDArray[np.int32], replayed: Replayed, K: int) -> None:
    """Write the shortlists of the replayed points, of the labels that are swept alone, by their positions in these."""
    positions = np.full(K + 1, -1, np.int32)  # the last one is for −1
    positions[replayed.swept] = np.arange(len(replayed.swept), dtype=np.int32)
    rows = positions[replayed.points.shortlist]
    if len(replayed.swept) < K:
        # Those that remain come first.
        rows = -np.sort(-rows, axis=1)
    width = min(rows.shape[1], shortlist.shape[1])
    shortlist[: len(rows), :width] = rows[:, :width]


def _mean_of_earlier(problem: LearningProblem) -> Features:
    """Return the mean of the earlier points, 1×D, estimated from their document frequencies and from the batch.

    That of dense features is their centre.
    """
    X = problem.features.sparse
    dense = problem.features.dense
    counts = np.bincount(X.indices, minlength=X.shape[1])
    sums = np.bincount(X.indices, X.data, X.shape[1])
    earlier = problem.parameters["statistics.features"] - counts
    mean = sums * earlier / (np.maximum(counts, 1) * max(1, problem.N))
    mean = csr_array(mean[None].astype(X.dtype))
    if dense is None or dense.center is None:
        return Features(mean)
    centers = tuple(dense.center[None, slice(*bounds)] for bounds in dense.bounds())
    return Features(mean, replace(dense, arrays=centers))


def _prior_without(
    posterior: WeightsPrior, prior: WeightsPrior, indptr: NDArray[np.int64], shares: NDArray[np.floating]
) -> WeightsPrior:
    """Return the `WeightsPrior` of labels of which a share f of the earlier points, L, is replayed.

    It has the natural parameters of the prior of training, and 1 − f of what the earlier points added to these.
    """
    rest = np.repeat(1 - shares, np.diff(indptr)).astype(prior.precision.dtype)
    precision = prior.precision + rest * np.maximum(posterior.precision - prior.precision, 0)
    return WeightsPrior(rest * posterior.precision * posterior.mean / precision, precision)
