"""Training that is interrupted at any moment ends in the same model, bit for bit; what is gone on with and what not."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.command import run, said
from tests.cli.killing import KINDS
from tests.problems import paired_dataset, small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.threads import core_count
from xmlgp.training import checkpoints

pytestmark = pytest.mark.usefixtures("place")

MOMENTS = 20

SMALL = ["--recipe", "s-SMALL", "--batch-size", "8", "--epochs", "3"]


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_moment(place, kind):
    write_dataset("data/train.txt", paired_dataset(N=120, K=1 if "gpc" in KINDS[kind] else 7))
    command = [sys.executable, "-m", "tests.cli.killing", kind, "expected", str(MOMENTS)]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    outcomes = [json.loads(line) for line in result.stdout.splitlines() if "differs" in line]
    assert [outcome for outcome in outcomes if outcome["differs"]] == []
    moments, calls = ([outcome for outcome in outcomes if key in outcome] for key in ("seconds", "call"))
    assert len(moments) == MOMENTS
    assert sum(outcome["status"] == -9 for outcome in moments) >= MOMENTS / 2
    # Whatever the machine's speed, those that count calls come by everything.
    stages = Counter(outcome["stage"] for outcome in calls if outcome["status"] == -9)
    assert {"not begun", "preprocessing", "preprocessed", "trained", "saved"} <= stages.keys()
    assert ("trained on all" in stages) == (kind == "mlgpf")
    assert calls[-1]["status"] == 0


@pytest.fixture
def interrupt(monkeypatch):
    """Trains with the command until a checkpoint of so many steps is written."""

    def train(model, steps, *options, seconds=0.0):
        offer = checkpoints.Checkpoints.offer

        def stopping(self, state, epoch_ended=False):
            if (found := state()).facts["step"] < steps:
                return
            self.write(found.joined(checkpoints.State({"seconds": seconds}, {})))
            raise Interrupted(2)

        monkeypatch.setattr(checkpoints.Checkpoints, "offer", stopping)
        result = run("train", "data", model, *options)
        assert (result.exit_code, result.stdout) == (130, "")
        monkeypatch.setattr(checkpoints.Checkpoints, "offer", offer)
        return result.stderr

    return train


def arrays(model):
    return {name: array.tobytes() for name, array in ModelFolder(model).arrays("").items()}


def test_resuming_takes_the_settings_of_what_was_interrupted(interrupt):
    run("train", "data", "whole", *SMALL)
    told = interrupt("model", 7, *SMALL)
    assert told.splitlines()[-1] == (
        "interrupted; `xmlgp train data model --resume` goes on after 7 of 15 steps on all points"
    )
    assert not ModelFolder.exists("model")
    result = run("train", "data", "model", "--resume")
    assert result.stderr.startswith("model: goes on after 7 of 15 steps on all points\nmodel: trained, 3 epochs in ")
    assert arrays("model") == arrays("whole")
    assert ModelFolder("model").settings == ModelFolder("whole").settings
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


TOPICS = ["--model", "bmlpl", "--iterations", "5", "--batch-size", "16"]


@pytest.mark.parametrize("inference", ["em", "em-cg", "online-em", "gibbs"])
def test_topics_that_were_interrupted_are_gone_on_with(interrupt, inference):
    options = [*TOPICS, "--inference", inference]
    run("train", "data", "whole", *options)
    told = interrupt("model", 4, *options)
    where = f"after 4 of {15 if inference == 'online-em' else 5} steps"
    assert told.splitlines()[-1] == f"interrupted; `xmlgp train data model --resume` goes on {where}"
    assert run("show", "model").stdout.startswith(f"model: no model yet, but a training that was interrupted {where}; ")
    result = run("train", "data", "model", "--resume")
    assert result.stderr.startswith(f"model: goes on {where}\nmodel: trained, 5 iterations in ")
    assert ", log posterior -" in result.stderr
    assert arrays("model") == arrays("whole")
    assert ModelFolder("model").settings == ModelFolder("whole").settings
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


CLASSES = ["--model", "gpc", "--iterations", "5", "-M", "6"]


@pytest.mark.parametrize("inference", ["svi-adadelta", "vi-jj", "vi-jj-full", "vi-jj-hybrid", "vi-taylor"])
def test_classes_that_were_interrupted_are_gone_on_with(interrupt, inference):
    write_dataset("data/train.txt", small_dataset(K=1))
    options = [*CLASSES, "--inference", inference]
    if inference == "svi-adadelta":
        options += ["--batch-size", "16"]
    run("train", "data", "whole", *options)
    # In the midst of an iteration over minibatches, or after the first where all may be few.
    where = "after 4 of 15 steps" if inference == "svi-adadelta" else "after 1 of 5 steps"
    told = interrupt("model", int(where.split()[1]), *options)
    assert told.splitlines()[-1] == f"interrupted; `xmlgp train data model --resume` goes on {where}"
    assert run("show", "model").stdout.startswith(f"model: no model yet, but a training that was interrupted {where}; ")
    result = run("train", "data", "model", "--resume")
    assert re.match(f"model: goes on {where}\nmodel: trained, [2-5] iterations in .* s, bound -", result.stderr)
    assert arrays("model") == arrays("whole")
    assert ModelFolder("model").settings == ModelFolder("whole").settings
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


def test_classes_that_were_interrupted_go_on_with_another_learning_rate(interrupt):
    write_dataset("data/train.txt", small_dataset(K=1))
    options = [*CLASSES, "--inference", "svi-adadelta", "--batch-size", "16"]
    run("train", "data", "whole", *options)
    interrupt("model", 4, *options)
    result = run("train", "data", "model", "--resume", "--learning-rate", "3")
    assert result.stderr.startswith("model: goes on after 4 of 15 steps\nmodel: trained, 5 iterations in ")
    assert ModelFolder("model").settings.learning_rate == 3
    assert arrays("model") != arrays("whole")
    # Other inference knows of no rate.
    run("train", "data", "whole", *CLASSES)
    interrupt("other", 2, *CLASSES)
    result = run("train", "data", "other", "--resume", "--learning-rate", "3")
    told = "other: --learning-rate has no effect with --inference vi-taylor\nother: goes on after 2 of 5 steps\n"
    assert result.stderr.startswith(told)
    assert arrays("other") == arrays("whole")


def test_topics_that_were_interrupted_have_no_learning_rate(interrupt):
    interrupt("model", 3, *TOPICS)
    told = said(run("train", "data", "model", "--resume", "--learning-rate", "0.1"), status=2)
    assert told == "--learning-rate is a setting of mlgpf and gpc, not of bmlpl; --model mlgpf chooses it"
    told = said(run("train", "data", "model", "--resume", "--topics", "3"))
    assert told == (
        "model: the training that was interrupted has topics left open, not 3; leave it out, or begin anew with "
        "--no-resume"
    )
    assert run("train", "data", "model", "--resume").exit_code == 0


def test_the_same_command_again_goes_on_too(interrupt):
    run("train", "data", "whole", *SMALL)
    interrupt("model", 7, *SMALL)
    assert "model: goes on after 7 of 15 steps" in run("train", "data", "model", *SMALL).stderr
    assert arrays("model") == arrays("whole")


def test_what_is_trained_is_not_trained_again(interrupt):
    run("train", "data", "model", *SMALL)
    before = Path("model/model.json").read_bytes()
    for options in ([], SMALL, ["--epochs", "3"]):
        result = run("train", "data", "model", "--resume", *options)
        assert (result.exit_code, result.stderr) == (0, "model: is trained, there is nothing to go on with\n")
    assert Path("model/model.json").read_bytes() == before


def test_a_trained_model_is_not_replaced_by_resuming(place):
    run("train", "data", "model", *SMALL)
    before = Path("model/model.json").read_bytes()
    told = said(run("train", "data", "model", "--resume", *SMALL, "--epochs", "2"))
    assert told == "model: this model has epochs 3, not 2; leave it out, or begin anew with --no-resume"
    # What goes on with another learning rate may be said again and again.
    result = run("train", "data", "model", "--resume", "--learning-rate", "0.001")
    assert (result.exit_code, result.stderr) == (0, "model: is trained, there is nothing to go on with\n")
    write_dataset("data/train.txt", small_dataset(seed=3))
    told = said(run("train", "data", "model", "--resume"))
    assert told == "model: this is a model of other data; --no-resume begins anew without it"
    assert Path("model/model.json").read_bytes() == before
    assert run("train", "data", "model", "--no-resume").exit_code == 0


def test_a_trained_model_that_lacks_an_array_is_not_taken_for_whole():
    run("train", "data", "model", *SMALL)
    Path("model", ModelFolder("model").entries("")["parameters.bias"]["file"]).unlink()
    assert said(run("train", "data", "model", "--resume")).endswith("the array parameters.bias is missing")


def test_a_name_that_looks_like_an_option(interrupt):
    told = interrupt("./-m", 7, *SMALL)
    assert "`xmlgp train data ./-m --resume`" in told


def test_with_nothing_to_go_on_with_it_begins():
    told = run("train", "data", "model", *SMALL, "--resume").stderr.splitlines()
    assert told[1] == "model: there is nothing to go on with, so training begins"
    assert told[2].startswith("model: trained, 3 epochs")


def test_what_is_dropped_is_told(interrupt):
    interrupt("model", 7, *SMALL)
    told = run("train", "data", "model", *SMALL, "--seed", "9").stderr.splitlines()
    assert told[1] == "model: drops a training that was interrupted after 7 of 15 steps on all points"


def test_standard_input_is_needed_again(interrupt):
    interrupt("model", 7, *SMALL)
    text = Path("data/train.txt").read_text()
    assert "goes on after 7" in run("train", "-", "model", "--resume", stdin=text).stderr


@pytest.mark.parametrize("rate", [0.001, None])
def test_another_learning_rate_before_the_first_step(monkeypatch, rate):
    def interrupted(*arguments):
        raise Interrupted(15)

    with monkeypatch.context() as context:
        context.setattr("xmlgp.runs.build.fit", interrupted)
        result = run("train", "data", "model", *SMALL)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        143, "interrupted; `xmlgp train data model --resume` goes on after preprocessing",
    )  # fmt: skip
    options = [] if rate is None else ["--learning-rate", rate]
    assert "model: goes on after preprocessing\n" in run("train", "data", "model", "--resume", *options).stderr
    assert ModelFolder("model").settings.learning_rate == rate


def test_settings_that_are_others_than_those_of_what_is_resumed(interrupt):
    interrupt("model", 7, *SMALL)
    line = said(run("train", "data", "model", "--resume", "--epochs", "4"))
    assert line == (
        "model: the training that was interrupted has epochs 3, not 4; leave it out, or begin anew with --no-resume"
    )
    assert said(run("train", "data", "model", "--resume", "--recipe", "default")).startswith("model: ")
    assert run("train", "data", "model", "--resume", *SMALL).exit_code == 0


def test_another_learning_rate_from_where_it_was_interrupted(interrupt):
    run("train", "data", "whole", *SMALL)
    interrupt("model", 7, *SMALL)
    result = run("train", "data", "model", "--resume", "--learning-rate", "0.001")
    assert result.stderr.splitlines()[-1] == "model: trained with the learning rate 0.001 at the end"
    assert arrays("model") != arrays("whole")
    rates = [epoch.get("learning_rate") for epoch in ModelFolder("model").description["history"]]
    assert rates == [None, 0.001, 0.001]


@pytest.mark.parametrize("seconds", [59, 61])
@pytest.mark.parametrize("change", ["settings", "data"])
def test_another_training_drops_only_what_took_less_than_a_minute(interrupt, seconds, change):
    interrupt("model", 7, *SMALL, seconds=float(seconds))
    before = Path("model/checkpoint.npz").read_bytes()
    options = SMALL
    if change == "data":
        write_dataset("data/train.txt", small_dataset(seed=3))
        how, going_on = "of other data", "--resume with those data"
    else:
        options = [*SMALL, "--seed", "9"]
        how, going_on = "with seed 5, now 9,", "--resume"
    result = run("train", "data", "model", *options, "--quiet")
    if seconds < 60:
        assert (result.exit_code, result.stderr) == (0, "")
        assert sorted(os.listdir("model")) == ["arrays", "model.json"]
        return
    assert said(result) == (
        f"model: training {how} was interrupted here after 7 of 15 steps on all points; {going_on} goes on with it, "
        "--no-resume begins anew without it"
    )
    assert Path("model/checkpoint.npz").read_bytes() == before
    assert run("train", "data", "model", *options, "--no-resume").exit_code == 0
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]


def test_other_data_are_not_gone_on_with(interrupt):
    interrupt("model", 7, *SMALL)
    write_dataset("data/train.txt", small_dataset(seed=3))
    assert "training of other data was interrupted here" in said(run("train", "data", "model", "--resume"))


def test_what_preprocessing_left_is_used_again(interrupt, monkeypatch):
    interrupt("model", 7, *SMALL)
    monkeypatch.setattr("xmlgp.runs.build.preprocess", None)
    assert run("train", "data", "model", "--resume").exit_code == 0


def test_the_earlier_model_stays_until_the_new_one_is_whole(interrupt):
    run("train", "data", "model", *SMALL, "--seed", "1")
    before = arrays("model")
    interrupt("model", 7, *SMALL)
    assert arrays("model") == before
    assert run("predict", "model", "data/test.txt").exit_code == 0
    run("train", "data", "model", "--resume")
    assert ModelFolder("model").settings.seed == 5
    assert len(os.listdir("model/arrays")) == len(arrays("model"))


def test_preprocessing_beside_what_was_interrupted_leaves_it_alone(interrupt):
    run("train", "data", "whole", *SMALL)
    interrupt("model", 7, *SMALL)
    assert run("preprocess", "data", "model").exit_code == 0
    assert "goes on after 7" in run("train", "data", "model", "--resume").stderr
    assert arrays("model") == arrays("whole")


def test_without_checkpoints(monkeypatch):
    monkeypatch.setattr(checkpoints.Checkpoints, "write", None)
    assert run("train", "data", "model", *SMALL, "--checkpoint-every", "0").exit_code == 0


def test_other_numbers_of_cores_are_told(interrupt, monkeypatch):
    monkeypatch.setattr("xmlgp.runs.build.core_count", lambda: 7)
    interrupt("model", 7, *SMALL)
    line = f"model: begun on {core_count()} cores, here are 7: last digits may differ"
    assert line in run("train", "data", "model", "--resume").stderr.splitlines()


def test_a_folder_that_was_copied_goes_on_elsewhere(interrupt):
    run("train", "data", "whole", *SMALL)
    interrupt("model", 7, *SMALL)
    shutil.copytree("model", "copy")
    run("train", "data", "copy", "--resume")
    assert arrays("copy") == arrays("whole")


@pytest.mark.parametrize("minutes", ["-1", "nan", "inf", "often"])
def test_wrong_intervals(minutes):
    assert said(run("train", "data", "model", "--checkpoint-every", minutes), status=2).startswith("Invalid value")
