"""From points and labels to the parameters of a model: training, when to stop it, and what is computed besides."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.gp.exact_gp import regress
from xmlgp.gp.inner_products import Points
from xmlgp.mlgpf.model import MLGPF
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.checkpoints import State
from xmlgp.training.history import is_history, is_number
from xmlgp.training.loop import Diverged, train
from xmlgp.training.stopping import EarlyStopping, hold_out, ndcg_of_top

__all__ = ["REGRESSION_RANK", "RETRY_RATE", "Fit", "fit"]

#: What the learning rate is multiplied by when training begins once more, because numbers were lost.
RETRY_RATE = 0.25

#: Latent functions of the regression: of 100 to 400 all rank the validation points of Delicious alike.
REGRESSION_RANK = 300

#: Labels up to which regression is tried: of more, those few functions say little about most, and with 10,405 and with
#: 20,765 labels held-out points were ranked worse with it.
REGRESSION_LABELS = 5000

#: Held-out points with labels below which nothing is held out: so few rank one epoch like another.
HELD_OUT_LEAST = 10

#: Characters of what a checkpoint says of numbers that were lost.
LONGEST = 200

#: Points that are scored at a time, and their scores.
ROWS, SCORES = 256, 1 << 24


class Fit(NamedTuple):
    """A trained model.

    Attributes
    ----------
    parameters : dict of str to ndarray
        Of the factor model, and as `regression.*` of the regression (see docs/model-folder.md).
    history : list of dict
        See `train`, of the training that the parameters come from.
    validation : list of dict or None
        The history of the training that held-out points were ranked by after each epoch; None where none were.
    """

    parameters: dict
    history: list
    validation: list | None


def fit(coordinates, labels, inducing, settings, progress=silent, checkpoints=None):
    """Train a model as its settings say.

    With a validation part of at least `HELD_OUT_LEAST` points, and more labels than one to rank, training on the others
    stops when nDCG@5 of this part has not risen for `settings.patience` epochs. Then, with `settings.refit`, all points
    are trained on for as many epochs as were best; else the best parameters are kept. Regression on all points is added
    where `settings.regression_points` allows it, of at most `REGRESSION_LABELS` labels, and where that part, if there
    is one, is ranked better with it. Where the numbers are lost, training begins once more with `RETRY_RATE` times the
    learning rate.

    Parameters
    ----------
    coordinates, labels, inducing, settings, progress
        As in `train`.
    checkpoints : Checkpoints, optional
        Where to keep what training goes on from, and what it goes on from now.

    Returns
    -------
    Fit

    Raises
    ------
    NumericalError, ModelFolderError
        As `train` does.
    """
    count, label_count = labels.shape
    pooled = 0 < count <= settings.regression_points and label_count <= REGRESSION_LABELS
    # A stream of its own: what is drawn for training does not depend on whether points are held out.
    trained, held = hold_out(count, settings.validation, np.random.default_rng([settings.seed, 1]))
    ranked = np.count_nonzero(np.diff(labels.indptr)[held])
    begun = checkpoints and checkpoints.begun
    plan = _plan(begun, settings, pooled)
    if plan is None and label_count > 1 and ranked >= HELD_OUT_LEAST and labels[trained].nnz:
        others = coordinates.select(held), labels[held]
        part = coordinates.select(trained), labels[trained]
        stopping = EarlyStopping(lambda found: _ndcg(found, *others, settings), settings.patience)
        steadily = _Steadily(checkpoints, begun, stopping)
        history = steadily.train(*part, inducing, settings, progress)[1]
        if stopping.best_epoch is None:
            raise NumericalError("no epoch of training ranked the held-out points: their utilities are not finite")
        parameters = stopping.best_parameters
        if pooled:
            alone = _ndcg(parameters, *others, settings)
            pooled = _ndcg(parameters | _regression(*part, progress), *others, settings) > alone
        plan = {
            "epochs": stopping.best_epoch,
            "rate": history[-1].get("learning_rate"),
            "pooled": pooled,
            "validation": history,
        }
        begun = None
        del steadily, stopping
    elif plan is None:
        plan = {"epochs": settings.epochs, "rate": None, "pooled": pooled, "validation": None}
    history = plan["validation"]
    if history is None or settings.refit:
        parameters = None  # those of before make room
        settings = dataclasses.replace(settings, epochs=plan["epochs"])
        steadily = _Steadily(checkpoints, begun, plan=plan)
        parameters, history = steadily.train(coordinates, labels, inducing, settings, progress)
    if plan["pooled"]:
        parameters |= _regression(coordinates, labels, progress)
    return Fit(parameters, history, plan["validation"])


def _plan(checkpoint, settings, pooled):
    """Return what held-out points told of the training that a checkpoint is of, or None where it is one of those."""
    facts = checkpoint.facts if checkpoint else {}
    plan, lost = facts.get("plan"), facts.get("lost")
    whole = lost is None or (isinstance(lost, str) and lost.isprintable() and len(lost) <= LONGEST)
    if plan is not None:
        whole = (
            whole
            and isinstance(plan, dict)
            and plan.keys() == {"epochs", "rate", "pooled", "validation"}
            and isinstance(plan["pooled"], bool)
            and plan["pooled"] <= pooled
            and _ends_as_planned(settings, **plan)
        )
    if not whole:
        raise checkpoint.damaged()
    return plan


def _ends_as_planned(settings, epochs, rate, validation, **others):
    """Return whether there is training to come after what held-out points told, and that ends."""
    if validation is None:
        return rate is None and epochs == settings.epochs
    return (
        settings.refit
        and is_history(validation, settings.model, "ndcg@5")
        and type(epochs) is int
        and 0 < epochs <= len(validation)
        and (rate is None or is_number(rate, math.ulp(0)))
    )


class _Steadily:
    """Trains, keeping checkpoints; where the numbers are lost once more, with a lower learning rate.

    Parameters
    ----------
    checkpoints : Checkpoints or None
    begun : Checkpoint or None
        What to go on from.
    stopping : EarlyStopping, optional
    plan : dict, optional
        Kept in checkpoints.
    """

    def __init__(self, checkpoints, begun, stopping=None, plan=None):
        self._checkpoints, self._begun, self._stopping = checkpoints, begun, stopping
        #: `lost`: how the numbers were lost, in words; None where they were not.
        #: `spent`: seconds of the training before.
        spent = plan["validation"][-1]["seconds"] if plan and plan["validation"] else 0.0
        self._facts = {"plan": plan, "lost": begun and begun.facts.get("lost"), "spent": spent}

    def train(self, *arguments):
        """Do what `train` does, with the same arguments as far as the progress."""
        keep = self._checkpoints and self._keep
        rate = (self._facts["plan"] or {}).get("rate")
        while True:
            try:
                return train(*arguments, self._stopping, rate=rate, keep=keep, resumed=self._begun)
            except Diverged as error:
                if self._facts["lost"] is not None:
                    raise Diverged(f"{error.reason} ({self._facts['lost']})", error.steps) from error
                if not error.steps:
                    raise
                self._facts["lost"] = (
                    f"a first attempt, with a learning rate of {error.rate:g}, failed after {error.steps}"
                )
                rate = RETRY_RATE * error.rate
            self._begun = None
            if self._stopping:
                self._stopping.forget()

    def _keep(self, state, epoch_ended):
        self._checkpoints.offer(lambda: state().joined(State(self._facts, {})), epoch_ended)


def _ndcg(parameters, coordinates, labels, settings):
    """Return nDCG@5 of some points, in percent."""
    # As in training, of which the parameters need not come that a checkpoint has for the best.
    with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        predictive = MLGPF(settings).predictive(parameters, coordinates.feature_count)

        def blocks():
            size = max(1, min(ROWS, SCORES // labels.shape[1]))
            for start in range(0, len(coordinates), size):
                rows = slice(start, start + size)
                yield predictive.mean(Points(*coordinates.rows(rows)), coordinates.weighted(rows))

        return ndcg_of_top(labels, blocks())


def _regression(coordinates, labels, progress):
    """Return the parameters of the regression; none where features are too large for it, for the rest is trained."""
    features = coordinates.weighted(slice(None))
    try:
        found = regress(features, labels, REGRESSION_RANK, progress=progress)
    except NumericalError:
        return {}
    return {
        "regression.indptr": features.indptr.astype(np.int64),
        "regression.indices": features.indices.astype(np.int32),
        "regression.values": features.data,
        "regression.weights": found.weights,
        "regression.loadings": found.loadings,
        "regression.mean": found.mean,
    }
