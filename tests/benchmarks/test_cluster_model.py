"""The model of the time on many machines: constants from measurements, and what grows with the machines."""

import dataclasses
import json

import cluster_model
import generate
import pytest
from click.testing import CliRunner

SHAPE = generate.Shape(N=20_000, D=5_000, K=2_000, features=50, labels=4, own=0.2)


def memory_of(shape, rate=1e-9, fixed=0.0):
    """Return what `cluster.py memory` writes if the command takes the seconds of a rate for each unit of work."""
    measured = {"sizes": dataclasses.asdict(shape), "text_bytes": 12 * shape.N * shape.features}
    measured["runs"] = [{"workers": 0}, {"workers": 2, "stages": {}, "label_weights": 100_000}]
    for name, work in cluster_model.training_of_memory(measured).stages().items():
        own = fixed + rate * work.undivided
        stage = {"seconds": own, "command_s": own, "workers_s": 2 * rate * work.divided}
        measured["runs"][1]["stages"][name] = stage
    return measured


@pytest.fixture
def steps():
    sizes = {name: getattr(SHAPE, name) for name in ("N", "D", "K", "features", "labels")}
    run = {"inducing": "features", "workers": 2, "B": 500, "P": 200, "label_sample": 1000}
    seconds = {"step_s": 0.02, "call_s": 0.015, "compute_s": 0.01}
    return {"sizes": sizes, "cores": 2, "runs": [{"inducing": "features", "workers": 0}, run | seconds]}


def test_constants_are_what_a_unit_takes(steps):
    constants = cluster_model.constants_of([memory_of(SHAPE)], steps)
    assert constants.pop("text_bytes") == 12
    assert constants["steps, message"] == pytest.approx(0.0025)
    measured = {name: value for name, value in constants.items() if not name.startswith("steps")}
    assert not [name for name in measured if "fixed" in name]
    for name, value in measured.items():
        assert value == pytest.approx(2e-9 if "undivided" not in name else 1e-9)


def test_fixed_seconds_are_found_from_two_sizes(steps):
    memories = [memory_of(shape, fixed=3.0) for shape in (SHAPE, SHAPE.scaled(0.25))]
    constants = cluster_model.constants_of(memories, steps)
    assert constants["reading, undivided"] == pytest.approx(1e-9)
    assert constants["reading, fixed"] == pytest.approx(3)


def test_only_the_divided_part_shrinks(steps):
    constants = cluster_model.constants_of([memory_of(SHAPE)], steps)
    training = cluster_model.Training(SHAPE, 2, cluster_model.weight_space_settings(), 12.0)
    one, four = (cluster_model.times(training, constants, machines, 8, 10, 10) for machines in (1, 4))
    assert list(one)[:3] == ["reading", "preprocessing", "steps"]
    two, all_four = (cluster_model.steps_of(training, constants, parts, 8, 10) for parts in (2, 4))
    assert all_four["divided"] == pytest.approx(two["divided"] / 2)
    assert all_four["undivided"] == two["undivided"]
    assert all_four["network"] > 1.5 * two["network"]
    # Five blocks of points: two of four machines' rounds.
    assert four["shortlists"]["divided"] == pytest.approx(one["shortlists"]["divided"] * 2 / 5)
    assert four["label weights"]["storage"] > one["label weights"]["storage"]
    assert cluster_model.total(cluster_model.local(one), "network", "storage") == 0


def test_the_steps_are_those_of_the_code(steps):
    # 500 × (200 + 1) moments and 2000 × (200 + 1) loadings and biases, there and back.
    training = cluster_model.Training(SHAPE, 2, cluster_model.weight_space_settings(), 12.0)
    assert training.step_count == 80
    assert training.step_labels == 2000
    assert training.step_bytes(1) == 2 * 4 * 201 * 2500


def test_steps_are_divided_only_where_that_is_faster(steps):
    constants = cluster_model.constants_of([memory_of(SHAPE)], steps)
    training = cluster_model.Training(SHAPE, 2, cluster_model.weight_space_settings(), 12.0)
    found = [cluster_model.times(training, constants, 64, cores, 10, 10)["steps"] for cores in (1, 64)]
    assert found[0]["network"] > 0
    assert found[1]["network"] == 0


def test_tables_are_printed(steps, tmp_path):
    (tmp_path / "memory.json").write_text(json.dumps(memory_of(SHAPE)))
    (tmp_path / "steps.json").write_text(json.dumps(steps))
    files = ["--memory", tmp_path / "memory.json", "--steps", tmp_path / "steps.json", "--json", tmp_path / "out.json"]
    chosen = ["--shape", "amazoncat", "--set", "steps, message=0.5"]
    result = CliRunner().invoke(cluster_model.main, list(map(str, [*files, *chosen])), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    tables = [part.splitlines() for part in result.stdout.split("\n\n") if part.startswith("|")]
    assert len(tables) == 3
    assert all(len({line.count("|") for line in table}) == 1 for table in tables)
    assert "less than half of the time is divided; the largest rest is steps, undivided" in result.stdout
    assert list(json.loads((tmp_path / "out.json").read_text())["amazoncat"]["seconds"])[:2] == ["local", "1"]
