"""Closed-form updates of the means of q(u_p): they raise the bound and converge where its gradient is zero."""

import pytest
from click.testing import CliRunner
from means import harness, main

from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset


def test_the_table_has_a_row_for_each_update(tmp_path):
    for name, points in (("train", small_dataset()), ("test", small_dataset(20, seed=7))):
        write_dataset(tmp_path / f"{name}.txt", points)
    options = ["--epochs", "1", "--set", "factors=3", "--set", "inducing_count=6"]
    result = CliRunner().invoke(main, [str(tmp_path), *options], catch_exceptions=False)
    lines = [[cell.strip() for cell in line.split("|")] for line in result.stdout.splitlines() if line]
    assert [cells[2] for cells in lines[2:8]] == ["", "one more epoch", "sweep", "2 of them", "joint step", "2 of them"]
    # The gain is the difference of two bounds in the table.
    before = float(lines[2][4])
    assert all(float(cells[5]) == pytest.approx(float(cells[4]) - before, abs=2e-4) for cells in lines[3:8])
    assert [cells[1] for cells in lines[10:]] == ["1 epochs", "a joint step after each", "2 epochs"]
    assert lines[10][3] != lines[11][3]


@pytest.mark.parametrize("ends", [[0.0], [0.0, 0.0], [0.004, 0.004, 0.004]])
def test_the_time_of_a_very_short_epoch_is_not_zero(ends):
    assert harness.epoch_seconds([{"seconds": end} for end in ends]) > 0
