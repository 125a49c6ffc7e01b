"""Points that are held out of training."""

import numpy as np

__all__ = ["hold_out"]


def hold_out(count, share, random):
    """Split N points at random into those to train on and those to validate on (row numbers in ascending order).

    round(share·N) points are held out, but at least one and not all; with N < 2, or a share of 0, none.
    """
    held = min(max(1, round(share * count)), count - 1) if share > 0 else 0
    chosen = np.zeros(count, bool)
    if held > 0:
        chosen[random.choice(count, held, replace=False)] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
