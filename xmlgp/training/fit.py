"""From points and labels to the parameters of a model: training, when to stop it, and what is computed besides."""

import dataclasses
from typing import NamedTuple

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.gp.mlgpf import MLGPF
from xmlgp.gp.products import Points
from xmlgp.gp.regression import regress
from xmlgp.progress import silent
from xmlgp.threads import one_blas_thread
from xmlgp.training.loop import train
from xmlgp.training.stopping import EarlyStopping, hold_out, ndcg_of_top

__all__ = ["REGRESSION_RANK", "Fit", "fit"]

#: Latent functions of the regression: of 100 to 400 all rank the validation points of Delicious alike.
REGRESSION_RANK = 300

#: Labels up to which regression is tried: of more, those few functions say little about most, and with 10,405 and with
#: 20,765 labels held-out points were ranked worse with it.
REGRESSION_LABELS = 5000

#: Held-out points with labels below which nothing is held out: so few rank one epoch like another.
HELD_OUT_LEAST = 10

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


def fit(coordinates, labels, inducing, settings, progress=silent):
    """Train a model as its settings say.

    With a validation part of at least `HELD_OUT_LEAST` points, and more labels than one to rank, training on the others
    stops when nDCG@5 of this part has not risen for `settings.patience` epochs. Then, with `settings.refit`, all points
    are trained on for as many epochs as were best; else the best parameters are kept. Regression on all points is added
    where `settings.regression_points` allows it, of at most `REGRESSION_LABELS` labels, and where that part, if there
    is one, is ranked better with it.

    Parameters
    ----------
    coordinates, labels, inducing, settings, progress
        As in `train`.

    Returns
    -------
    Fit

    Raises
    ------
    NumericalError
        As `train` does.
    """
    count, label_count = labels.shape
    pooled = 0 < count <= settings.regression_points and label_count <= REGRESSION_LABELS
    # A stream of its own: what is drawn for training does not depend on whether points are held out.
    trained, held = hold_out(count, settings.validation, np.random.default_rng([settings.seed, 1]))
    validation = None
    ranked = np.count_nonzero(np.diff(labels.indptr)[held])
    if label_count > 1 and ranked >= HELD_OUT_LEAST and labels[trained].nnz:
        others = coordinates.select(held), labels[held]
        part = coordinates.select(trained), labels[trained]
        stopping = EarlyStopping(lambda found: _ndcg(found, *others, settings), settings.patience)
        validation = history = train(*part, inducing, settings, progress, after_epoch=stopping)[1]
        if stopping.best_epoch is None:
            raise NumericalError("no epoch of training ranked the held-out points: their utilities are not finite")
        parameters = stopping.best_parameters
        if pooled:
            alone = _ndcg(parameters, *others, settings)
            pooled = _ndcg(parameters | _regression(*part, progress), *others, settings) > alone
        settings = dataclasses.replace(settings, epochs=stopping.best_epoch)
        del stopping
    if validation is None or settings.refit:
        parameters = None  # those of before make room
        parameters, history = train(coordinates, labels, inducing, settings, progress)
    if pooled:
        parameters |= _regression(coordinates, labels, progress)
    return Fit(parameters, history, validation)


def _ndcg(parameters, coordinates, labels, settings):
    """Return nDCG@5 of some points, in percent."""
    with one_blas_thread():
        predictive = MLGPF(settings).predictive(parameters, coordinates.feature_count)

        def blocks():
            size = max(1, min(ROWS, SCORES // labels.shape[1]))
            for start in range(0, len(coordinates), size):
                rows = slice(start, start + size)
                yield predictive.mean(Points(*coordinates.rows(rows)), coordinates.weighted(rows))

        return ndcg_of_top(labels, blocks())


def _regression(coordinates, labels, progress):
    features = coordinates.weighted(slice(None))
    found = regress(features, labels, REGRESSION_RANK, progress=progress)
    return {
        "regression.indptr": features.indptr.astype(np.int64),
        "regression.indices": features.indices.astype(np.int32),
        "regression.values": features.data,
        "regression.weights": found.weights,
        "regression.loadings": found.loadings,
        "regression.mean": found.mean,
    }
