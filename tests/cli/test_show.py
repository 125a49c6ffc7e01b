"""`xmlgp show`: what it tells of a model at each stage."""

import json

import pytest

from tests.cli.command import SMALL, run, said
from xmlgp import __version__
from xmlgp.models.folder import ModelFolder
from xmlgp.settings import fields

pytestmark = pytest.mark.usefixtures("place")


def test_a_trained_model():
    run("train", "data", "model", *SMALL, "--validation", "0")
    result = run("show", "model")
    assert (result.exit_code, result.stderr) == (0, "")
    description = ModelFolder("model").description
    first, data, training, *rest = result.stdout.splitlines()
    assert first == f"model: mlgpf, trained, written by xmlgp {__version__}"
    assert data == f"data      N 40, D 25, K 7, fingerprint {description['data']['fingerprint'][:12]}"
    assert training.startswith("training  2 epochs, ")
    shown = {line.split()[0]: line.split()[1:] for line in rest}
    for spec in fields():
        value = description["settings"][spec.name]
        assert shown[spec.name] == ["-" if value is None else str(value)]
    for name in description["arrays"]:
        assert name in shown
    assert shown["parameters.loadings"] == ["7×3", "f4"]
    assert shown["parameters.kernel.linear.log_variance"] == ["scalar", "f4"]


def test_a_preprocessed_model():
    run("preprocess", "data", "model", "--recipe", "s-SMALL")
    first, _, third, *rest = run("show", "model").stdout.splitlines()
    assert "preprocessed" in first
    assert third == "settings"
    assert ["preprocess.basis", "9×25", "f4"] in [line.split() for line in rest]


def test_json_is_the_whole_description():
    run("train", "data", "model", *SMALL, "--validation", "0.5")
    result = run("show", "model", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    description = json.loads(result.stdout)
    assert description == ModelFolder("model").description
    assert [entry["epoch"] for entry in description["validation"]] == [1, 2]
    assert all({"bound", "ndcg@5"} < entry.keys() for entry in description["validation"])
    assert [entry["epoch"] for entry in description["history"]] in ([1], [1, 2])


def test_a_model_without_arrays_is_shown_all_the_same(tmp_path):
    run("train", "data", "model", *SMALL)
    description = json.loads((tmp_path / "model" / "model.json").read_text()) | {"arrays": {}}
    (tmp_path / "model" / "model.json").write_text(json.dumps(description))
    result = run("show", "model")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "arrays"


def test_what_is_no_model(tmp_path):
    assert said(run("show", "data")) == "data: there is no model here (no model.json)"
    assert said(run("show"), status=2) == "Missing argument 'MODEL'."
    (tmp_path / "model.json").write_text("[]")
    assert said(run("show", ".")) == "model.json: this is not the description of an xmlgp model"
