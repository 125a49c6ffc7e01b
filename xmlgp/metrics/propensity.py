"""Propensities: the probability that a true label is observed, estimated from its frequency in training."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.catalogue import load_catalogue
from xmlgp.runtime.errors import SettingsError

__all__ = ["DEFAULT_A", "DEFAULT_B", "Propensities", "estimate_propensities", "propensities_of_counts"]

#: A and B of most data sets. The repository uses 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon.
DEFAULT_A = 0.55
DEFAULT_B = 1.5

#: Below this value, sums of inverse propensities could overflow.
LEAST = 1e-200


class Propensities(NamedTuple):
    """Propensities, K, the A and B of their model, and the origin of A and B, for a message."""

    values: NDArray[np.float64]
    A: float
    B: float
    origin: str


def estimate_propensities(
    counts: NDArray[np.integer], n_points: int, n_features: int, model: tuple[float, float] | None = None
) -> Propensities:
    """Estimate propensities from the number of training points that have each label, K, and the N and D of training.

    `model` is A and B; by default those of the catalogue's data set of these sizes, or else `DEFAULT_A` and
    `DEFAULT_B`. SettingsError is raised as by `propensities_of_counts`.
    """
    origin = "as given"
    if model is None:
        entry = load_catalogue().find_by_shape(n_points, n_features, len(counts))
        if entry and entry.propensity:
            model = entry.propensity
            origin = f"from {entry.name} in the catalogue"
        else:
            model = DEFAULT_A, DEFAULT_B
            origin = "the default"
    return Propensities(propensities_of_counts(counts, n_points, *model), *model, origin)


def propensities_of_counts(
    counts: NDArray[np.integer], n_points: int, a: float = DEFAULT_A, b: float = DEFAULT_B
) -> NDArray[np.float64]:
    """Estimate the propensity of each label, K, from the number of training points that have it.

    p_l = 1 / (1 + C (N_l + B)^(−A)) with C = (log N − 1)(B + 1)^A and N_l the number of training points that have
    label l. Source: Jain, Prabhu, Varma: Extreme multi-label loss functions for recommendation, tagging, ranking &
    other missing label applications, KDD 2016. SettingsError is raised if an estimate is outside [`LEAST`, 1]: with
    fewer than three training points, or with extreme A or B.
    """
    # Both powers are computed as one, so that only their quotient can overflow.
    with np.errstate(all="ignore"):
        odds_against = (np.log(n_points) - 1) * ((b + 1) / (counts + b)) ** a
        estimate: NDArray[np.float64] = 1 / (1 + odds_against)
    if not (a > 0 and b > 0 and np.all((estimate >= LEAST) & (estimate <= 1))):
        raise SettingsError(f"A={a:g} and B={b:g} give propensities outside (0, 1] for {n_points} training points")
    return estimate
