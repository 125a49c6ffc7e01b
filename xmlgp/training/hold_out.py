"""Points that are held out of training."""

import numpy as np

__all__ = ["hold_out"]


def hold_out(count, share, random):
    """Split points uniformly at random into those to train on and those to validate on.

    round(share·N) points are held out, but at least one and not all; with N < 2 none.

    Parameters
    ----------
    count : int
        N.
    share : float
        From 0 to 1; 0 holds out none and draws no random number.
    random : numpy.random.Generator

    Returns
    -------
    training_rows, validation_rows : ndarray of int
        In ascending order.
    """
    held = min(max(1, round(share * count)), count - 1) if share > 0 else 0
    chosen = np.zeros(count, bool)
    if held > 0:
        chosen[random.choice(count, held, replace=False)] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
