"""`xmlgp show`: the description of a model at each stage."""

import json
import os
import re
from dataclasses import fields

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from tests.cli.command import SMALL, run, said
from xmlgp import __version__
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.threads import core_count
from xmlgp.settings.fields import in_words
from xmlgp.training.checkpoints import CheckpointWriter

pytestmark = pytest.mark.usefixtures("workdir")


def test_a_trained_model_is_described():
    run("train", "data", "model", *SMALL)
    result = run("show", "model")
    assert (result.exit_code, result.stderr) == (0, "")
    description = ModelFolder("model").description
    first, data, training, *rest = result.stdout.splitlines()
    assert first == f"model: mlgpf, trained, written by xmlgp {__version__}"
    assert data == f"data      N 40, D 25, K 7, fingerprint {description['data']['fingerprint'][:12]}"
    assert training.startswith("training  2 epochs, ")
    shown = {line.split()[0]: line.split()[1:] for line in rest}
    check_settings(shown, ModelFolder("model").settings)
    for name in description["arrays"]:
        assert name in shown
    assert shown["parameters.loadings"] == ["7×3", "f4"]
    assert shown["parameters.latent_weights.mean"] == ["25×3", "f4"]


def check_settings(shown, settings):
    """Check that settings are shown: those that are unset by their default, those without effect as such."""
    unused = settings.unused()
    assert unused
    for spec in fields(settings):
        value = getattr(settings, spec.name)
        expected = f"default: {spec.metadata['if_unset']}" if value is None else in_words(value)
        if spec.name in unused:
            expected = f"no effect with {unused[spec.name]}"
        assert " ".join(shown[spec.name]) == expected


@pytest.mark.parametrize("inference", ["em", "em-cg", "online-em", "gibbs"])
def test_a_model_of_bmlpl_is_described(inference):
    run("train", "data", "model", "--model", "bmlpl", "--inference", inference, "--iterations", "3", "--topics", "4")
    result = run("show", "model")
    assert (result.exit_code, result.stderr) == (0, "")
    description = ModelFolder("model").description
    first, _, training, *rest = result.stdout.splitlines()
    assert first == f"model: bmlpl, trained, written by xmlgp {__version__}"
    last = description["history"][-1]
    assert training == f"training  3 iterations, {last['seconds']:.1f} s, log posterior {last['log_posterior']:.6g}"
    shown = {line.split()[0]: line.split()[1:] for line in rest}
    check_settings(shown, ModelFolder("model").settings)
    assert shown["parameters.topics"] == ["7×4", "f4"]
    assert shown["parameters.weights"] == ["25×4", "f4"]
    assert json.loads(run("show", "model", "--json").stdout) == description


def test_a_preprocessed_model_is_described():
    run("preprocess", "data", "model", "--recipe", "s-SMALL")
    first, _, third, *rest = run("show", "model").stdout.splitlines()
    assert "preprocessed" in first
    assert third == "settings"
    assert ["preprocess.basis", "9×25", "f4"] in [line.split() for line in rest]


