"""`xmlgp learn` interrupted, killed and resumed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import run, said
from tests.cli.disk import everything
from tests.cli.learning_on import (
    INDUCING,
    STEP,
    TRAIN,
    WRITE,
    arrays,
    assert_same_model,
    more,
    refused,
    train_model,
    train_text_model,
)
from tests.cli.test_interruption import assert_no_other_files, signals_at
from tests.problems import paired_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.interrupted import InterruptedRun


@pytest.fixture
def model(workdir, monkeypatch):
    return train_model(workdir, monkeypatch)


@pytest.fixture
def text(workdir, monkeypatch):
    return train_text_model(workdir, monkeypatch)


def interrupt(step, number=signal.SIGINT, *options):
    """Interrupt learning in a step; return what it says last."""
    with signals_at(STEP, step, number):
        result = run("learn", "model", "new.txt", *options)
    assert (result.exit_code, result.stdout) == (128 + number, "")
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize(("inducing", "step"), [("free", 7), ("features", 3)])
def test_an_interrupted_run_goes_on_with_the_same_result(model, inducing, step):
    assert run(*TRAIN, *INDUCING[inducing]).exit_code == 0
    shutil.copytree("model", "whole")
    before = arrays("model")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    line = interrupt(step)
    found = re.fullmatch(
        r"interrupted; stopped after (\d+) of (\d+) steps; resume with `xmlgp learn model new.txt`", line
    )
    assert found, line
    assert int(found[1]) == step
    assert arrays("model") == before
    assert run("predict", "model", "data/test.txt").exit_code == 0
    shown = run("show", "model").stdout
    assert f"a run that was interrupted after {step} of {found[2]} steps; resume with `xmlgp learn model DATA`" in shown
    result = run("learn", "model", "new.txt")
    assert result.stderr.splitlines()[0] == f"model: resuming after {step} of {found[2]} steps"
    assert_same_model("model", "whole")


PHASES = {
    "growing": "xmlgp.runs.learn.grow",
    "step": STEP,
    "regression": "xmlgp.mlgpf.regression.add_points",
    "saving": WRITE,
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_leaves_the_model(model, phase):
    after = list(PHASES).index(phase) % 2
    shutil.copytree("model", "whole")
    before = arrays("model")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    number = signal.SIGTERM if after else signal.SIGHUP
    with signals_at(PHASES[phase], 1, number, after=after):
        result = run("learn", "model", "new.txt", "-q")
    assert (result.exit_code, result.stdout) == (128 + number, "")
    assert not (model / ".lock").exists()
    assert arrays("model") == before
    assert_no_other_files(model)
    assert run("learn", "model", "new.txt", "-q").exit_code == 0
    assert_same_model("model", "whole")


@pytest.mark.parametrize(
    "name", ["xmlgp.model_folder.description.atomic_write", "xmlgp.runs.trained_model.TrainedModel.write"]
)
def test_a_signal_while_the_model_is_replaced_comes_after_it(model, name):
    shutil.copytree("model", "whole")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    with signals_at(name, 1, signal.SIGTERM, after=True):
        # A checkpoint is left as well.
        assert run("learn", "model", "new.txt", "-q", "--checkpoint-every", "1e-9").exit_code == 143
    assert arrays("model") == arrays("whole")
    result = run("learn", "model", "new.txt")
    line = "model: the model has learned these points already; nothing to do\n"
    assert (result.exit_code, result.stderr) == (0, line)
    assert arrays("model") == arrays("whole")
    # Nothing is left that could be resumed.
    assert InterruptedRun.read("model") is None
    write_dataset("other.txt", more(3, seed=13))
    assert run("learn", "model", "other.txt", "-q").exit_code == 0
    assert_no_other_files(model)


@pytest.mark.exhaustive
def test_a_run_killed_at_any_moment_leaves_a_model_and_ends_with_the_same(workdir):
    write_dataset("data/train.txt", paired_dataset(N=120))
    write_dataset("new.txt", paired_dataset(N=30, D=28, K=9, seed=1))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "tests.cli.killing_learn"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    outcomes = [json.loads(line) for line in result.stdout.splitlines()]
    assert [outcome for outcome in outcomes if outcome["differs"] or len(outcome["kept"]) != 1] == []
    assert all(outcome["status"] == -signal.SIGKILL for outcome in outcomes)
    assert {outcome["kept"][0] for outcome in outcomes} == {"before", "whole"}


def test_the_command_to_go_on_has_the_options(text):
    Path("labels").write_text("the indigo\n")
    with signals_at(STEP, 2, signal.SIGINT):
        result = run("learn", "model", "new.jsonl", "--text-column", "text", "--add-labels", "labels")
    command = re.search("resume with `(.*)`", result.stderr)[1]
    assert command == "xmlgp learn model new.jsonl --text-column text --add-labels labels"
    assert run(*command.split()[1:]).exit_code == 0
    assert ModelFolder("model").names.labels[-2:] == ["the indigo", "the violet"]


def test_standard_input_goes_on_with_the_same_input(model):
    content = Path("new.txt").read_text()
    with signals_at(STEP, 2, signal.SIGINT):
        result = run("learn", "model", "-", stdin=content)
    assert result.stderr.splitlines()[-1].endswith("; resume with `xmlgp learn model -` and the same input")
    assert "resuming after 2 of " in run("learn", "model", "-", stdin=content).stderr


def test_a_run_of_other_points_is_discarded_or_refused(model):
    interrupt(3)
    write_dataset("other.txt", more(seed=13))
    line = refused(model, "model", "other.txt", "--resume")
    assert re.fullmatch(
        "model: an unfinished run on other data exists, which stopped after 3 of [0-9]+ steps; finish it with "
        "--resume, or discard it with --no-resume",
        line,
    )
    result = run("learn", "model", "other.txt")
    assert result.exit_code == 0
    assert re.match("model: discarding the run that was interrupted after 3 of [0-9]+ steps\n", result.stderr)
    assert_no_other_files(model)


def test_training_and_learning_do_not_resume_each_other(model):
    advice = "finish it with --resume, or discard it with --no-resume"
    interrupt(3)
    before = everything(model)
    line = said(run("train", "data", "model", "--resume"))
    assert re.fullmatch(f"model: an unfinished run of `xmlgp learn` exists, which stopped .* steps; {advice}", line)
    assert everything(model) == before
    with signals_at("xmlgp.mlgpf.stochastic.Stochastic.step", 2, signal.SIGINT):
        assert run(*TRAIN, "--seed", "3", "--no-resume").exit_code == 130
    line = refused(model, "model", "new.txt", "--resume")
    assert re.fullmatch(f"model: an unfinished run of `xmlgp train` exists, which stopped .* steps; {advice}", line)
    assert run("learn", "model", "new.txt", "--no-resume", "-q").output == ""
    assert_no_other_files(model)


def test_a_damaged_checkpoint_is_refused(model):
    interrupt(3)
    (model / "checkpoint.npz").write_bytes(b"damaged")
    assert refused(model, "model", "new.txt").endswith("the checkpoint is damaged; use --no-resume to start a new run")
    assert run("learn", "model", "new.txt", "--no-resume", "-q").exit_code == 0
    assert_no_other_files(model)


def test_a_diverging_run_leaves_the_model(model, monkeypatch):
    monkeypatch.setattr("xmlgp.mlgpf.learning.RATE_SHARE", 1e30)
    assert "train again on all points" in refused(model, "model", "new.txt", "-q")
