"""`xmlgp learn` interrupted and resumed."""

import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.command import SMALL, run, said
from tests.cli.disk import everything
from tests.cli.learning_on import STEP, arrays, assert_same_model, learner, more, refused, retrain, text_learner
from tests.cli.test_interruption import SIGNALS, WRITE, assert_no_other_files, data, signals_at
from tests.problems import paired_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.interrupted import InterruptedRun

__all__ = ["data", "learner", "text_learner"]

AGAIN = "resume with `xmlgp learn model new.txt -q`"

#: By phase: the function and the number of its call at which a signal comes, whether after it, and what is said.
PHASES = {
    "reading": ("xmlgp.inputs.source.Source.more", 1, False, "the model is unchanged"),
    "preparing": ("xmlgp.mlgpf.incremental.IncrementalTraining.__init__", 1, False, "the model is unchanged"),
    "learning": (STEP, 3, False, rf"stopped after 3 of \d+ steps of learning, and the model is unchanged; {AGAIN}"),
    "regression": (
        "xmlgp.regression.fitting._solve_few",
        1,
        False,
        rf"stopped after (\d+) of \1 steps of learning, and the model is unchanged; {AGAIN}",
    ),
    "writing": (WRITE, 2, True, rf"stopped after (\d+) of \1 steps of .*, and the model is unchanged; {AGAIN}"),
    "written": ("xmlgp.model_folder.description.atomic_write", 1, True, "the new model is complete"),
}


def interrupt(step, data="new.txt", *options, stdin=None):
    """Interrupt learning in a step; return what it says last."""
    with signals_at(STEP, step, signal.SIGINT):
        result = run("learn", "model", data, *options, stdin=stdin)
    assert (result.exit_code, result.stdout) == (130, "")
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_says_what_is_left(data, trained, monkeypatch, phase):
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 6)
    # A quarter of the points is held out, and ranked better with regression.
    trained("pairs", "data", "model", "-P", "3", "--epochs", "5", "--label-weights")
    write_dataset("new.txt", paired_dataset(N=30, D=28, K=9, seed=1))
    shutil.copytree("model", "whole")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    before = arrays("model")
    name, call, after, left = PHASES[phase]
    number = SIGNALS[list(PHASES).index(phase) % 3]
    with signals_at(name, call, number, after=after):
        result = run("learn", "model", "new.txt", "-q")
    assert (result.exit_code, result.stdout) == (128 + number, "")
    assert re.fullmatch(f"interrupted; {left}", result.stderr.splitlines()[-1])
    assert arrays("model") == (arrays("whole") if phase == "written" else before)
    assert_no_other_files(Path("model"))
    assert run("learn", "model", "new.txt", "-q").exit_code == 0
    assert_same_model("model", "whole")


@pytest.mark.parametrize(("inducing", "step"), [("free", 7), ("features", 3), ("features", 9), ("features", 11)])
def test_an_interrupted_run_goes_on_with_the_same_result(learner, inducing, step):
    retrain(inducing)
    shutil.copytree("model", "whole")
    before = arrays("model")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    line = interrupt(step)
    found = re.fullmatch(
        rf"interrupted; stopped (after {step} of \d+ steps of learning), and the model is unchanged; "
        "resume with `xmlgp learn model new.txt`",
        line,
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
