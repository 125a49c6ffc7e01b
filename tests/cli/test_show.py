"""`xmlgp show`: the description of a model at each stage."""

import json
import os
import re

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from tests.cli.command import SMALL, run, said
from xmlgp import __version__
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.runtime.threads import core_count
from xmlgp.settings.fields import in_words

pytestmark = pytest.mark.usefixtures("workdir")


@pytest.mark.parametrize(("fixture", "arrays"), [("model", {"loadings": "7×3"}), ("topics", {"weights": "25×4"})])
def test_a_trained_model_is_described(request, fixture, arrays):
    request.getfixturevalue(fixture)
    folder = ModelFolder("model")
    first, data, training, *rest = run("show", "model").stdout.splitlines()
    assert first == f"model: {folder.settings.model}, trained, written by xmlgp {__version__}"
    assert data == f"data      N 40, D 25, K 7, fingerprint {folder.description['data']['fingerprint'][:12]}"
    assert training.startswith(
        "training  2 epochs and 2 sweeps over the labels, " if fixture == "model" else "training  4 iterations, "
    )
    assert ("memory    rows of 40 points, for learning on" in rest) == (fixture == "model")
    shown = {line.split()[0]: line.split()[1:] for line in rest}
    assert folder.description["arrays"].keys() <= shown.keys()
    for name, shape in arrays.items():
        assert shown[f"parameters.{name}"] == [shape, "f4"]
    # Settings that are unset have their value in this model, those without effect are listed after the others.
    unused = folder.settings.unused()
    assert unused
    defaults = {"optimiser": "adagrad", "learning_rate": "0.1", "label_sample": "7", "iterations": "4", "burn_in": "2"}
    for name, value in folder.settings.mapping().items():
        if name not in unused:
            expected = f"{defaults[name]} (default)" if value is None else in_words(value)
            assert " ".join(shown[name]) == expected
    listed = " ".join(rest).partition(f"no effect with {next(iter(unused.values()))}: ")[2]
    assert set(" ".join(listed.split()).partition(" arrays")[0].split(", ")) == unused.keys()
    described = json.loads(run("show", "model", "--json").stdout)
    assert bool(described.pop("hyperparameters")) == (fixture == "model")
    assert described == folder.description


def test_a_preprocessed_model_is_described():
    run("preprocess", "data", "model", "--recipe", "s-SMALL")
    first, _, third, *rest = run("show", "model").stdout.splitlines()
    assert "preprocessed" in first
    assert third == "settings"
    assert ["preprocess.basis", "9×25", "f4"] in [line.split() for line in rest]


INTERRUPTED = ["data", "model", *SMALL]
HINT = "interrupted after 2 of 21 steps of training; resume with `xmlgp train DATA model --resume`"


def test_an_interrupted_run_without_a_model_is_described(workdir, interrupt):
    interrupt(2, *INTERRUPTED, seconds=1.0)
    first, title, *settings = run("show", "model").stdout.splitlines()
    assert (first, title) == (f"model: no model yet, but a run that was {HINT}", "settings")
    assert ["factors", "3"] in [line.split() for line in settings]
    found = json.loads(run("show", "model", "--json").stdout)
    assert (found["interrupted"]["step"], found["interrupted"]["settings"]["factors"]) == (2, 3)
    with lock_model_folder("model"):
        message = run("show", "model").stdout
        assert re.search(
            rf"but a run by process {os.getpid()} on [^ ]+, after 2 of 21 steps of training at its last", message
        )
    (workdir / "model").rename("a model")
    assert "resume with `xmlgp train DATA 'a model' --resume`" in run("show", "a model").stdout
    # The command that it advises works.
    assert run("train", "data", "a model", "--resume").exit_code == 0
    assert "interrupted" not in run("show", "a model").stdout


def test_a_model_with_an_interrupted_run_is_described(model, interrupt):
    lines, description = (run("show", "model", *options).stdout for options in ([], ["--json"]))
    interrupt(2, *INTERRUPTED, seconds=1.0)
    assert set(run("show", "model").stdout.splitlines()) - set(lines.splitlines()) == {
        f"run       a run that was {HINT}"
    }
    found = json.loads(run("show", "model", "--json").stdout)
    facts = found.pop("interrupted")
    assert found == json.loads(description)
    assert facts.pop("seconds") > 0
    assert facts.pop("settings")["factors"] == 3
    expected = {"writer": None, "step": 2, "steps": 21, "where": "after 2 of 21 steps of training"}
    assert facts == expected | {"cores": core_count(), "data": found["data"]}


def test_a_damaged_checkpoint_is_reported(workdir, interrupt):
    interrupt(2, *INTERRUPTED, seconds=1.0)
    (workdir / "model" / "checkpoint.npz").write_text("")
    damage = "model/checkpoint.npz: the checkpoint is damaged; use --no-resume to start a new run"
    assert said(run("show", "model")).endswith(f"but an interrupted run that cannot be resumed: {damage}")
    run("train", *INTERRUPTED, "--no-resume")
    (workdir / "model" / "checkpoint.npz").write_text("")
    assert f"run       an interrupted run that cannot be resumed: {damage}\n" in run("show", "model").stdout
    assert json.loads(run("show", "model", "--json").stdout)["interrupted"] == {"damage": damage}


def test_the_learned_hyperparameters_of_gpc_are_shown(tmp_path):
    points = np.random.default_rng(0).normal(size=(40, 2))
    dump_svmlight_file(points, np.where(points[:, 0] > 0, 1, -1), str(tmp_path / "two.svm"), zero_based=False)
    run("train", str(tmp_path / "two.svm"), "model", "--inducing-count", "5", "--iterations", "3")
    parameters = ModelFolder("model").arrays("parameters.kernel.")
    learned = (f"{np.exp(parameters[name]):.4g}" for name in ("se.log_variance", "se.log_lengthscale"))
    expected = "kernel    σ² {}, ℓ {}, ν² {:.4g}".format(*learned, np.exp(parameters["noise.log_variance"]))
    assert run("show", "model").stdout.splitlines()[3] == expected
    for path in ModelFolder("model").path.glob("arrays/parameters.kernel.noise*"):
        path.write_bytes(b"")
    assert run("show", "model").stdout.splitlines()[3] == "kernel    damaged"
