"""Training of MLGPF: what it trains on, the regression that is added, and what held-out points decide."""

import dataclasses
import functools

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.gp.exact_gp import fit_exact_gp, scaled_features
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gp.weight_space import PRIOR
from xmlgp.mlgpf.held_out import HeldOutChoices, calibration_points
from xmlgp.mlgpf.stochastic import StochasticAscent, default_rate
from xmlgp.mlgpf.weight_space import make_model
from xmlgp.mlgpf.weight_space_ascent import WeightSpaceAscent, sweep_count
from xmlgp.preprocess.inputs import Inputs
from xmlgp.preprocess.weighting import weigh_points
from xmlgp.runtime.progress import silent
from xmlgp.training.loop import Loop
from xmlgp.training.retry import RetryOnDivergence
from xmlgp.training.statistics import statistics_of
from xmlgp.training.trained import Trained
from xmlgp.work import THIS_MACHINE

__all__ = ["REGRESSION_RANK", "may_pool", "regression_parameters", "run_inference", "train"]

#: Latent functions of the regression: 100 to 400 rank the validation points of Delicious equally well.
REGRESSION_RANK = 300

#: Most labels for which regression is tried: with more, the few functions say little about most labels; with 10,405 and
#: with 20,765 labels held-out points were ranked worse with it.
REGRESSION_LABELS = 5000


def train(features, labels, preprocessed, settings, progress=silent, checkpoints=None, work=THIS_MACHINE):
    """Train MLGPF as its settings say.

    The points of `calibration_points` are held out. On them probabilities are calibrated, and in weight space it is
    decided whether regression on all points joins, if `may_pool` allows it (`HeldOutChoices`). Then the last sweep of
    weight space trains on them too; without label weights, and with other inducing inputs, only the regression does. If
    training diverges, it restarts once with a lower learning rate (`RetryOnDivergence`).

    Parameters
    ----------
    features : csr_array, N×D
        X as read.
    labels : csr_array of bool, N×K
        Y.
    preprocessed : Preprocessed
    settings : MLGPFSettings
    progress : callable
        See `xmlgp.runtime.progress`.
    checkpoints : CheckpointWriter, optional
        Writes checkpoints, and holds the one to resume from.
    work : ThisMachine or DaskCluster
        Computes the sweeps of weight space; stochastic steps are made here.

    Returns
    -------
    Trained

    Raises
    ------
    TrainingDiverged
        If the bound or a parameter becomes non-finite in the second attempt as well.
    ModelFolderError
        If the checkpoint is damaged.
    ClusterError
        If the cluster is lost.
    """
    coordinates, (N, K) = _coordinates(features, preprocessed, settings, work), labels.shape
    # Held-out points do not change the number of epochs.
    settings = dataclasses.replace(settings, epochs=settings.epoch_count(N))
    trained, held = calibration_points(settings, labels)
    regress = None
    if may_pool(settings, N, K):
        regress = functools.partial(_regressions, coordinates, labels, trained, held, progress)
    hook = None
    if len(held):
        epochs = settings.epochs
        if settings.in_weight_space:
            epochs += sweep_count(settings, N, features.shape[1], K)
        hook = HeldOutChoices(epochs, features, labels, held, preprocessed, settings, regress)
    part = coordinates, labels
    if not settings.in_weight_space and len(held):
        part = coordinates.select(trained), labels[trained]
    arguments = _inference(*part, preprocessed.inducing, settings, work)
    attempts = RetryOnDivergence(lambda rate: Loop(*arguments, rate), default_rate(settings))
    parameters, history = attempts.run(progress, hook, checkpoints)
    if regress and (hook is None or hook.pooled):
        known = hook.regression if hook else None
        parameters |= regress(parameters)[0] if known is None else known
    if hook and hook.coefficients:
        parameters |= {"calibration": np.array(hook.coefficients)}
    parameters |= statistics_of(features, labels)
    return Trained(parameters, history)


def _coordinates(features, preprocessed, settings, work):
    """Return the `Inputs` of the training points."""
    if not settings.in_weight_space:
        return preprocessed.inputs(features, settings.dtype)
    weighted = weigh_points(features, preprocessed.weighting, work)
    return Inputs(weighted, None, settings.dtype, sparse=True)


def may_pool(settings, N, K):
    """Return whether regression may be added.

    Parameters
    ----------
    settings : MLGPFSettings
    N, K : int
    """
    return settings.in_weight_space and 0 < N <= settings.regression_points and K <= REGRESSION_LABELS


def run_inference(coordinates, labels, inducing, settings, progress=silent, after_epoch=None, checkpoints=None):
    """Maximise the bound over all given points, without held-out points, regression or second attempt.

    Parameters
    ----------
    coordinates : Inputs
        Of the N training points.
    labels : csr_array, N×K
        Y.
    inducing : ndarray, M×R or M×D
        Initial A or Z.
    settings, progress, checkpoints
        As in `train`; there is no calibration.
    after_epoch : callable, optional
        See `Loop.run`.

    Returns
    -------
    parameters : dict of str to ndarray
    history : list of dict

    Raises
    ------
    TrainingDiverged, ModelFolderError
        As `train` does.
    """
    settings = dataclasses.replace(settings, calibration=False)
    loop = Loop(*_inference(coordinates, labels, inducing, settings, THIS_MACHINE))
    return loop.run(progress, after_epoch, checkpoints)


def _inference(coordinates, labels, inducing, settings, work):
    """Return the class of the inference, and its arguments before the learning rate."""
    arguments = make_model(settings), coordinates, labels
    if settings.in_weight_space:
        return WeightSpaceAscent, *arguments, work
    return StochasticAscent, *arguments, inducing


def _regressions(coordinates, labels, trained, held, progress, parameters):
    """Return the parameters of the regression on all points, and on all but the held-out ones, if there are any.

    Both have the π and the V of all labels. Features are scaled by the roots of the relevances that the latent
    functions have learned. Both are empty if features are too large for regression, since the model is trained.
    """
    order = np.concatenate([trained, held])
    scales = bounded_exp(parameters[PRIOR], 0.5).astype(np.float32)
    features, labels = scaled_features(coordinates.weighted(order), scales), labels[order]
    try:
        leading = len(trained) if len(held) else None
        found = fit_exact_gp(features, labels, REGRESSION_RANK, progress=progress, leading=leading)
    except NumericalError:
        return {}, {}
    counts = len(order), len(trained)
    return tuple(
        {"regression.scales": scales} | regression_parameters(features[:count], labels[:count], fit)
        for count, fit in zip(counts, found if leading else (found,), strict=False)
    )


def regression_parameters(features, labels, found):
    """Return the parameters of a regression by name.

    Parameters
    ----------
    features : csr_array, N×D
        X, weighted and scaled.
    labels : csr_array, N×K
        Y, which learning on needs.
    found : ExactGPFit
    """
    return {
        "regression.indptr": features.indptr.astype(np.int64),
        "regression.indices": features.indices.astype(np.int32),
        "regression.values": features.data,
        "regression.label_indptr": labels.indptr.astype(np.int64),
        "regression.labels": labels.indices.astype(np.int32),
    } | {f"regression.{name}": value for name, value in found._asdict().items()}
