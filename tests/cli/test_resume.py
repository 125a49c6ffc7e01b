"""A run that is interrupted at any moment and resumed ends with the same model, bit for bit."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import run, said
from tests.cli.disk import arrays, everything
from tests.problems import paired_dataset, small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runtime.threads import core_count

pytestmark = pytest.mark.usefixtures("workdir")

SMALL = ["--recipe", "s-SMALL", "--batch-size", "8", "--epochs", "3"]


def test_a_training_killed_at_any_moment_resumes_to_the_same_model(workdir):
    write_dataset("data/train.txt", paired_dataset(N=120))
    command = [sys.executable, "-m", "tests.cli.killing"]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    outcomes = [json.loads(line) for line in result.stdout.splitlines()]
    assert [outcome for outcome in outcomes if outcome["differs"]] == []
    assert all(outcome["status"] == -signal.SIGKILL for outcome in outcomes)
    stages = {outcome["stage"] for outcome in outcomes}
    assert stages == {"not begun", "preprocessing", "preprocessed", "trained", "calibrated", "saved"}


def test_resume_takes_the_settings_of_the_interrupted_run(interrupt):
    run("train", "data", "whole", *SMALL)
    message = interrupt(7, "data", "model", *SMALL)
    assert message.startswith(
        "interrupted; stopped after 7 of 15 steps of training; resume with `xmlgp train data model "
    )
    assert not ModelFolder.exists("model")
    result = run("train", "data", "model", "--resume")
    assert result.stderr.startswith("model: resuming after 7 of 15 steps of training\nmodel: trained in ")
    assert arrays("model") == arrays("whole")
    assert ModelFolder("model").settings == ModelFolder("whole").settings
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


def test_a_trained_model_is_not_replaced_by_resuming(workdir):
    run("train", "data", "model", *SMALL)
    before = Path("model/model.json").read_bytes()
    for options in ([], SMALL, ["--epochs", "3"], ["--model", "mlgpf"]):
        result = run("train", "data", "model", "--resume", *options)
        assert (result.exit_code, result.stderr) == (0, "model: already trained; nothing to resume\n")
    advice = "leave the option out, or use --no-resume to start a new run"
    for options, reason in [
        (["--epochs", "2"], f"the model has epochs 3, not 2; {advice}"),
        (["--model", "bmlpl", "--topics", "3"], f"the model is of mlgpf, not bmlpl; {advice}"),
        (["--topics", "3"], "topics is a setting of bmlpl, not of mlgpf"),
    ]:
        assert said(run("train", "data", "model", "--resume", *options)) == f"model: {reason}"
    assert Path("model/model.json").read_bytes() == before


def test_a_model_of_other_data_may_have_a_time_beyond_calendars(workdir, monkeypatch):
    run("train", "data", "model", *SMALL)
    write_dataset("data/train.txt", small_dataset(60, seed=3))

    def fail(seconds):
        raise OverflowError("timestamp out of range for platform time_t")

    monkeypatch.setattr("xmlgp.runs.interrupted.time.localtime", fail)
    assert "(40 points, last changed at an unknown time); choose another" in said(run("train", "data", "model"))


def test_a_model_of_other_data_is_replaced_only_when_asked(workdir, interrupt):
    run("train", "data", "model", *SMALL)
    os.utime("model/model.json", (0, 1e9))
    before = everything(workdir / "model")
    write_dataset("data/train.txt", small_dataset(60, seed=3))
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(1e9))
    for command in ("train",), ("train", "--resume"), ("train", "--no-resume"), ("preprocess",):
        assert said(run(*command, "data", "model")) == (
            f"model: the model here was trained on other data (40 points, last changed {changed}); choose another "
            "folder, or replace it with --overwrite"
        )
    assert everything(workdir / "model") == before
    # An interrupted run has been allowed to replace it.
    interrupt(7, "data", "model", *SMALL, "--overwrite")
    assert ModelFolder("model").description["data"]["N"] == 40
    assert run("train", "data", "model", "--resume").stderr.startswith("model: resuming after 7 of ")
    assert ModelFolder("model").description["data"]["N"] == 60
    # Preprocessing of other data is no loss, and neither is another training on the same data.
    write_dataset("data/train.txt", small_dataset(50, seed=3))
    assert run("preprocess", "-q", "data", "model", "--overwrite").exit_code == 0
    write_dataset("data/train.txt", small_dataset(seed=3))
    assert run("train", "-q", "data", "model", *SMALL).exit_code == 0
    assert run("train", "-q", "data", "model", *SMALL, "--seed", "9").exit_code == 0


def test_resume_without_a_checkpoint_starts_a_new_run():
    message = run("train", "data", "model", *SMALL, "--resume").stderr.splitlines()
    assert message[0] == "model: no checkpoint found; starting a new run"
    assert message[2].startswith("model: trained in ")


def test_what_contradicts_the_interrupted_run_is_refused(interrupt, monkeypatch):
    interrupt(7, "data", "model", *SMALL)
    message = said(run("train", "data", "model", "--model", "gpc", "--no-resume"))
    assert message == "gpc is for two classes: the training data must have one label (K is 7)"
    assert said(run("train", "data", "model", "--resume", "--epochs", "4")) == (
        "model: the interrupted run has epochs 3, not 4; leave the option out, or use --no-resume to start a new run"
    )
    assert said(run("train", "data", "model", "--resume", "--recipe", "default")).startswith("model: ")
    # Standard input has the same points.
    monkeypatch.setattr("xmlgp.runs.interrupted.core_count", lambda: 7)
    notes = run("train", "-", "model", *SMALL, stdin=Path("data/train.txt").read_bytes()).stderr.splitlines()
    assert "model: resuming after 7 of 15 steps of training" in notes
    counts = f"model: the checkpoint used {core_count()} threads, this run uses 7"
    assert f"{counts}; results may differ in the last digits, but not with --threads {core_count()}" in notes


@pytest.mark.parametrize(("seconds", "change"), [(59, "settings"), (61, "settings"), (61, "data")])
def test_only_runs_of_less_than_a_minute_are_discarded_unasked(interrupt, seconds, change):
    interrupt(7, "data", "model", *SMALL, seconds=float(seconds))
    before = Path("model/checkpoint.npz").read_bytes()
    options, difference = [*SMALL, "--seed", "9"], "with different settings (seed 5, now 9)"
    if change == "data":
        write_dataset("data/train.txt", small_dataset(seed=3))
        options, difference = SMALL, "on other data"
    result = run("train", "data", "model", *options, "--quiet")
    if seconds > 60:
        assert said(result) == (
            f"model: an unfinished run {difference} exists, which stopped after 7 of 15 steps of training; "
            "finish it with --resume, or discard it with --no-resume"
        )
        assert Path("model/checkpoint.npz").read_bytes() == before
        result = run("train", "data", "model", *options, "--no-resume", "-q")
    assert (result.exit_code, result.stderr) == (0, "")
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


def test_preprocessing_leaves_an_interrupted_run_alone(interrupt):
    run("train", "data", "whole", *SMALL)
    interrupt(7, "data", "model", *SMALL)
    assert run("preprocess", "data", "model").exit_code == 0
    assert "resuming after 7" in run("train", "data", "model", "--resume").stderr
    assert arrays("model") == arrays("whole")
