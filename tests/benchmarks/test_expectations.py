"""The table of expectations: its ratios, bounds and rows."""

import expectations
import numpy as np
from click.testing import CliRunner

from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset


def test_ratios_compare_runs_with_the_same_seed():
    baseline = [[*range(7), 2.0, 10.0], [*range(7), 4.0, 20.0]]
    numbers = [[*range(7), 1.0, 30.0], [*range(7), 6.0, 10.0]]
    found = expectations.with_ratios(numbers, baseline)
    assert found.shape == (2, len(expectations.COLUMNS))
    np.testing.assert_array_equal(found[:, 7:], [[1, 0.5, 30, 3], [6, 1.5, 10, 0.5]])


def test_the_table_has_a_row_for_each_mode_and_expectation(tmp_path):
    for name, points in (("train", small_dataset()), ("test", small_dataset(20, seed=7))):
        write_dataset(tmp_path / f"{name}.txt", points)
    options = ["--seeds", "2", "--only", "passes", "--set", "factors=3", "--set", "inducing_count=6"]
    result = CliRunner().invoke(expectations.main, [str(tmp_path), *options], catch_exceptions=False)
    title, _, *lines = [line for line in result.stdout.splitlines() if line]
    assert [line.split("|")[1:3] for line in lines] == [[" passes ", f" {kind} "] for kind in expectations.EXPECTATIONS]
    assert {line.count("|") for line in lines} == {title.count("|")}
