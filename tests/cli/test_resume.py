"""A run that is interrupted at any moment and resumed ends with the same model, bit for bit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import run, said
from tests.cli.disk import arrays, everything
from tests.cli.texts import documents
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
    assert stages == {"not begun", "trained", "calibrated", "saved"}


def test_the_same_command_resumes_to_the_same_model(interrupt):
    run("train", "data", "whole", *SMALL)
    message = interrupt(7, "data", "model", *SMALL)
    assert message == "Note: interrupted; run the same command again to resume"
    assert not ModelFolder.exists("model")
    result = run("train", "data", "model", *SMALL)
    assert "model: resuming after 7 of 15 steps of training\nNote: model: trained in " in result.stderr
    assert arrays("model") == arrays("whole")
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


def test_a_run_resumes_with_the_groups_of_its_points(interrupt, workdir):
    rows = [row | {"author": f"a{number % 90}"} for number, row in enumerate(documents(200, 0))]
    Path("notes.csv").write_text(
        "text,labels,author\n" + "".join(f"{row['text']},{';'.join(row['labels'])},{row['author']}\n" for row in rows)
    )
    assert run("split", "notes.csv", "parts", "--group-column", "author").exit_code == 0
    run("train", "parts", "whole", *SMALL)
    interrupt(7, "parts", "model", *SMALL)
    told = Path("parts/corpus.json").read_bytes()
    Path("parts/corpus.json").unlink()
    assert "an unfinished run on other data exists" in said(run("train", "parts", "model", *SMALL, "-q"))
    Path("parts/corpus.json").write_bytes(told)
    assert run("train", "parts", "model", *SMALL).exit_code == 0
    assert arrays("model") == arrays("whole")
    assert ModelFolder("model").description["held_out"] == ModelFolder("whole").description["held_out"]


def test_a_model_of_other_data_is_replaced_only_when_asked(workdir, interrupt):
    run("train", "data", "model", *SMALL)
    before = everything(workdir / "model")
    write_dataset("data/train.txt", small_dataset(60, seed=3))
    for command in ("train",), ("train", "--no-resume"), ("preprocess",):
        assert said(run(*command, "data", "model")) == (
            "model: the model here was trained on other data (40 points); choose another folder, "
            "or replace it with --overwrite"
        )
    assert everything(workdir / "model") == before
    interrupt(7, "data", "model", *SMALL, "--overwrite")
    assert ModelFolder("model").description["data"]["N"] == 40
    assert run("train", "data", "model", *SMALL, "--overwrite").stderr.count("model: resuming after 7 of ") == 1
    assert ModelFolder("model").description["data"]["N"] == 60
    # Preprocessing of other data is no loss, and neither is the same training again.
    write_dataset("data/train.txt", small_dataset(50, seed=3))
    assert run("preprocess", "-q", "data", "model", "--overwrite").exit_code == 0
    write_dataset("data/train.txt", small_dataset(seed=3))
    assert run("train", "-q", "data", "model", *SMALL).exit_code == 0
    assert run("train", "-q", "data", "model", *SMALL).exit_code == 0


def test_a_model_with_other_settings_is_replaced_only_when_asked(workdir):
    run("train", "data", "model", *SMALL)
    before = everything(workdir / "model")
    options = [*SMALL, "--epochs", "4"]
    for command in ("train",), ("train", "--no-resume"), ("preprocess",):
        assert said(run(*command, "-q", "data", "model", *options)) == (
            "model: the model here was trained with different settings (epochs 3, now 4); choose another folder, "
            "or replace it with --overwrite"
        )
    assert everything(workdir / "model") == before
    assert run("train", "-q", "data", "model", *options, "--overwrite").exit_code == 0
    assert ModelFolder("model").settings.epochs == 4
    # The settings of what is not trained yet are no loss.
    assert run("preprocess", "-q", "data", "half", *SMALL).exit_code == 0
    assert run("train", "-q", "data", "half", *options).exit_code == 0


def test_another_number_of_threads_is_noted(interrupt, monkeypatch):
    interrupt(7, "data", "model", *SMALL)
    # Standard input has the same points.
    monkeypatch.setattr("xmlgp.api.interrupted.core_count", lambda: 7)
    notes = run("train", "-", "model", *SMALL, stdin=Path("data/train.txt").read_bytes()).stderr.splitlines()
    assert "Note: model: resuming after 7 of 15 steps of training" in notes
    counts = f"Note: model: the checkpoint used {core_count()} threads, this run uses 7"
    assert f"{counts}; results may differ in the last digits, but not with --threads {core_count()}" in notes


@pytest.mark.parametrize("change", ["settings", "data"])
def test_another_run_is_refused_and_discarded_when_asked(interrupt, change):
    interrupt(7, "data", "model", *SMALL)
    before = Path("model/checkpoint.npz").read_bytes()
    options, difference = [*SMALL, "--seed", "9"], "with different settings (seed 5, now 9)"
    if change == "data":
        write_dataset("data/train.txt", small_dataset(seed=3))
        options, difference = SMALL, "on other data"
    assert said(run("train", "data", "model", *options, "--quiet")) == (
        f"model: an unfinished run {difference} exists, which stopped after 7 of 15 steps of training; "
        "finish it as it was started, or discard it with --no-resume"
    )
    assert Path("model/checkpoint.npz").read_bytes() == before
    result = run("train", "data", "model", *options, "--no-resume", "-q")
    assert (result.exit_code, result.stderr) == (0, "")
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


def test_preprocessing_leaves_an_interrupted_run_alone(interrupt):
    run("train", "data", "whole", *SMALL)
    interrupt(7, "data", "model", *SMALL)
    assert run("preprocess", "data", "model").exit_code == 0
    assert "resuming after 7" in run("train", "data", "model", *SMALL).stderr
    assert arrays("model") == arrays("whole")
