"""Expected counts and the likelihood against dense sums over all N×K labels, and against sums over counts."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from tests.bmlpl.reference import log_likelihood, random_problem
from xmlgp.bmlpl import counts as module
from xmlgp.bmlpl.counts import LEAST_RATE, expected_counts
from xmlgp.bmlpl.positives import Positives
from xmlgp.runtime import threads


def dense_counts(problem):
    """E m_nkt, N×K×T, of all labels."""
    parts = problem.activations[:, None] * problem.topics
    rates = parts.sum(axis=2)
    return np.where(problem.labels, rates / -np.expm1(-rates), 0)[:, :, None] * parts / rates[:, :, None]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(9, 6, 3), (1, 2, 1), (20, 3, 7), (5, 40, 2)])
def test_sums_over_all_labels(size, dtype):
    problem = random_problem(*size, seed=size[0], dtype=dtype)
    found = expected_counts(problem.positives, problem.topics, problem.activations)
    problem = problem._replace(topics=problem.topics.astype(float), activations=problem.activations.astype(float))
    expected = dense_counts(problem)
    assert found.by_point.dtype == found.by_label.dtype == dtype
    # The series of small rates has ten digits in double precision.
    tolerance = 5e-10 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found.by_point, expected.sum(axis=1), rtol=tolerance, atol=tolerance**2)
    np.testing.assert_allclose(found.by_label, expected.sum(axis=0), rtol=tolerance, atol=tolerance**2)
    # The likelihood of negatives uses that topics sum up to one, which they do to rounding.
    likelihood = log_likelihood(problem.labels, problem.topics, problem.activations)
    assert found.log_likelihood == pytest.approx(likelihood, rel=10 * tolerance, abs=10 * tolerance)


def test_the_share_of_a_topic_is_the_mean_of_a_multinomial_of_a_positive_count():
    topics, activations = np.array([[0.6, 0.2], [0.4, 0.8]]), np.array([[0.5, 1.5]])
    found = expected_counts(Positives(sp.csr_array([[True, False]])), topics, activations)
    m = np.arange(1, 60)
    rate = 0.6 * 0.5 + 0.2 * 1.5
    mean = (m * stats.poisson.pmf(m, rate)).sum() / stats.poisson.sf(0, rate)
    np.testing.assert_allclose(found.by_point, [[mean / 2, mean / 2]], rtol=1e-12)
    np.testing.assert_allclose(found.by_label, [[mean / 2, mean / 2], [0, 0]], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [1e-35, 1e-12, 1e-3, 1.0, 30.0, 1e6, 1e12])
def test_rates_of_any_size(rate, dtype):
    found = expected_counts(Positives(sp.csr_array([[True]])), np.ones((1, 1), dtype), np.full((1, 1), rate, dtype))
    used = max(rate, LEAST_RATE)
    # A label that is all but impossible has less than one count, and the probability of the least rate.
    expected = 1 if rate < 1e-20 else rate / -np.expm1(-rate)
    assert float(found.by_point[0, 0]) == pytest.approx(expected * rate / used, rel=1e-5)
    assert float(found.by_label[0, 0]) == pytest.approx(expected * rate / used, rel=1e-5)
    assert found.log_likelihood == pytest.approx(np.log(-np.expm1(-used)), rel=1e-5, abs=1e-5 * rate)


def test_a_positive_that_no_topic_explains_is_finite():
    found = expected_counts(Positives(sp.csr_array([[True, True]])), np.array([[1.0], [0.0]]), np.array([[1e-320]]))
    assert np.isfinite(found.log_likelihood)
    assert np.isfinite(found.by_point).all()
    assert np.isfinite(found.by_label).all()


def test_without_positives_there_are_no_counts():
    activations = np.array([[0.5, 1.5], [1.0, 2.0]])
    found = expected_counts(Positives(sp.csr_array((2, 3), dtype=bool)), np.full((3, 2), 1 / 3), activations)
    assert not found.by_point.any()
    assert not found.by_label.any()
    assert found.log_likelihood == -activations.sum()


def test_parts_of_threads_change_nothing(monkeypatch):
    problem = random_problem(50, 8, 3)
    whole = expected_counts(problem.positives, problem.topics, problem.activations)
    monkeypatch.setattr(module, "GRAIN", 1)
    monkeypatch.setattr(threads, "core_count", lambda: 4)
    for one, other in zip(expected_counts(problem.positives, problem.topics, problem.activations), whole, strict=True):
        np.testing.assert_array_equal(one, other)
