"""Propensities: the chance of a label to be noticed where it is true, by how often it was noticed in training."""

import numpy as np

from xmlgp.errors import SettingsError

__all__ = ["DEFAULT_A", "DEFAULT_B", "propensities"]

#: A and B of most sets. The repository takes 0.5 and 0.4 for Wikipedia's, 0.6 and 2.6 for Amazon's.
DEFAULT_A, DEFAULT_B = 0.55, 1.5

#: Sums of what is divided by propensities as small as this do not overflow.
LEAST = 1e-200


def propensities(labels, a=DEFAULT_A, b=DEFAULT_B):
    """Estimate the propensity of each label from the training labels.

    p_l = 1 / (1 + C (N_l + B)^(−A)) with C = (log N − 1)(B + 1)^A and N_l the training points that have label l
    (Jain, Prabhu, Varma: Extreme multi-label loss functions for recommendation, tagging, ranking & other missing
    label applications, KDD 2016).

    Parameters
    ----------
    labels : csr_array of bool, N×K
        The labels of the training points.
    a, b : float
        A and B of the model, above 0.

    Returns
    -------
    array of float, K
        Propensities, from `LEAST` to 1.

    Raises
    ------
    SettingsError
        Where these are no propensities: the model needs three training points, and A and B in reason.
    """
    n_points = labels.shape[0]
    # The powers of the formula are taken as one, so that only their quotient can overflow.
    with np.errstate(all="ignore"):
        odds_against = (np.log(n_points) - 1) * ((b + 1) / (labels.sum(axis=0) + b)) ** a
        estimate = 1 / (1 + odds_against)
    if not (a > 0 and b > 0 and np.all((estimate >= LEAST) & (estimate <= 1))):
        raise SettingsError(f"A={a:g} and B={b:g} give no propensities between 0 and 1 for {n_points} training points")
    return estimate
