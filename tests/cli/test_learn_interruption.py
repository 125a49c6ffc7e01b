"""`xmlgp learn` interrupted and resumed."""

import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.command import SMALL, run, said
from tests.cli.disk import everything
from tests.cli.learning_on import STEP, arrays, assert_same_model, learner, more, refused, retrain, text_learner
from tests.cli.test_interruption import assert_no_other_files, signals_at
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.interrupted import InterruptedRun

__all__ = ["learner", "text_learner"]


def interrupt(step, data="new.txt", *options, stdin=None):
    """Interrupt learning in a step; return what it says last."""
    with signals_at(STEP, step, signal.SIGINT):
        result = run("learn", "model", data, *options, stdin=stdin)
    assert (result.exit_code, result.stdout) == (130, "")
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize(("inducing", "step"), [("free", 7), ("features", 3)])
def test_an_interrupted_run_goes_on_with_the_same_result(learner, inducing, step):
    retrain(inducing)
    shutil.copytree("model", "whole")
    before = arrays("model")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    line = interrupt(step)
    found = re.fullmatch(
        rf"interrupted; stopped (after {step} of \d+ steps of learning); resume with `xmlgp learn model new.txt`", line
    )
    assert arrays("model") == before
    assert run("predict", "model", "data/test.txt").exit_code == 0
    shown = run("show", "model").stdout
    assert f"a run that was interrupted {found[1]}; resume with `xmlgp learn model DATA`" in shown
    assert run("learn", "model", "new.txt").stderr.splitlines()[0] == f"model: resuming {found[1]}"
    assert_same_model("model", "whole")


def test_a_signal_while_the_model_is_replaced_comes_after_it(learner):
    shutil.copytree("model", "whole")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    with signals_at("xmlgp.model_folder.description.atomic_write", 1, signal.SIGTERM, after=True):
        # A checkpoint is left as well.
        assert run("learn", "model", "new.txt", "-q", "--checkpoint-every", "1e-9").exit_code == 143
    assert arrays("model") == arrays("whole")
    result = run("learn", "model", "new.txt")
    assert result.stderr == "model: the model has learned these points already; nothing to do\n"
    # Nothing is left that could be resumed.
    assert InterruptedRun.read("model") is None
    write_dataset("other.txt", more(3, seed=13))
    assert run("learn", "model", "other.txt", "-q").exit_code == 0
    assert_no_other_files(learner)


def test_the_command_to_go_on_has_the_options(text_learner):
    Path("labels").write_text("the indigo\n")
    line = interrupt(2, "more.jsonl", "--text-column", "text", "--add-labels", "labels")
    command = re.search("resume with `(.*)`", line)[1]
    assert command == "xmlgp learn model more.jsonl --text-column text --add-labels labels"
    line = interrupt(3, "-", "--text-column", "text", "--no-resume", stdin=Path("more.jsonl").read_bytes())
    assert line.endswith("resume with `xmlgp learn model - --text-column text` and the same input")
    assert run(*command.split()[1:], "--no-resume").exit_code == 0
    assert ModelFolder("model").names.labels[-2:] == ["the indigo", "the violet"]


def test_an_interrupted_batch_is_not_discarded_for_another(learner):
    interrupt(3)
    write_dataset("other.txt", more(D=25, K=7))
    for options in ["-q"], ["--resume"]:
        assert re.fullmatch(
            r"model: an interrupted run on 30 other points exists, which stopped after 3 of \d+ steps of learning; "
            "learn the same points again to resume it, or discard it with --no-resume",
            refused(learner, "model", "other.txt", *options),
        )
    shutil.copytree("model", "discarded")
    assert run("learn", "discarded", "other.txt", "-q", "--no-resume").exit_code == 0
    result = run("learn", "model", "new.txt")
    assert re.match(r"model: resuming after 3 of \d+ steps of learning\nmodel: learned 30 points, ", result.stderr)


def test_training_and_learning_do_not_resume_each_other(learner):
    advice = "finish it as it was started, or discard it with --no-resume"
    interrupt(3)
    before = everything(learner)
    line = said(run("train", "data", "model", "--resume"))
    assert re.fullmatch(f"model: an unfinished run of `xmlgp learn` exists, which stopped .* of [a-z]+; {advice}", line)
    assert everything(learner) == before
    with signals_at("xmlgp.mlgpf.stochastic.Stochastic.step", 2, signal.SIGINT):
        assert run("train", "data", "model", *SMALL, "--no-resume").exit_code == 130
    line = refused(learner, "model", "new.txt", "--resume")
    assert re.fullmatch(f"model: an unfinished run of `xmlgp train` exists, which stopped .* of [a-z]+; {advice}", line)
    (learner / "checkpoint.npz").write_bytes(b"damaged")
    line = refused(learner, "model", "new.txt")
    assert line.endswith("the checkpoint is damaged; use --no-resume to start a new run")
    assert run("learn", "model", "new.txt", "--no-resume", "-q").output == ""
    assert_no_other_files(learner)