def test_json_is_the_whole_description():
    run("train", "data", "model", *SMALL)
    result = run("show", "model", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    description = json.loads(result.stdout)
    assert description == ModelFolder("model").description
    assert [entry["epoch"] for entry in description["history"]] == [1, 2]


#: The command that `interrupt` stops after two steps.
INTERRUPTED = ["train", "data", "model", *SMALL]


@pytest.fixture
def interrupt(monkeypatch):
    """Return a function that interrupts training after the second step."""

    def call():
        def maybe_save(self, state, epoch_ended=False):
            if state().facts["step"] == 2:
                self.save(state())
                raise Interrupted(15)

        with monkeypatch.context() as patch:
            patch.setattr(CheckpointWriter, "maybe_save", maybe_save)
            assert run(*INTERRUPTED).exit_code == 128 + 15

    return call


HINT = "interrupted after 2 of 21 steps; resume with `xmlgp train DATA model --resume`"


def test_an_interrupted_run_without_a_model_is_described(workdir, interrupt):
    interrupt()
    result = run("show", "model")
    assert (result.exit_code, result.stderr) == (0, "")
    first, title, *settings = result.stdout.splitlines()
    assert (first, title) == (f"model: no model yet, but a run that was {HINT}", "settings")
    assert ["factors", "3"] in [line.split() for line in settings]
    (facts,) = json.loads(run("show", "model", "--json").stdout).items()
    assert (facts[0], facts[1]["step"], facts[1]["settings"]["factors"]) == ("interrupted", 2, 3)
    # The command that it advises works.
    assert run("train", "data", "model", "--resume").exit_code == 0
    assert "interrupted" not in run("show", "model").stdout


def test_a_model_with_an_interrupted_run_is_described(workdir, interrupt):
    run("train", "data", "model", "--recipe", "s-SMALL")
    lines, description = (run("show", "model", *options).stdout for options in ([], ["--json"]))
    interrupt()
    result = run("show", "model")
    assert (result.exit_code, result.stderr) == (0, "")
    assert set(result.stdout.splitlines()) - set(lines.splitlines()) == {f"run       a run that was {HINT}"}
    found = json.loads(run("show", "model", "--json").stdout)
    facts = found.pop("interrupted")
    assert found == json.loads(description)
    assert facts.pop("seconds") > 0
    settings = facts.pop("settings")
    assert (settings["factors"], settings["epochs"]) == (3, 2)
    expected = {"writer": None, "step": 2, "steps": 21, "where": "after 2 of 21 steps"}
    assert facts == expected | {"cores": core_count(), "data": found["data"]}


def test_a_run_in_progress_names_its_process(workdir, interrupt):
    interrupt()
    with lock_model_folder("model"):
        message = run("show", "model").stdout
        assert re.search(rf"but a run by process {os.getpid()} on [^ ]+, after 2 of 21 steps at its last", message)
    assert HINT in run("show", "model").stdout


def test_a_damaged_checkpoint_is_reported(workdir, interrupt):
    interrupt()
    (workdir / "model" / "checkpoint.npz").write_text("")
    damage = "model/checkpoint.npz: the checkpoint is damaged; use --no-resume to start a new run"
    assert said(run("show", "model")).endswith(f"but an interrupted run that cannot be resumed: {damage}")
    run(*INTERRUPTED, "--no-resume")
    (workdir / "model" / "checkpoint.npz").write_text("")
    assert f"run       an interrupted run that cannot be resumed: {damage}\n" in run("show", "model").stdout
    assert json.loads(run("show", "model", "--json").stdout)["interrupted"] == {"damage": damage}


def test_the_resume_command_quotes_names_with_blanks(workdir, interrupt):
    interrupt()
    (workdir / "model").rename("a model")
    assert "resume with `xmlgp train DATA 'a model' --resume`" in run("show", "a model").stdout


def test_folders_without_a_model_are_refused(tmp_path):
    assert said(run("show", "data")) == "data: there is no model here (no model.json)"
    assert said(run("show"), status=2) == "Missing argument 'MODEL'."
    (tmp_path / "model.json").write_text("[]")
    assert said(run("show", ".")) == "model.json: this is not the description of an xmlgp model"


def test_the_learned_hyperparameters_of_gpc_are_shown(tmp_path):
    points = np.random.default_rng(0).normal(size=(40, 2))
    dump_svmlight_file(points, np.where(points[:, 0] > 0, 1, -1), str(tmp_path / "two.svm"), zero_based=False)
    run("train", str(tmp_path / "two.svm"), "model", "--inducing-count", "5")
    parameters = ModelFolder("model").arrays("parameters.kernel.")
    learned = (f"{np.exp(parameters[name]):.4g}" for name in ("se.log_variance", "se.log_lengthscale"))
    expected = "kernel    σ² {}, ℓ {}, ν² {:.4g}".format(*learned, np.exp(parameters["noise.log_variance"]))
    assert run("show", "model").stdout.splitlines()[3] == expected
    for path in ModelFolder("model").path.glob("arrays/parameters.kernel.noise*"):
        path.write_bytes(b"")
    assert run("show", "model").stdout.splitlines()[3] == "kernel    damaged"
