"""Gaussian expectations of the logistic likelihood, E log(1 + e^f) with f ~ N(m, v), in three ways.

Each way is a class with `name`; `expected_softplus(mean, variance)`, the forward pass; and
`gradients(mean, variance, fast, out)`, the derivatives of the expectation by the mean and by the variance.
Predictive probabilities, `expected_sigmoid`, use quadrature in every case. `approximate_log_odds` orders labels as they
do, or nearly, without quadrature.
"""

from xmlgp.gp.expectations.jaakkola_jordan import JaakkolaJordan
from xmlgp.gp.expectations.mackay import approximate_log_odds, highest_probability
from xmlgp.gp.expectations.quadrature import DEFAULT_NODES, Quadrature, expected_sigmoid
from xmlgp.gp.expectations.taylor import Taylor

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
    """Return an instance of one of `EXPECTATIONS`.

    Parameters
    ----------
    name : str
    nodes : int
        Quadrature nodes; used by quadrature only.
    """
    kind = EXPECTATIONS[name]
    return kind(nodes) if kind is Quadrature else kind()
