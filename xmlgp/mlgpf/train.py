"""Training of MLGPF: when it stops, what it trains on, and the regression that is added."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.gp.exact_gp import fit_exact_gp, scaled_features
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.mlgpf.held_out import CalibrationAfterEpoch, HeldOut, calibration_points, can_judge
from xmlgp.mlgpf.stochastic import StochasticAscent, default_rate
from xmlgp.mlgpf.weight_space import make_model
from xmlgp.mlgpf.weight_space_ascent import WeightSpaceAscent, sweep_count
from xmlgp.preprocess.coordinates import Coordinates
from xmlgp.preprocess.weighting import weigh_points
from xmlgp.runtime.progress import silent
from xmlgp.training.loop import Loop
from xmlgp.training.retry import RetryOnDivergence
from xmlgp.training.statistics import statistics_of
from xmlgp.training.stopping import WINDOW, EarlyStopping, hold_out
from xmlgp.training.trained import Trained
from xmlgp.work import THIS_MACHINE

__all__ = ["REGRESSION_RANK", "may_pool", "regression_parameters", "run_inference", "train"]

#: Latent functions of the regression: 100 to 400 rank the validation points of Delicious equally well.
REGRESSION_RANK = 300

#: Most labels for which regression is tried: with more, the few functions say little about most labels; with 10,405 and
#: with 20,765 labels held-out points were ranked worse with it.
REGRESSION_LABELS = 5000

#: Regression is added unless nDCG@5 of the held-out points, in percent, is lower with it by this. A few hundred points
#: often rank equally well with and without; on test points of Bibtex precision is higher with it in such cases.
POOL_TOLERANCE = 0.5


class _Plan(NamedTuple):
    """Choices for the final training run; known once the held-out points have been ranked.

    Attributes
    ----------
    epochs : int or None
    learning_rate : float
    pooled : bool
        Whether regression is added.
    validation : list of dict or None
        History of the training without the held-out points.
    calibration : list of float or None
        Coefficients of the calibration of probabilities.
    """

    epochs: int | None
    learning_rate: float
    pooled: bool
    validation: list | None
    calibration: list | None


def train(features, labels, preprocessed, settings, progress=silent, checkpoints=None, work=THIS_MACHINE):
    """Train MLGPF as its settings say.

    With a validation part of enough points with labels (`can_judge`), and more than one label to rank, training on the
    other points stops when nDCG@5 of the validation part has not risen for `settings.patience` epochs. With
    `settings.refit` it also stops after half of the epochs, and all points are then trained on: for all epochs if the
    nDCG was highest in the last `WINDOW` epochs of that half, otherwise for the best number. Without `settings.refit`
    the best parameters are kept. Regression on all points is added if `settings.regression_points` allows it, there are
    at most `REGRESSION_LABELS` labels, and the validation part, if there is one, is not ranked worse with it
    (`POOL_TOLERANCE`). If training diverges, it restarts once with a lower learning rate (`RetryOnDivergence`). In
    weight space there is no early stopping and no regression.

    With `settings.calibration` probabilities are calibrated on points that are held out, if there are any: the
    validation part, or in weight space those of `calibration_points`, on which only the last sweep trains.

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
        The history is that of the training run that the parameters come from.

    Raises
    ------
    TrainingDiverged
        If the bound or a parameter becomes non-finite in the second attempt as well.
    ModelFolderError
        If the checkpoint is damaged.
    ClusterError
        If the cluster is lost.
    """
    coordinates, inducing = _coordinates(features, preprocessed, settings, work), preprocessed.inducing
    count, label_count = labels.shape
    pooled = may_pool(settings, *labels.shape)
    hook = _calibration_hook(features, labels, preprocessed, settings) if settings.in_weight_space else None
    # Its own random stream: what training draws does not depend on whether points are held out.
    trained, held = hold_out(count, settings.validation, np.random.default_rng([settings.seed, 1]))
    plan, parameters = _stored_plan(checkpoints), None
    stops = not settings.in_weight_space and label_count > 1 and can_judge(labels, held) and labels[trained].nnz
    if plan is None and stops:
        part, others = ((coordinates.select(rows), labels[rows]) for rows in (trained, held))
        held_out = HeldOut(features[held], *others, preprocessed, settings)
        plan, parameters = _train_on_part(part, held_out, inducing, settings, pooled, progress, checkpoints)
    elif plan is None:
        plan = _Plan(settings.epoch_count(count), default_rate(settings), pooled, None, None)
    history, calibration = plan.validation, plan.calibration
    if history is None or settings.refit:
        parameters = None  # frees memory
        settings = dataclasses.replace(settings, epochs=plan.epochs)
        attempts = _attempts(coordinates, labels, inducing, settings, plan.learning_rate, work)
        facts = {"part": "all points", "plan": plan._asdict(), "spent": history[-1]["seconds"] if history else 0.0}
        parameters, history = attempts.run(progress, hook, checkpoints, facts)
        calibration = hook.coefficients if hook else calibration
    if plan.pooled:
        parameters |= _regression(coordinates, labels, parameters, settings, progress)
    if calibration:
        parameters |= {"calibration": np.array(calibration)}
    parameters |= statistics_of(features, labels)
    return Trained(parameters, history, plan.validation)


def _coordinates(features, preprocessed, settings, work):
    """Return the `Coordinates` of the training points."""
    if not settings.in_weight_space:
        return preprocessed.coordinates(features, settings.dtype)
    weighted = weigh_points(features, preprocessed.weighting, work)
    return Coordinates(weighted, None, settings.dtype, sparse=True)


def may_pool(settings, N, K):
    """Return whether regression may be added.

    Parameters
    ----------
    settings : MLGPFSettings
    N, K : int
    """
    return not settings.in_weight_space and 0 < N <= settings.regression_points and K <= REGRESSION_LABELS


def run_inference(coordinates, labels, inducing, settings, progress=silent, after_epoch=None, checkpoints=None):
    """Maximise the bound over all given points, without a validation part, regression or second attempt.

    Parameters
    ----------
    coordinates : Coordinates
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


