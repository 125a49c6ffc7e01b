"""A run that is interrupted at any moment and resumed ends with the same model, bit for bit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import run, said
from tests.problems import paired_dataset, small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.threads import core_count
from xmlgp.training import checkpoints

pytestmark = pytest.mark.usefixtures("workdir")

SMALL = ["--recipe", "s-SMALL", "--batch-size", "8", "--epochs", "3"]


def test_a_training_killed_at_any_moment_resumes_to_the_same_model(workdir):
    write_dataset("data/train.txt", paired_dataset(N=120))
    command = [sys.executable, "-m", "tests.cli.killing", "train"]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    outcomes = [json.loads(line) for line in result.stdout.splitlines()]
    assert [outcome for outcome in outcomes if outcome["differs"]] == []
    assert all(outcome["status"] == -signal.SIGKILL for outcome in outcomes)
    stages = {outcome["stage"] for outcome in outcomes}
    assert stages == {"not begun", "preprocessing", "preprocessed", "trained", "calibrated", "saved"}


@pytest.fixture
def interrupt(monkeypatch):
    """Trains with the command until a checkpoint of so many steps is written."""

    def train(model, steps, *options, seconds=0.0):
        maybe_save = checkpoints.CheckpointWriter.maybe_save

        def stopping(self, state, epoch_ended=False):
            if (found := state()).facts["step"] < steps:
                return
            self.save(found._replace(facts=found.facts | {"seconds": seconds}))
            raise Interrupted(2)

        monkeypatch.setattr(checkpoints.CheckpointWriter, "maybe_save", stopping)
        result = run("train", "data", model, *options)
        assert (result.exit_code, result.stdout) == (130, "")
        monkeypatch.setattr(checkpoints.CheckpointWriter, "maybe_save", maybe_save)
        return result.stderr

    return train


def arrays(model):
    return {name: array.tobytes() for name, array in ModelFolder(model).arrays("").items()}


def test_resume_takes_the_settings_of_the_interrupted_run(interrupt):
    run("train", "data", "whole", *SMALL)
    message = interrupt("model", 7, *SMALL)
    assert message.splitlines()[-1] == (
        "interrupted; stopped after 7 of 15 steps; resume with `xmlgp train data model --resume`"
    )
    assert not ModelFolder.exists("model")
    result = run("train", "data", "model", "--resume")
    assert result.stderr.startswith("model: resuming after 7 of 15 steps\nmodel: trained, 3 epochs, ")
    assert arrays("model") == arrays("whole")
    assert ModelFolder("model").settings == ModelFolder("whole").settings
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


def test_resume_does_nothing_where_the_model_is_trained(interrupt):
    run("train", "data", "model", *SMALL)
    before = Path("model/model.json").read_bytes()
    for options in ([], SMALL, ["--epochs", "3"]):
        result = run("train", "data", "model", "--resume", *options)
        assert (result.exit_code, result.stderr) == (0, "model: already trained; nothing to resume\n")
    assert Path("model/model.json").read_bytes() == before


def test_a_trained_model_is_not_replaced_by_resuming(workdir):
    run("train", "data", "model", *SMALL)
    before = Path("model/model.json").read_bytes()
    message = said(run("train", "data", "model", "--resume", *SMALL, "--epochs", "2"))
    assert (
        message == "model: the model has epochs 3, not 2; leave the option out, or use --no-resume to start a new run"
    )
    write_dataset("data/train.txt", small_dataset(seed=3))
    message = said(run("train", "data", "model", "--resume"))
    assert message == "model: the model was trained on other data; use --no-resume to replace it"
    assert Path("model/model.json").read_bytes() == before
    assert run("train", "data", "model", "--no-resume").exit_code == 0


def test_resume_without_a_checkpoint_starts_a_new_run():
    message = run("train", "data", "model", *SMALL, "--resume").stderr.splitlines()
    assert message[0] == "model: no checkpoint found; starting a new run"
    assert message[2].startswith("model: trained, 3 epochs")


def test_a_run_is_kept_if_the_data_do_not_suit_the_model(interrupt):
    interrupt("model", 7, *SMALL)
    message = said(run("train", "data", "model", "--model", "gpc", "--no-resume"))
    assert message == "gpc is for two classes: the training data must have one label (K is 7)"
    assert "model: resuming after 7 of 15 steps" in run("train", "data", "model", *SMALL).stderr


def test_a_run_from_standard_input_is_resumed_with_the_same_input(interrupt):
    interrupt("model", 7, *SMALL)
    text = Path("data/train.txt").read_text()
    assert "resuming after 7" in run("train", "-", "model", "--resume", stdin=text).stderr


def test_options_that_contradict_the_interrupted_run_are_refused(interrupt):
    interrupt("model", 7, *SMALL)
    line = said(run("train", "data", "model", "--resume", "--epochs", "4"))
    assert line == (
        "model: the interrupted run has epochs 3, not 4; leave the option out, or use --no-resume to start a new run"
    )
    assert said(run("train", "data", "model", "--resume", "--recipe", "default")).startswith("model: ")
    assert run("train", "data", "model", "--resume", *SMALL).exit_code == 0


@pytest.mark.parametrize(("seconds", "change"), [(59, "settings"), (61, "settings"), (61, "data")])
def test_only_runs_of_less_than_a_minute_are_discarded_unasked(interrupt, seconds, change):
    interrupt("model", 7, *SMALL, seconds=float(seconds))
    before = Path("model/checkpoint.npz").read_bytes()
    options = SMALL
    if change == "data":
        write_dataset("data/train.txt", small_dataset(seed=3))
        difference = "on other data"
    else:
        options = [*SMALL, "--seed", "9"]
        difference = "with different settings (seed 5, now 9)"
    result = run("train", "data", "model", *options, "--quiet")
    if seconds < 60:
        assert (result.exit_code, result.stderr) == (0, "")
        assert sorted(os.listdir("model")) == ["arrays", "model.json"]
        return
    assert said(result) == (
        f"model: an unfinished run {difference} exists, which stopped after 7 of 15 steps; "
        "finish it with --resume, or discard it with --no-resume"
    )
    assert Path("model/checkpoint.npz").read_bytes() == before
    assert run("train", "data", "model", *options, "--no-resume").exit_code == 0
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


def test_preprocessing_leaves_an_interrupted_run_alone(interrupt):
    run("train", "data", "whole", *SMALL)
    interrupt("model", 7, *SMALL)
    assert run("preprocess", "data", "model").exit_code == 0
    assert "resuming after 7" in run("train", "data", "model", "--resume").stderr
    assert arrays("model") == arrays("whole")


def test_another_number_of_cores_is_reported(interrupt, monkeypatch):
    interrupt("model", 7, *SMALL)
    monkeypatch.setattr("xmlgp.runs.interrupted.core_count", lambda: 7)
    line = f"model: the checkpoint used {core_count()} cores, this run uses 7; results may differ in the last digits"
    assert line in run("train", "data", "model", "--resume").stderr.splitlines()
