"""Read pairs of a point and a label, such as `filter_labels_test.txt` of the Extreme Classification Repository.

Where labels are documents as well, a document that is itself a label always has that label: measures should not count
such pairs. Each line is `point label`, both numbers from 0.
"""

from __future__ import annotations

import glob
import os
import warnings

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.files import open_input
from xmlgp.runtime.errors import SettingsError

__all__ = ["pairs_beside", "read_pairs"]


def pairs_beside(path: str) -> list[str]:
    """Return the files of pairs of test points in the folder of `path`, the file of these points."""
    folder = glob.escape(os.path.dirname(path))
    return sorted(glob.glob(os.path.join(folder, "filter_labels_test*"))) if os.path.isfile(path) else []


def read_pairs(path: str | os.PathLike[str], N: int) -> NDArray[np.int64]:
    """Return pairs of a point below N and a label, an array pairs×2; SettingsError if there is anything else."""
    with open_input(path) as stream, warnings.catch_warnings():
        # A file without pairs gets a warning.
        warnings.simplefilter("ignore")
        try:
            pairs = np.loadtxt(stream, np.int64, comments=None, ndmin=2)
        except ValueError as error:
            reason = f"this is not a list of pairs of a point and a label ({error}; rows count from 0)"
            raise SettingsError(f"{path}: {reason}") from None
    if pairs.size and pairs.shape[1] != 2 or (pairs < 0).any():
        raise SettingsError(f"{path}: a line must be a pair of a point and a label, numbers from 0")
    pairs = pairs.reshape(-1, 2)
    beyond = np.flatnonzero(pairs[:, 0] >= N)
    if len(beyond):
        raise SettingsError(f"{path}: point {pairs[beyond[0], 0]} is not below {N}, the number of points")
    return pairs
