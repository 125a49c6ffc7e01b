"""Expected counts and the log likelihood against dense sums over all N×K labels, and against sums over counts."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.bmlpl.reference import log_likelihood, random_problem
from xmlgp.models.bmlpl.counts import LEAST_RATE, Positives, expected_counts


def dense_counts(problem):
    """Return E m_nkt of all labels, N×K×T."""
    parts = problem.activations[:, None] * problem.topics
    rates = parts.sum(axis=2)
    return np.where(problem.labels, rates / -np.expm1(-rates), 0)[:, :, None] * parts / rates[:, :, None]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(9, 6, 3), (1, 2, 1), (20, 3, 7), (5, 40, 2)])
def test_counts_and_likelihood_agree_with_dense_sums(size, dtype):
    problem = random_problem(*size, seed=size[0], dtype=dtype)
    result = expected_counts(problem.positives, problem.topics, problem.activations)
    problem = problem._replace(topics=problem.topics.astype(float), activations=problem.activations.astype(float))
    expected = dense_counts(problem)
    assert result.by_point.dtype == result.by_label.dtype == dtype
    # The series for small rates is accurate to ten digits.
    tolerance = 5e-10 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(result.by_point, expected.sum(axis=1), rtol=tolerance, atol=tolerance**2)
    np.testing.assert_allclose(result.by_label, expected.sum(axis=0), rtol=tolerance, atol=tolerance**2)
    # The likelihood of negatives assumes that topics sum to one, which holds up to rounding.
    likelihood = log_likelihood(problem.labels, problem.topics, problem.activations)
    assert result.log_likelihood == pytest.approx(likelihood, rel=10 * tolerance, abs=10 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [1e-35, 1e-12, 1e-3, 1.0, 30.0, 1e6, 1e12])
def test_rates_of_any_magnitude_have_accurate_counts(rate, dtype):
    result = expected_counts(Positives(sp.csr_array([[True]])), np.ones((1, 1), dtype), np.full((1, 1), rate, dtype))
    used = max(rate, LEAST_RATE)
    # A rate below `LEAST_RATE` has the likelihood of the least rate and less than one count.
    expected = 1 if rate < 1e-20 else rate / -np.expm1(-rate)
    assert float(result.by_point[0, 0]) == pytest.approx(expected * rate / used, rel=1e-5)
    assert float(result.by_label[0, 0]) == pytest.approx(expected * rate / used, rel=1e-5)
    assert result.log_likelihood == pytest.approx(np.log(-np.expm1(-used)), rel=1e-5, abs=1e-5 * rate)
