"""`xmlgp settings`: what it lists of kinds of models, and of a model folder."""

import json

import pytest

from tests.cli.command import SMALL, run
from xmlgp.models import MODELS, fields_of

pytestmark = pytest.mark.usefixtures("workdir")


def test_all_settings_are_listed_with_default_range_and_meaning():
    rows = json.loads(run("settings", "--json").stdout)
    assert [(row["model"], row["name"]) for row in rows] == [
        (name, field) for name in MODELS for field in fields_of(name)
    ]
    nodes = next(row for row in rows if row["name"] == "nodes")
    assert nodes | {"meaning": ""} == {
        "model": "mlgpf", "name": "nodes", "default": "10", "range": "an integer from 1 to 100", "meaning": ""
    }  # fmt: skip
    text = run("settings", "gpc").stdout
    assert "\ngpc nodes: default 10\n    Gauss–Hermite quadrature nodes;" in text
    assert "mlgpf" not in text


def test_a_model_folder_is_listed_with_its_values():
    run("train", "data", "model", *SMALL, "--set", "dtype=float64")
    rows = {row["name"]: row for row in json.loads(run("settings", "model", "--json").stdout)}
    assert rows.keys() == fields_of("mlgpf").keys()
    assert (rows["factors"]["value"], rows["dtype"]["value"]) == (3, "float64")
    assert "\nmlgpf dtype: float64; default float32\n" in run("settings", "model").stdout
    assert "\nmlgpf optimiser: adagrad (default)\n" in run("settings", "model").stdout
