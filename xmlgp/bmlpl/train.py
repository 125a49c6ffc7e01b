"""The loop that turns labels and features into topics."""

import contextlib

import numpy as np

from xmlgp.bmlpl import start
from xmlgp.bmlpl.em import EM
from xmlgp.bmlpl.gibbs import Gibbs
from xmlgp.bmlpl.online_em import OnlineEM
from xmlgp.bmlpl.parameters import are_valid_parameters
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.runtime.interrupts import defer_signals
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.passes import Passes

__all__ = ["INFERENCES", "train_topics"]

#: By the setting `inference`: what makes steps.
INFERENCES = {"em": EM, "em-cg": EM, "online-em": OnlineEM, "gibbs": Gibbs}

#: Which of the arrays that each goes on from are of the size K×T, and N×T where there is one.
LARGEST = {"online-em": ("counts.labels",), "gibbs": ("parameters.topics", "activations")}
LARGEST |= dict.fromkeys(("em", "em-cg"), ("counts.labels", "counts.points"))

#: What is never zero or less, and what is never less, of the arrays that they go on from.
POSITIVE = {"parameters.shapes", "parameters.precisions"}
NOT_NEGATIVE = {"parameters.topics", "counts.labels", "counts.points", "activations"}

ADVICE = "try another --weighting or --precision"


def train_topics(coordinates, labels, settings, progress=silent, after_pass=None, checkpoints=None):
    """Infer the parameters of BMLPL.

    Parameters
    ----------
    coordinates : Coordinates
        Of the N training points, their features themselves.
    labels : csr_array of bool, N×K
        Y.
    settings : BMLPLSettings
    progress : callable
        See `xmlgp.runtime.progress`.
    after_pass : callable, optional
        Called as `after_pass(epoch, parameters)`, passes counted from 1 and parameters a function that returns them;
        the time it takes is not training time.
    checkpoints : Checkpoints, optional
        Where to keep what training goes on from, and what it goes on from now. Signals that end the process wait for
        the end of a step.

    Returns
    -------
    parameters : dict of str to ndarray
        `topics` V, K×T; `weights` W, D×T; `intercepts`, T; `shapes` r, T; `precisions` τ, D; `shares`, T
        (`bmlpl.topics.topic_shares`).
    history : list of dict
        For each pass `epoch`, `log_posterior` (of online-em the mean of its estimates) and `seconds` since the start.

    Raises
    ------
    SettingsError
        For exact M-steps with so many features that no machine has room for them.
    NumericalError
        Where the log posterior stops being a finite number.
    ModelFolderError
        Where the checkpoint is damaged.
    """
    random = np.random.default_rng(settings.seed)
    resumed, keep = (checkpoints.begun, checkpoints.offer) if checkpoints else (None, None)
    labels = start.revealed(labels, settings.revealed, np.random.default_rng([settings.seed, 1]))
    with one_blas_thread(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        (N, K), D = labels.shape, coordinates.feature_count
        T = start.topic_count(settings, K)
        if resumed is not None:
            # Before anything is made as large as the settings of a stranger say.
            resumed.check_shape("parameters.weights", (D + 1, T))
            for name, rows in zip(LARGEST[settings.inference], (K, N), strict=False):
                resumed.check_shape(name, (rows, T))
        inference = INFERENCES[settings.inference](coordinates, labels, settings, random)
        run = Passes(inference, settings, random, after_pass, ADVICE)
        if resumed is not None:
            run.restore(resumed)
            _check_signs(inference.moving(), resumed)
        with defer_signals() if keep else contextlib.nullcontext():
            run.go_on(progress, keep)
        parameters = inference.parameters(len(run.history))
    for name, value in parameters.items():
        if not all_finite(value):
            raise run.lost(f"{name} is not finite")
    # Training leaves nothing else, but of what it goes on from not all can be known to be as it left it.
    if resumed is not None and not are_valid_parameters(parameters, (D, K, T)):
        raise resumed.damaged()
    return parameters, run.history


def _check_signs(moving, checkpoint):
    """Raise the error for a damaged checkpoint where there is no distribution to draw from."""
    for names, holds in ((POSITIVE, np.greater), (NOT_NEGATIVE, np.greater_equal)):
        if not all(holds(moving[name], 0).all() for name in names & moving.keys()):
            raise checkpoint.damaged()
