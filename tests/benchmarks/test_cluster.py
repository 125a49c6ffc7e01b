"""Measurements of a Dask cluster: the stages of a command, and the tables of each measurement."""

import json
import os

import cluster
import pytest
import watched_command
from click.testing import CliRunner

from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset

QUICK = ["--inducing", "features", "--label-weights", "-P", "3", "--batch-size", "50"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_dataset(folder / "train.txt", small_dataset(N=200, D=60, K=30))
    write_dataset(folder / "test.txt", small_dataset(N=30, D=60, K=30, seed=7))
    return folder


def run(*arguments):
    """Run a measurement; return its output and its JSON."""
    result = CliRunner().invoke(cluster.main, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    # Each table is of one width.
    tables = [part.splitlines() for part in result.stdout.split("\n\n") if part.startswith("|")]
    assert all(len({line.count("|") for line in table}) == 1 for table in tables)
    return tables


def test_a_command_writes_its_stages(data, tmp_path):
    arguments = ["train", "-q", data, tmp_path / "model", *QUICK, "--epochs", "2"]
    environment = os.environ | {"XMLGP_CACHE_DIR": str(tmp_path / "cache")}
    watched = watched_command.run_watched(tmp_path / "trace", arguments, environment, memory=True)
    names = ["starting", "reading", "preprocessing", "starting values", "weighting", "steps"]
    names += ["initial label weights", "latent functions"]
    sweeps = [[f"{name}, sweep {i}/3" for name in ("shortlists", "label weights", "pairs")] for i in (1, 2, 3)]
    # The held-out points are judged before the last sweep, which adds them.
    names += [*sweeps[0], *sweeps[1], "regression", "held-out points", "calibration", *sweeps[2], "writing", "ending"]
    assert list(watched.stages) == names
    assert sum(stage["seconds"] for stage in watched.stages.values()) == pytest.approx(watched.seconds, abs=0.5)
    assert watched.stages["starting"]["command_mb"] > 10
    entries = watched_command.read_trace(tmp_path / "trace")
    places = dict.fromkeys(entry.place for entry in entries)
    assert list(places) == ["", "epoch 1/2", "epoch 2/2", *(f"epoch 2/2, sweep {i}/3" for i in (1, 2, 3))]
    assert entries == sorted(entries)


@pytest.mark.exhaustive
def test_time_and_precision_are_compared(data, tmp_path):
    options = ["--workers", "2", "--epochs", "1", "--options", " ".join(QUICK), "--json", tmp_path / "time.json"]
    tables = run("time", data, *options)
    measured = json.loads((tmp_path / "time.json").read_text())
    assert [found["workers"] for found in measured["runs"]] == [0, 2]
    assert all(0 < found["P@1"] <= 100 for found in measured["runs"])
    assert measured["runs"][1]["stages"]["steps"]["workers_s"] >= 0
    assert [found.get("equal") for found in measured["predictions"]] == [None, True]
    assert len(tables) == 4
