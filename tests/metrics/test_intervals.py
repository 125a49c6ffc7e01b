"""Intervals of measures and of differences: coverage, formulas, and p beside a permutation test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

from xmlgp.metrics import intervals as module
from xmlgp.metrics.intervals import differences, intervals
from xmlgp.metrics.statistics import Statistic, by_group, ratio


def shares(points: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return shares of five labels that are true, which differ from point to point; their mean is 0.4."""
    return random.binomial(5, random.beta(2, 3, points)) / 5


def macro(points: int, random: np.random.Generator) -> Statistic:
    """Return the mean F1 of the labels that a point has, of a hundred, of which most have few points."""
    rates = 0.3 / np.arange(1, 101)
    true = random.random((points, 100)) < rates
    assigned = np.where(true, random.random((points, 100)) < 0.5, random.random((points, 100)) < rates / 2)
    columns = csr_array(np.hstack([true & assigned, true, assigned]).astype(float))

    def mean_f1(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        hits, positives, given = np.split(sums, 3, axis=1)
        scores = 2 * hits / np.maximum(positives + given, 1)
        return 100 * scores.sum(axis=1) / np.count_nonzero(positives, axis=1)

    return Statistic(columns, mean_f1)


@pytest.mark.parametrize(
    ("measure", "points"),
    [
        (lambda points, random: ratio(random.random(points) < 0.87, np.ones(points)), 100),
        (lambda points, random: ratio(shares(points, random), np.ones(points)), 100),
        (lambda points, random: ratio(random.beta(1, 2, points), random.integers(1, 4, points) / 2), 200),
        (macro, 500),
    ],
    ids=["one label", "five labels", "weighted", "macro"],
)
def test_coverage(
    measure: Callable[[int, np.random.Generator], Statistic], points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fewer resamples make a test of many sets of points possible; they change the coverage by less than 0.2 %.
    monkeypatch.setattr(module, "RESAMPLES", 200)
    random = np.random.default_rng(5)
    sets = [measure(points, random) for _ in range(1000)]
    # For measures that are not linear, the interval is for the expected value on sets of this size.
    expected = np.mean([measured.value for measured in sets])
    covered = np.mean(
        [
            low <= expected <= high
            for seed, measured in enumerate(sets)
            for low, high in [intervals({"x": measured}, seed)["x"]]
        ]
    )
    # Three standard errors of a simulation with 1,000 sets are 2 %.
    assert abs(covered - 0.95) < 0.021


def test_proportion_has_wilsons_interval() -> None:
    outcomes = np.arange(900) < 700
    low, high = intervals({"x": ratio(outcomes, np.ones(900))})["x"]
    expected = stats.binomtest(700, 900).proportion_ci(method="wilson")
    # The standard error of 1,000 resamples is exact to 2 % of it, and the quantile is that of Student's t.
    assert low == pytest.approx(100 * expected.low, abs=0.12)
    assert high == pytest.approx(100 * expected.high, abs=0.12)


def test_standard_error_of_a_ratio_is_that_of_the_delta_method() -> None:
    random = np.random.default_rng(2)
    below = random.integers(1, 9, 5000)
    above = random.binomial(below, 0.4)
    share = above.sum() / below.sum()
    error = 100 * np.std(above - share * below) / below.mean() / math.sqrt(5000)
    low, high = intervals({"x": ratio(above, below)})["x"]
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.08)


def test_points_that_agree_still_have_an_interval() -> None:
    low, high = intervals({"x": ratio(np.ones(20), np.ones(20))})["x"]
    assert high == 100
    # The exact lower end of a proportion, 0.025^(1/20), is 83.2 %.
    assert 80 < low < 86
    assert intervals({"x": ratio([1], [1])})["x"] == (0, 100)
    # Their sums differ in the last digits.
    low, high = intervals({"x": ratio(np.full(20, 0.3), np.ones(20))})["x"]
    assert low < 25
    assert high > 40


def test_macro_measures_without_hits_still_have_an_interval() -> None:
    measured = macro(300, np.random.default_rng(0))
    nothing = Statistic(measured.columns, lambda sums: 0 * sums[:, 0], most=100.0, is_mean=False)
    low, high = intervals({"x": nothing})["x"]
    assert low == 0
    assert 1 < high < 4


def test_points_that_do_not_count_change_nothing_but_chance() -> None:
    outcomes = np.arange(400) < 250
    low, high = intervals({"x": ratio(outcomes, np.ones(400))})["x"]
    padding = np.zeros(400)
    wide = intervals({"x": ratio(np.r_[outcomes, padding], np.r_[np.ones(400), padding])})["x"]
    assert wide == pytest.approx((low, high), abs=0.6)


def test_groups_have_the_standard_error_of_points(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    measured = ratio(shares(8000, random), np.ones(8000))
    low, high = intervals({"x": measured})["x"]
    monkeypatch.setattr(module, "GROUPS", 1000)
    grouped = intervals({"x": measured})["x"]
    assert grouped.high - grouped.low == pytest.approx(high - low, rel=0.12)


@pytest.mark.parametrize("measure", [lambda: ratio(shares(90, np.random.default_rng(3)), np.ones(90)),
                                      lambda: macro(90, np.random.default_rng(3))], ids=["mean", "macro"])  # fmt: skip
def test_copies_of_points_in_a_group_say_no_more_than_one(measure: Callable[[], Statistic]) -> None:
    once = measure()
    copies = replace(once, columns=once.columns[np.tile(np.arange(90), 5)])
    grouped = by_group({"a": copies}, np.tile(np.arange(90), 5))
    assert grouped["a"].value == pytest.approx(once.value)
    np.testing.assert_allclose(intervals(grouped)["a"], intervals({"a": once})["a"])
    low, high = intervals({"a": copies})["a"]
    assert high - low < 0.6 * np.diff(intervals(grouped)["a"])


def test_sparse_columns_are_resampled_as_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPARSE_RESAMPLES", module.RESAMPLES)
    measured = macro(300, np.random.default_rng(1))
    dense = Statistic(measured.columns.toarray(), measured.function)
    assert intervals({"x": measured})["x"] == pytest.approx(intervals({"x": dense})["x"])


def test_differences_are_paired() -> None:
    random = np.random.default_rng(3)
    difficulty = random.random(2000)
    a = ratio(difficulty < 0.6, np.ones(2000))
    b = ratio(difficulty < 0.58, np.ones(2000))
    compared = differences({"x": a, "only a": a}, {"x": b})
    assert set(compared) == {"x"}
    difference = compared["x"]
    assert difference.difference == pytest.approx(a.value - b.value)
    # Each interval alone is wider than the one of the difference of paired points.
    alone = intervals({"x": a})["x"]
    assert difference.interval.high - difference.interval.low < (alone.high - alone.low) / 2
    swapped = differences({"x": b}, {"x": a})["x"]
    assert swapped.difference == -difference.difference
    assert swapped.p == pytest.approx(difference.p)


@pytest.mark.parametrize("most", [100.0, math.inf])
def test_methods_that_agree_on_all_points_may_differ_on_others(most: float) -> None:
    # The upper bound of a share of which 100 points show none: 3.6 % by Clopper and Pearson, for 95 % on both sides.
    a = Statistic(ratio(np.arange(100) % 2, np.ones(100)).columns, lambda sums: 100 * sums[..., 0] / sums[..., 1], most)
    same = differences({"x": a}, {"x": a})["x"]
    assert (same.difference, same.p) == (0, 1)
    # Without a highest value, nothing says how much one point may add.
    assert same.interval == pytest.approx((-2, 2) if most == 100 else (0, 0), abs=0.02)


@pytest.mark.parametrize("shift", [0.0, 0.02, 0.05])
def test_p_is_that_of_a_permutation_test(shift: float) -> None:
    random = np.random.default_rng(7)
    a = shares(600, random)
    b = np.clip(a + random.choice([-0.4, -0.2, 0, 0, 0.2, 0.4], 600) + shift, 0, 1)
    p = differences({"x": ratio(a, np.ones(600))}, {"x": ratio(b, np.ones(600))})["x"].p
    signs = random.choice([-1, 1], (20_000, 600))
    permuted = np.abs(signs @ (a - b)) >= abs((a - b).sum()) - 1e-9
    assert p == pytest.approx(permuted.mean(), abs=0.02)


def test_few_points_that_differ_are_not_significant() -> None:
    # A sign test of five outcomes has p = 1/16.
    changed = np.arange(1000) < 5
    p = differences({"x": ratio(changed, np.ones(1000))}, {"x": ratio(np.zeros(1000), np.ones(1000))})["x"].p
    assert 0.03 < p < 0.1


def test_undefined_measures_have_no_interval() -> None:
    interval = intervals({"x": ratio(np.zeros(3), np.zeros(3))})["x"]
    assert all(math.isnan(end) for end in interval)
