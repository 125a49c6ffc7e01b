import math

import numpy as np
import pytest

from xmlgp.metrics.propensity import estimate_propensities, propensities_of_counts
from xmlgp.runtime.errors import SettingsError


def test_hand_worked_example():
    # N = 20, A = 0.5, B = 0.25: C = (log 20 − 1) · 1.25^0.5.
    c = (math.log(20) - 1) * math.sqrt(1.25)
    result = propensities_of_counts(np.array([0, 2, 20]), 20, a=0.5, b=0.25)
    assert result == pytest.approx([1 / (1 + c / 0.5), 1 / (1 + c / 1.5), 1 / (1 + c / 4.5)])


@pytest.mark.parametrize(
    ("N", "a", "b"),
    [(0, 0.55, 1.5), (2, 0.55, 1.5), (10, 1e6, 1.5), (10, 0.55, -1.5), (10, 0.55, math.nan), (1000, 200, 0.1)],
)
def test_too_few_points_and_extreme_parameters_are_refused(N, a, b):
    with pytest.raises(SettingsError, match=f"give propensities outside .* for {N} training points"):
        propensities_of_counts(np.array([0, N]), N, a, b)


CATALOGUE = """
datasets:
  small:
    title: a small one
    shape: {N: 50, N_test: 3, D: 2, K: 3}
    propensity: {A: 0.6, B: 2.6}
    files: {train: {}, test: {}}
"""


@pytest.mark.parametrize(
    ("given", "D", "expected"),
    [
        (None, 2, (0.6, 2.6, "from small in the catalogue")),
        (None, 3, (0.55, 1.5, "the default")),
        ((0.5, 0.4), 2, (0.5, 0.4, "as given")),
    ],
)
def test_given_parameters_come_first_and_then_those_of_the_catalogue(tmp_path, monkeypatch, given, D, expected):
    monkeypatch.setenv("XMLGP_CATALOGUE", str(tmp_path / "catalogue.yaml"))
    (tmp_path / "catalogue.yaml").write_text(CATALOGUE)
    counts = np.array([1, 7, 30])
    result = estimate_propensities(counts, 50, D, given)
    assert result[1:] == expected
    np.testing.assert_array_equal(result.values, propensities_of_counts(counts, 50, *expected[:2]))
