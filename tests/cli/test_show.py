"""`xmlgp show`: what model.json says, an interrupted run, and topics."""

import json

import numpy as np
import pytest

from tests.cli.command import SMALL, changed_description, run, said
from xmlgp import __version__
from xmlgp.api.trained_model import load, topics_of
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.neighbours.choice import DEFAULT
from xmlgp.neighbours.regression import in_words

pytestmark = pytest.mark.usefixtures("workdir")

INTERRUPTED = ["data", "model", *SMALL]
WHERE = "after 2 of 25 steps of training"


def test_a_trained_model_is_described(model):
    description = ModelFolder("model").description
    first, data, training, *rest = run("show", "model").stdout.splitlines()
    assert first == f"model: mlgpf, trained, written by xmlgp {__version__}"
    assert data == "data        40 points, 25 features, 7 labels"
    assert training.startswith("training    2 epochs and 2 sweeps over the labels, ")
    lines = [line.split(maxsplit=1) for line in rest]
    assert ["factors", "3"] in lines
    assert ["optimiser", "adagrad (default)"] in lines
    assert ["basis_size", "1000 (no effect with inducing=features)"] in lines
    assert json.loads(run("show", "model", "--json").stdout) == description


def test_neighbours_are_described(workdir):
    (workdir / "notes.jsonl").write_text(
        "".join(f'{{"text": "{word} {i}", "labels": ["{word}"]}}\n' for i in range(10) for word in ("cat", "dog"))
    )
    assert run("train", "notes.jsonl", "notes", *SMALL, "-q").exit_code == 0
    lines = run("show", "notes").stdout.splitlines()
    # Too few points are held out to choose.
    assert f"nearest     {in_words(DEFAULT.values(), np.zeros(2))}" in lines


@pytest.mark.parametrize("name", ["parameters.neighbours.choices", "parameters.neighbours.recall"])
def test_a_damaged_model_is_refused(model, name):
    np.save(model / "arrays" / "damaged.npy", np.ones(4))
    entry = {"file": "arrays/damaged.npy", "dtype": "<f8", "shape": [4]}
    changed_description("model", lambda description: description["arrays"].update({name: entry}))
    assert said(run("show", "model")) == "model: the model is damaged, its arrays do not fit each other"


def test_a_run_is_described_with_and_without_a_model(workdir, interrupt):
    interrupt(2, *INTERRUPTED)
    expected = f"an unfinished run, {WHERE} at its last checkpoint; run the same command again to resume"
    assert run("show", "model").stdout == f"model: no model yet, but {expected}\n"
    (workdir / "model" / "checkpoint.npz").write_text("")
    assert "cannot be resumed: model/checkpoint.npz: the checkpoint is damaged; " in run("show", "model").stdout
    assert run("train", *INTERRUPTED, "--no-resume", "-q").exit_code == 0
    assert "interrupted" not in run("show", "model").stdout


def test_topics_are_listed_with_their_labels(topics):
    lines = run("show", "model", "--topics").stdout.splitlines()
    expected = topics_of(load("model"))
    heads = [f"topic {topic.number} ({100 * topic.share:.2f} %)" for topic in expected]
    assert [line for line in lines if line.startswith("topic")] == heads
    assert f"  {expected[0].weights[0]:.4f}  {expected[0].labels[0]}" in lines


def test_a_model_without_topics_is_refused(model):
    assert said(run("show", "model", "--topics")) == "model: mlgpf has no topics; train with --model bmlpl"
    assert said(run("show", "none")) == "none: there is no such folder; `xmlgp train DATA MODEL` makes a model"
    (model / "a").touch()
    assert said(run("show", "model/a")) == "model/a: this is a file, but a model is a folder"
