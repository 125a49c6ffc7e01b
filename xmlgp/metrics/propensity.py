"""Propensities: the probability that a true label is observed, estimated from its frequency in training."""

from typing import NamedTuple

import numpy as np

from xmlgp.errors import SettingsError

__all__ = [
    "DEFAULT_A",
    "DEFAULT_B",
    "PropensityModel",
    "choose_propensity_model",
    "propensities",
    "propensities_of_counts",
]

#: A and B of most data sets. The repository uses 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon.
DEFAULT_A, DEFAULT_B = 0.55, 1.5

#: Sums of terms divided by propensities do not overflow down to this value.
LEAST = 1e-200


class PropensityModel(NamedTuple):
    """Parameters of the propensity model and where they come from.

    Attributes
    ----------
    A, B : float
    origin : str
        For a message.
    """

    A: float
    B: float
    origin: str


def choose_propensity_model(entry, A=None, B=None):
    """Return the parameters of the propensity model for a data set: the given ones, the catalogue's or the defaults.

    Parameters
    ----------
    entry : Entry or None
        The data set's entry in the catalogue.
    A, B : float, optional
        Take precedence over those of the catalogue.

    Returns
    -------
    PropensityModel
    """
    if A and B:
        return PropensityModel(A, B, "as given")
    known = entry and entry.propensity
    default_A, default_B = (known.A, known.B) if known else (DEFAULT_A, DEFAULT_B)
    origin = f"from {entry.name} in the catalogue" if known else "the default"
    return PropensityModel(A or default_A, B or default_B, f"one given, the other {origin}" if A or B else origin)


def propensities(labels, a=DEFAULT_A, b=DEFAULT_B):
    """Estimate the propensity of each label from the labels of the training points; see `propensities_of_counts`.

    Parameters
    ----------
    labels : csr_array of bool, N×K
    a, b : float
        A and B of the model, above 0.

    Returns
    -------
    ndarray of float, K
    """
    return propensities_of_counts(labels.sum(axis=0), labels.shape[0], a, b)


def propensities_of_counts(counts, n_points, a=DEFAULT_A, b=DEFAULT_B):
    """Estimate the propensity of each label from the number of training points that have it.

    p_l = 1 / (1 + C (N_l + B)^(−A)) with C = (log N − 1)(B + 1)^A and N_l the number of training points that have
    label l. Source: Jain, Prabhu, Varma: Extreme multi-label loss functions for recommendation, tagging, ranking &
    other missing label applications, KDD 2016.

    Parameters
    ----------
    counts : ndarray of int, K
        N_l.
    n_points : int
        N.
    a, b : float
        A and B of the model, above 0.

    Returns
    -------
    ndarray of float, K
        From `LEAST` to 1.

    Raises
    ------
    SettingsError
        If an estimate is outside [`LEAST`, 1]: with fewer than three training points, or with extreme A or B.
    """
    # Both powers are computed as one, so that only their quotient can overflow.
    with np.errstate(all="ignore"):
        odds_against = (np.log(n_points) - 1) * ((b + 1) / (counts + b)) ** a
        estimate = 1 / (1 + odds_against)
    if not (a > 0 and b > 0 and np.all((estimate >= LEAST) & (estimate <= 1))):
        raise SettingsError(f"A={a:g} and B={b:g} give propensities outside (0, 1] for {n_points} training points")
    return estimate
