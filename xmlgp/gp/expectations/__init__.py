"""Gaussian expectations of the logistic likelihood, E log(1 + e^f) with f ~ N(m, v), in three ways.

Each is an object with `name`, `softplus(mean, variance)`, the expectation, and `gradients(mean, variance, economical,
out)`, its derivatives by the mean and by the variance. Predictive probabilities are by quadrature with all of them.
"""

from xmlgp.gp.expectations.jaakkola_jordan import JaakkolaJordan
from xmlgp.gp.expectations.quadrature import DEFAULT_NODES, Quadrature, logistic
from xmlgp.gp.expectations.taylor import Taylor

__all__ = [
    "DEFAULT_NODES",
    "EXPECTATIONS",
    "JaakkolaJordan",
    "Quadrature",
    "Taylor",
    "expectations_named",
    "logistic",
]

#: The three, by the name of each.
EXPECTATIONS = {kind.name: kind for kind in (Quadrature, JaakkolaJordan, Taylor)}


def expectations_named(name, nodes=DEFAULT_NODES):
    """Return what computes expectations in one of the ways.

    Parameters
    ----------
    name : str
        One of `EXPECTATIONS`.
    nodes : int
        Nodes, of quadrature.
    """
    kind = EXPECTATIONS[name]
    return kind(nodes) if kind is Quadrature else kind()
