"""The memory that training of MLGPF needs at least, before it begins."""

import numpy as np

from xmlgp.gp.label_weights import label_weight_count
from xmlgp.mlgpf.held_out import calibration_points
from xmlgp.mlgpf.stochastic import optimiser_of
from xmlgp.mlgpf.sweep import shortlist_length
from xmlgp.mlgpf.train import may_pool
from xmlgp.mlgpf.weight_space_ascent import sweep_count
from xmlgp.model import MemoryPart

__all__ = ["memory_parts"]


def memory_parts(settings, dataset):
    """Return the largest arrays of training (list of `MemoryPart`); see `Model.memory`.

    They are those of the part that needs most: the stochastic steps, or in weight space the sweeps or the regression.

    Parameters
    ----------
    settings : MLGPFSettings
    dataset : Dataset
    """
    if settings.in_weight_space:
        stages = [_stochastic_steps(settings, dataset)]
        if sweep_count(settings, *dataset.shape):
            stages.append(_sweeps(settings, dataset))
        if may_pool(settings, dataset.N, dataset.K):
            advice = "regression_points=0 avoids that"
            stages.append([MemoryPart("the covariances of exact GP regression", 4 * dataset.N**2, advice)])
    else:
        stages = [_with_inducing_inputs(settings, dataset)]
    return max(stages, key=lambda parts: sum(part.size for part in parts))


def _with_inducing_inputs(settings, dataset):
    itemsize = np.dtype(settings.dtype).itemsize
    copies = 1 + len(optimiser_of(settings).statistics)
    return [_loadings(copies * itemsize * dataset.K * settings.factor_count)]


def _stochastic_steps(settings, dataset):
    _, D, K = dataset.shape
    itemsize, P = np.dtype(settings.dtype).itemsize, settings.factor_count
    copies = 1 + len(optimiser_of(settings).statistics)
    parts = [_loadings(copies * itemsize * (D + K) * P), _features(settings, dataset)]
    if settings.label_sample >= K:
        advice = "a smaller label_sample leaves most of it out"
        parts.append(MemoryPart("the gradient by the loadings of all labels", itemsize * K * P, advice))
    return parts


def _sweeps(settings, dataset):
    N, D, K = dataset.shape
    itemsize, P = np.dtype(settings.dtype).itemsize, settings.factor_count
    weights = label_weight_count(dataset.features, dataset.labels)
    # Shortlists, and W: pattern, means and logarithms of variances.
    shortlists = 4 * shortlist_length(N, K) * N
    kept = shortlists + (4 + 2 * itemsize) * weights + 8 * K
    # Shortlists are found, after the first sweep, with variances and with W by feature; so is the calibration. Later,
    # the points of each label are known.
    held = len(calibration_points(settings, dataset.labels)[1])
    by_feature = (4 + 3 * itemsize) * weights if held or sweep_count(settings, N, D, K) > 1 else 0
    working = max(by_feature, shortlists + 4 * dataset.labels.nnz)
    return [
        _loadings(itemsize * (N + D + K) * P),
        _label_weights(kept + working),
        _features(settings, dataset),
    ]


def _loadings(size):
    return MemoryPart("the latent functions", size, "fewer factors lower that")


def _label_weights(size):
    return MemoryPart("label weights", size, "label_weights=false avoids that")


def _features(settings, dataset):
    # As read they are in a file that is mapped into memory, or in memory already.
    weighted = np.dtype(settings.dtype).itemsize * dataset.features.nnz if settings.weighting != "none" else 0
    return MemoryPart("weighted features", weighted)
