"""Gaussian expectations of the logistic likelihood, E log(1 + e^f) with f ~ N(m, v), in three ways.

Each way is a class with `name` and two methods:

- `expected_softplus(mean, variance)` returns the expectation for each element.
- `gradients(mean, variance, fast=False, out=None)` returns its derivatives by the mean and by the variance. Only
  quadrature is faster with `fast`. The arrays `out` are C-contiguous, and may be `mean` and `variance` if these are.

The variance is an array of the shape of the means, or a number; values below 0 count as 0.

Predictive probabilities, `expected_sigmoid`, use quadrature in every case. `approximate_log_odds` orders labels as they
do, or nearly, without quadrature.
"""

from xmlgp.gp.expectations.closed_form import JaakkolaJordan, Taylor, approximate_log_odds, highest_probability
from xmlgp.gp.expectations.quadrature import DEFAULT_NODES, Quadrature, expected_sigmoid

__all__ = [
    "DEFAULT_NODES",
    "EXPECTATIONS",
    "JaakkolaJordan",
    "Quadrature",
    "Taylor",
    "approximate_log_odds",
    "expected_sigmoid",
    "highest_probability",
    "make_expectations",
]

#: The classes, by the name that settings use.
EXPECTATIONS = {kind.name: kind for kind in (Quadrature, JaakkolaJordan, Taylor)}


def make_expectations(name, nodes=DEFAULT_NODES):
    """Return an instance of one of `EXPECTATIONS`; `nodes` is used by quadrature only."""
    kind = EXPECTATIONS[name]
    return kind(nodes) if kind is Quadrature else kind()
