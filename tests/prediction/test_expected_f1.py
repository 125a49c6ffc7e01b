"""The labels of highest expected F1, against all sets and all outcomes, and against sums of Poisson-binomials."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import f1_score

from xmlgp.errors import SettingsError
from xmlgp.prediction.expected_f1 import highest_expected_f1


def expected_f1_of_all_sets(p):
    """Return the expected F1 of every set of labels, as a mapping of sets, by scikit-learn on every outcome."""
    outcomes = np.array(list(itertools.product([False, True], repeat=len(p))))
    weights = np.where(outcomes, p, 1 - p).prod(axis=1)
    values = {}
    for chosen in itertools.product([0, 1], repeat=len(p)):
        f1 = [f1_score(outcome, chosen, zero_division=0) for outcome in outcomes.astype(int)]
        values[tuple(np.flatnonzero(chosen))] = weights @ f1
    return values


#: Probabilities of a point: even, steep, small, with certain and impossible labels, of a single label.
CASES = [[0.97, 0.6, 0.1], [0.12, 0.1, 0.08], [1, 0.5, 0], [0, 0], [0.4]]


@pytest.mark.parametrize("p", CASES, ids=str)
def test_no_set_has_a_higher_expected_f1(p):
    values = expected_f1_of_all_sets(np.array(p))
    (size,), (value,) = highest_expected_f1(np.array([p], float))
    assert value == pytest.approx(max(values.values()), abs=1e-12)
    assert values[tuple(range(size))] == pytest.approx(value, abs=1e-12)
    for limit in range(len(p) + 2):
        (limited,), (best,) = highest_expected_f1(np.array([p], float), limit)
        allowed = [found for chosen, found in values.items() if len(chosen) <= limit]
        assert limited <= limit
        assert best == pytest.approx(max(allowed), abs=1e-12)


def poisson_binomial(p):
    """Return the probability of each number of true labels."""
    found = np.ones(1)
    for one in p:
        found = np.convolve(found, [1 - one, one])
    return found


def expected_f1_of_sizes(p):
    """Return the expected F1 of the first k labels for k = 0, 1, …, from sums over the numbers of true labels."""
    values = [0]
    for k in range(1, len(p) + 1):
        first, others = poisson_binomial(p[:k]), poisson_binomial(p[k:])
        hits, rest = np.arange(len(first))[:, None], np.arange(len(others))
        values.append(first @ (2 * hits / (k + hits + rest)) @ others)
    return np.array(values)


@pytest.mark.parametrize(("K", "mean", "dtype"), [(50, 3, np.float64), (300, 40, np.float32), (300, 150, np.float64)])
def test_values_agree_with_sums_over_numbers_of_true_labels(K, mean, dtype):
    random = np.random.default_rng(K + mean)
    p = np.sort(random.beta(0.5, 0.5 * (K / mean - 1), size=(2, K)).astype(dtype), axis=1)[:, ::-1].copy()
    sizes, values = highest_expected_f1(p)
    for row, size, value in zip(p.astype(float), sizes, values, strict=True):
        expected = expected_f1_of_sizes(row)
        # Quadrature is not exact for hundreds of true labels.
        assert value == pytest.approx(expected.max(), abs=1e-7)
        assert expected[size] == pytest.approx(expected.max(), abs=1e-7)


def test_no_points_and_no_probabilities():
    sizes, values = highest_expected_f1(np.empty((0, 3)))
    assert sizes.shape == values.shape == (0,)
    for wrong in (-0.1, 1.5, np.nan):
        with pytest.raises(SettingsError, match=r"^a probability is not in \[0, 1\]$"):
            highest_expected_f1(np.array([[0.5, wrong]]))
