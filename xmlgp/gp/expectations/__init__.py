"""Gaussian expectations of the logistic likelihood, E log(1 + e^f) with f ~ N(m, v): by quadrature, in closed form.

Variances below 0 count as 0. Predictive probabilities, `expected_sigmoid`, are by quadrature; `approximate_log_odds`
orders labels nearly as they do.
"""

from xmlgp.gp.expectations.closed_form import JaakkolaJordan, Taylor, approximate_log_odds
from xmlgp.gp.expectations.quadrature import DEFAULT_NODES, Quadrature, expected_sigmoid

__all__ = ["DEFAULT_NODES", "JaakkolaJordan", "Quadrature", "Taylor", "approximate_log_odds", "expected_sigmoid"]
