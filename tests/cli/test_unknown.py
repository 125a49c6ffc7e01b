"""`xmlgp train --unknown`: the same model as in Python, resumed with the same file, and what such a model can do."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from tests.cli.command import run, said
from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.models import MODELS

DATASET = small_dataset()
POSITIVES = DATASET.labels.toarray()
UNKNOWN = ~POSITIVES & (np.random.default_rng(0).random(POSITIVES.shape) < 0.3)
SETTINGS = {
    "mlgpf": ["--factors", "3", "--epochs", "2", "--set", "label_weights=true"],
    "bmlpl": ["--model", "bmlpl", "--set", "topics=3", "--set", "iterations=3"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    write_dataset("train.txt", DATASET)
    lines = (",".join(map(str, np.flatnonzero(row))) for row in UNKNOWN)
    Path("unknown").write_text("".join(f"{line}\n" for line in lines))
    Path("none").write_text("\n" * DATASET.N)


def train(*options):
    result = run("train", "train.txt", "model", "-q", *options)
    assert result.exit_code == 0, result.output
    return xmlgp.load("model").parameters


def test_a_file_without_unknown_labels_trains_the_usual_model():
    found = train(*SETTINGS["mlgpf"], "--unknown", "none")
    expected = xmlgp.train(DATASET, settings=xmlgp.load("model").settings).parameters
    # All arrays but the points that are kept for learning on.
    assert expected.keys() - found.keys() == {name for name in expected if name.startswith("replay.")}
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(("model", "steps"), [("mlgpf", 4), ("bmlpl", 2)])
def test_a_run_is_resumed_with_the_same_file_alone(interrupt, model, steps):
    options = SETTINGS[model]
    expected = train(*options, "--unknown", "unknown")
    shutil.rmtree("model")
    interrupt(steps, "train.txt", "model", *options, "--unknown", "unknown")
    message = said(run("train", "train.txt", "model", *options, "--resume", "-q"))
    assert "an unfinished run with other unknown labels exists" in message
    found = train(*options, "--resume", "--unknown", "unknown")
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    message = said(run("train", "train.txt", "model", *options, "-q"))
    assert message.startswith("model: the model here was trained with other unknown labels (40 points, ")


def test_training_continues_from_preprocessing_without_the_file():
    assert run("preprocess", "train.txt", "model", "-q", "--inducing", "free", "-M", "5").exit_code == 0
    train("--unknown", "unknown", "--epochs", "1", "-P", "2")
    model = xmlgp.load("model")
    assert (model.settings.inducing, model.settings.inducing_count) == ("free", 5)
    assert model.data["unknown"] == UNKNOWN.sum()


def test_gpc_leaves_points_with_an_unknown_label_out():
    one = Dataset(DATASET.features, sp.csr_array(POSITIVES[:, :1]))
    unknown = ~POSITIVES[:, :1] & (np.arange(40)[:, None] % 3 == 0)
    settings = {"model": "gpc", "inducing_count": 40, "iterations": 3}
    found = xmlgp.train(Dataset(one.features, one.labels, sp.csr_array(unknown)), settings=settings)
    assert all(model.takes_unknown for model in MODELS.values())
    without = xmlgp.train(one, settings=settings)
    assert not np.array_equal(found.parameters["posterior.mean"], without.parameters["posterior.mean"])