def _attempts(coordinates, labels, inducing, settings, learning_rate, work=THIS_MACHINE):
    arguments = _inference(coordinates, labels, inducing, settings, work)
    return RetryOnDivergence(lambda rate: Loop(*arguments, rate), learning_rate)


def _stored_plan(checkpoints):
    """Return the plan of the final training if the checkpoint to resume from is of that training, otherwise None."""
    checkpoint = checkpoints.resume_from if checkpoints else None
    if checkpoint is None:
        return None
    with checkpoint.checked():
        return checkpoint.facts["plan"] and _Plan(**checkpoint.facts["plan"])


def _train_on_part(part, held_out, inducing, settings, pooled, progress, checkpoints):
    """Train on some points until the ranking of the others rises no more; return the plan and the best parameters."""
    stopping = EarlyStopping(held_out.ndcg, settings.patience)
    epochs = settings.epoch_count(len(part[0]))
    # Which epoch of the second half ranks best is mostly chance, so that half is not worth its time.
    most = math.ceil(epochs / 2) if settings.refit else epochs
    attempts = _attempts(*part, inducing, dataclasses.replace(settings, epochs=most), default_rate(settings))
    facts = {"part": "the points not held out", "plan": None}
    _, history = attempts.run(progress, stopping, checkpoints, facts)
    if stopping.best_epoch is None:
        raise NumericalError("no epoch of training ranked the held-out points: their utilities are not finite")
    parameters = predicting = stopping.best_parameters
    if pooled:
        predicting = parameters | _regression(*part, parameters, settings, progress)
        pooled = held_out.ndcg(predicting) > held_out.ndcg(parameters) - POOL_TOLERANCE
    calibration = None
    if settings.calibration:
        calibration = held_out.calibration(predicting if pooled else parameters, part[1])
    rate = history[-1].get("learning_rate", default_rate(settings))
    rises = len(history) == most < stopping.best_epoch + WINDOW
    epochs = settings.epochs if rises else stopping.best_epoch
    return _Plan(epochs, rate, pooled, history, calibration), parameters


def _calibration_hook(features, labels, preprocessed, settings):
    """Return the hook that calibrates in weight space, before the last sweep; None if no points are held out."""
    _, held = calibration_points(settings, labels)
    if not len(held):
        return None
    N, K = labels.shape
    epoch = settings.epoch_count(N) + sweep_count(settings, N, features.shape[1], K)
    return CalibrationAfterEpoch(epoch, features, labels, held, preprocessed, settings)


def _regression(coordinates, labels, parameters, settings, progress):
    """Return the parameters of the regression; none if features are too large for it, since the model is trained.

    Features are scaled by the relevances that the factor model has learned, if it has one for each.
    """
    features, scales = coordinates.weighted(slice(None)), {}
    if settings.ard and settings.inducing != "subspace":
        relevance = parameters[f"kernel.{settings.kernel.split('+')[-1]}.log_relevance"]
        scales = {"regression.scales": bounded_exp(relevance, 0.5).astype(np.float32)}
        features = scaled_features(features, scales["regression.scales"])
    try:
        found = fit_exact_gp(features, labels, REGRESSION_RANK, progress=progress)
    except NumericalError:
        return {}
    return scales | regression_parameters(features, labels, found)


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
