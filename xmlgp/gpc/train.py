"""From points of two classes to the parameters of GPC."""

import contextlib

import numpy as np

from xmlgp.errors import NumericalError
from xmlgp.gpc.svi import SVIAdaDelta
from xmlgp.gpc.variational import JJ, Full, Hybrid, TaylorExpansion
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.runtime.interrupts import defer_signals
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.passes import Passes

__all__ = ["INFERENCES", "train_gpc"]

#: By the setting `inference`: what makes steps.
INFERENCES = {
    "svi-adadelta": SVIAdaDelta,
    "vi-jj": JJ,
    "vi-jj-full": Full,
    "vi-jj-hybrid": Hybrid,
    "vi-taylor": TaylorExpansion,
}

ADVICE = {"svi-adadelta": "try a lower --learning-rate"}


def train_gpc(coordinates, labels, inducing, settings, progress=silent, after_pass=None, checkpoints=None):
    """Find the posterior and the hyperparameters of GPC.

    Parameters
    ----------
    coordinates : Coordinates
        Of the N training points, in double precision.
    labels : csr_array of bool, N×1
        Which points are of the second class.
    inducing : ndarray, M×D
        Z.
    settings : GPCSettings
    progress : callable
        See `xmlgp.runtime.progress`.
    after_pass : callable, optional
        See `Passes`.
    checkpoints : Checkpoints, optional
        Where to keep what training goes on from, and what it goes on from now. Signals that end the process wait for
        the end of a step.

    Returns
    -------
    parameters : dict of str to ndarray
        As `GPC.parameter_names` lists them.
    history : list of dict
        For each iteration `epoch`, `bound` (of svi-adadelta the mean of its estimates) and `seconds` since the start.

    Raises
    ------
    NumericalError
        Where the bound or a parameter stops being a finite number.
    ModelFolderError
        Where the checkpoint is damaged.
    """
    resumed, keep = (checkpoints.begun, checkpoints.offer) if checkpoints else (None, None)
    positive = labels.toarray()[:, 0]
    with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        try:
            inference = INFERENCES[settings.inference](coordinates, positive, inducing, settings)
        except NumericalError as error:
            raise NumericalError(f"before the first step: {error}") from error
        random = np.random.default_rng(settings.seed)
        run = Passes(inference, settings, random, after_pass, ADVICE.get(settings.inference, "try another --inference"))
        if resumed is not None:
            run.restore(resumed)
        with defer_signals() if keep else contextlib.nullcontext():
            run.go_on(progress, keep)
        parameters = inference.parameters(len(run.history))
    for name, value in parameters.items():
        if not all_finite(value):
            raise run.lost(f"{name} is not finite")
    return parameters, run.history
