"""Trainings that are interrupted in any phase, and models that others write or read meanwhile."""

import contextlib
import json
import os
import pkgutil
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from unittest import mock

import pytest

from tests.cli.command import run, said, spawn
from tests.problems import paired_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.interrupted import InterruptedRun

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

#: With preprocessing, held-out points, a training on all points and a regression.
SMALL = [
    "-P",
    "3",
    "-M",
    "6",
    "-R",
    "9",
    "--epochs",
    "3",
    "--batch-size",
    "30",
    "--label-weights",
    "--inducing",
    "subspace",
]
TRAIN = ["train", "data", "model", *SMALL]

RESUME = "resume with `xmlgp train data model --resume`"

STEP = "xmlgp.mlgpf.stochastic.StochasticAscent.step"

#: Function, the call of it in which a signal comes, and how far training then is, where it can be gone on with.
PHASES = {
    "reading": ("xmlgp.cli.train.read_dataset", 1, None),
    "preprocessing": ("xmlgp.runs.train.preprocess_data", 1, "in preprocessing"),
    "the basis": ("xmlgp.preprocess.pipeline.truncated_svd_basis", 1, "in preprocessing"),
    "saving what was preprocessed": ("xmlgp.model_folder.arrays._write", 2, "in preprocessing"),
    "the start": ("xmlgp.mlgpf.stochastic.start", 1, "after preprocessing"),
    "the first step": (
        STEP,
        1,
        "after 1 of 12 steps on the points not held out",
    ),
    "the midst of an epoch": (STEP, 6, "after 6 of 12 steps on the points not held out"),
    "the end of an epoch": (
        STEP,
        8,
        "after 8 of 12 steps on the points not held out",
    ),
    "scoring": ("xmlgp.mlgpf.train._ndcg", 2, "after 8 of 12 steps on the points not held out"),
    "the regression on some": ("xmlgp.mlgpf.train.fit_exact_gp", 1, "after 12 of 12 steps on the points not held out"),
    "comparing": ("xmlgp.mlgpf.train._ndcg", 5, "after 12 of 12 steps on the points not held out"),
    "the start on all points": ("xmlgp.mlgpf.stochastic.start", 2, "after 12 of 12 steps on the points not held out"),
    "a step on all points": (
        STEP,
        14,
        "after 2 of [0-9]+ steps on all points",
    ),
    "the regression on all": ("xmlgp.mlgpf.train.fit_exact_gp", 2, "after ([0-9]+) of \\1 steps on all points"),
    "saving arrays of the model": ("xmlgp.model_folder.arrays._write", 9, "after ([0-9]+) of \\1 steps on all points"),
}


@pytest.fixture
def data(place, monkeypatch):
    """Data whose held-out points the regression ranks better; checkpoints at the end of every epoch."""
    write_dataset("data/train.txt", paired_dataset(N=120))
    monkeypatch.setattr("xmlgp.training.checkpoints.TIME_RATIO", 0)
    return place


@contextlib.contextmanager
def at(name, call, *numbers, within=False):
    """Let signals come at a call of a function: before it does anything, or when it has done all."""
    holder, _, function = name.rpartition(".")
    holder = pkgutil.resolve_name(holder)
    original, calls = getattr(holder, function), []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == call and not within:
            send(numbers)
        value = original(*arguments, **options)
        if len(calls) == call and within:
            send(numbers)
        return value

    with mock.patch.object(holder, function, interrupted):
        yield
    assert len(calls) >= call


def send(numbers):
    for number in numbers:
        os.kill(os.getpid(), number)


def told(result, number):
    """Assert that a signal ended a command with one line; return what it advises."""
    assert (result.exit_code, result.stdout) == (128 + number, "")
    *notes, line = result.stderr.splitlines()
    assert all(re.match(r"model: (resuming|--[a-z-]+ has no effect) ", note) for note in notes)
    interrupted, _, advice = line.partition("; ")
    assert interrupted == "interrupted"
    return advice


def tidy(path):
    """Make sure that nothing is left but what a model or a checkpoint names."""
    entries = []
    if (path / "model.json").exists():
        entries += ModelFolder(path).entries("").values()
    with contextlib.suppress(AttributeError):
        entries += InterruptedRun.read(path).preprocess.values()
    files = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    named = {entry["file"] for entry in entries}
    return files - named <= {"model.json", "checkpoint.npz"}


@pytest.mark.parametrize("within", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_is_told_in_one_line_and_training_goes_on(data, phase, within):
    name, call, where = PHASES[phase]
    # Each of the three comes by.
    number = SIGNALS[(len(phase) + within) % 3]
    with at(name, call, number, within=within):
        advice = told(run(*TRAIN), number)
    if where is None:
        assert advice == ""
        assert not (data / "model").exists()
    else:
        assert re.fullmatch(f"stopped {where}; {RESUME}", advice)
        assert not (data / "model" / "model.json").exists()
        assert not (data / "model" / ".lock").exists()
        result = run("train", "data", "model", "--resume", "-q")
        assert (result.exit_code, result.output) == (0, "")
        assert ModelFolder("model").stage == "trained"
        assert InterruptedRun.read("model") is None
        assert tidy(data / "model")


#: By model, training that takes 4 iterations, where steps are of minibatches 2 each.
OTHERS = {
    "bmlpl": ["train", "data", "model", "--model", "bmlpl", "--iterations", "4", "--batch-size", "60"],
    "gpc": ["train", "data", "model", "--model", "gpc", "--iterations", "4", "--batch-size", "60", "-M", "6"],
}

#: Kinds of inference that signals come in; the first wherever a phase names none.
INFERENCES = {"bmlpl": ["em-cg", "em", "online-em", "gibbs"], "gpc": ["svi-adadelta", "vi-taylor", "vi-jj-hybrid"]}

#: The same of bmlpl, by inference where steps are its own.
TOPICS_PHASES = {
    "reading": ("xmlgp.cli.train.read_dataset", 1, None),
    "preprocessing": ("xmlgp.runs.train.preprocess_data", 1, "in preprocessing"),
    "saving what was preprocessed": ("xmlgp.model_folder.arrays._write", 1, "in preprocessing"),
    "the start": ("xmlgp.bmlpl.start.initial_topics", 1, "after preprocessing"),
    "a step of em": ("xmlgp.bmlpl.em.EM.step", 3, "after 3 of 4 steps"),
    "a step of em-cg": ("xmlgp.bmlpl.em.EM.step", 1, "after 1 of 4 steps"),
    "a step of online-em": ("xmlgp.bmlpl.online_em.OnlineEM.step", 3, "after 3 of 8 steps"),
    "the end of a pass of online-em": ("xmlgp.bmlpl.online_em.OnlineEM.step", 4, "after 4 of 8 steps"),
    "a step of gibbs": ("xmlgp.bmlpl.gibbs.Gibbs.step", 2, "after 2 of 4 steps"),
    "the last step of gibbs": ("xmlgp.bmlpl.gibbs.Gibbs.step", 4, "after 4 of 4 steps"),
    "saving arrays of the model": ("xmlgp.model_folder.arrays._write", 4, "after 4 of 4 steps"),
}


#: And of gpc.
CLASSES_PHASES = {
    "reading": ("xmlgp.cli.train.read_dataset", 1, None),
    "preprocessing": ("xmlgp.runs.train.preprocess_data", 1, "in preprocessing"),
    "standardising": ("xmlgp.preprocess.pipeline.mean_and_scale", 1, "in preprocessing"),
    "saving what was preprocessed": ("xmlgp.model_folder.arrays._write", 2, "in preprocessing"),
    "the start": ("xmlgp.gpc.model.GPC.initial", 1, "after preprocessing"),
    "a step of vi-taylor": ("xmlgp.gpc.variational.TaylorExpansion.step", 2, "after 2 of 4 steps"),
    "a step of vi-jj-hybrid": ("xmlgp.gpc.variational.Hybrid.step", 1, "after 1 of 4 steps"),
    "a step of svi-adadelta": ("xmlgp.gpc.svi.SVIAdaDelta.step", 3, "after 3 of 8 steps"),
    "the end of a pass of svi-adadelta": ("xmlgp.gpc.svi.SVIAdaDelta.step", 4, "after 4 of 8 steps"),
    "the last step of svi-adadelta": ("xmlgp.gpc.svi.SVIAdaDelta.step", 8, "after 8 of 8 steps"),
    "saving arrays of the model": ("xmlgp.model_folder.arrays._write", 5, "after 8 of 8 steps"),
}


@pytest.mark.parametrize("within", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("model", "phase"), [*(("bmlpl", phase) for phase in TOPICS_PHASES), *(("gpc", phase) for phase in CLASSES_PHASES)]
)
def test_a_signal_while_another_model_is_trained_is_told_in_one_line(data, model, phase, within):
    name, call, where = (TOPICS_PHASES if model == "bmlpl" else CLASSES_PHASES)[phase]
    inference = phase.rpartition(" of ")[2]
    words = [*OTHERS[model], "--inference", inference if inference in INFERENCES[model] else INFERENCES[model][0]]
    if model == "gpc":
        write_dataset("data/train.txt", paired_dataset(N=120, K=1))
    number = SIGNALS[(len(phase) + within) % 3]
    with at(name, call, number, within=within):
        advice = told(run(*words), number)
    if where is None:
        assert advice == ""
        assert not (data / "model").exists()
        return
    assert advice == f"stopped {where}; {RESUME}"
    assert not (data / "model" / "model.json").exists()
    result = run("train", "data", "model", "--resume", "-q")
    assert (result.exit_code, result.output) == (0, "")
    assert ModelFolder("model").stage == "trained"
    assert InterruptedRun.read("model") is None
    assert tidy(data / "model")
    run(*words[:2], "whole", *words[3:], "-q")
    for array, value in ModelFolder("whole").arrays("").items():
        assert ModelFolder("model").array(array).tobytes() == value.tobytes(), array


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("call", [1, 2, 7])
def test_every_signal_has_its_status(data, number, call):
    with at(STEP, call, number):
        assert f"stopped after {call} of 12 steps" in told(run(*TRAIN), number)


@pytest.mark.parametrize("phase", ["the midst of an epoch", "the regression on all", "reading", "the basis"])
def test_of_two_signals_in_a_row_the_second_does_not_wait(data, phase):
    name, call, where = PHASES[phase]
    with at(name, call, signal.SIGTERM, signal.SIGINT):
        result = run(*TRAIN)
    # Where nothing puts signals off the first one ends it.
    number = signal.SIGINT if phase == "the midst of an epoch" else signal.SIGTERM
    advice = told(result, number)
    if phase == "the midst of an epoch":
        # The last checkpoint is that of the epoch before: of this step nothing is kept.
        where = "after 4 of 12 steps on the points not held out"
    assert bool(advice) == bool(where)
    if where:
        assert re.fullmatch(f"stopped {where}; {RESUME}", advice)
        assert run("train", "data", "model", "--resume", "-q").exit_code == 0


@pytest.mark.parametrize(
    "numbers", [[signal.SIGTERM], [signal.SIGTERM, signal.SIGTERM], [signal.SIGHUP, signal.SIGINT]]
)
def test_signals_while_a_checkpoint_is_written(data, numbers):
    # In the midst of that of the second epoch.
    with at("xmlgp.training.checkpoints.write_array", 50, *numbers):
        advice = told(run(*TRAIN), numbers[-1])
    step = int(re.search("stopped after ([0-9]+) of 12 steps on the points not held out", advice)[1])
    assert InterruptedRun.read("model").step == step
    assert tidy(data / "model")
    assert run("train", "data", "model", "--resume", "-q").exit_code == 0


def test_what_there_was_to_go_on_with_stays_when_going_on_is_interrupted(data):
    with at(STEP, 6, signal.SIGINT):
        run(*TRAIN)
    # As it is read, and before it has made a step.
    for name in ("xmlgp.cli.train.read_dataset", "xmlgp.mlgpf.stochastic.start", "xmlgp.training.loop.Loop._restore"):
        with at(name, 1, signal.SIGTERM):
            told(run("train", "data", "model", "--resume"), signal.SIGTERM)
        assert InterruptedRun.read("model").step == 6
    assert run("train", "data", "model", "--resume", "-q").exit_code == 0


def test_a_model_that_was_there_stays_until_another_is_whole(data):
    run("train", "data", "model", "--recipe", "s-SMALL", "--seed", "1", "-q")
    before = (data / "model" / "model.json").read_bytes()
    for phase in ("preprocessing", "the midst of an epoch", "the regression on all", "saving arrays of the model"):
        name, call, _ = PHASES[phase]
        with at(name, call, signal.SIGTERM):
            told(run(*TRAIN), signal.SIGTERM)
        assert (data / "model" / "model.json").read_bytes() == before
        assert run("predict", "-q", "model", "data").exit_code == 0
        assert tidy(data / "model")
        assert run(*TRAIN, "--resume", "-q").exit_code == 0
        assert ModelFolder("model").settings.factors == 3
        run("train", "data", "model", "--recipe", "s-SMALL", "--seed", "1", "-q")
        before = (data / "model" / "model.json").read_bytes()


@pytest.mark.parametrize("call", [1, 2])
def test_a_signal_while_preprocessing_is_saved_by_itself(data, call):
    with at("xmlgp.model_folder.arrays._write", call, signal.SIGTERM):
        result = run("preprocess", "data", "model", "-M", "5")
    assert told(result, signal.SIGTERM) == ""
    assert not (data / "model").exists()


def test_without_checkpoints_nothing_is_left(data):
    with at(STEP, 6, signal.SIGTERM):
        assert told(run(*TRAIN, "--checkpoint-every", "0"), signal.SIGTERM) == ""
    assert not (data / "model").exists()


# From here on processes of their own, with what only they have: what they were started to ignore, and each other.

LONG = ["--epochs", "100000", "--validation", "0", "--patience", "9", "-P", "3", "-M", "6", "--regression-points", "0"]


@contextlib.contextmanager
def training(*words, before=(), **options):
    """A process that trains and will not come to an end; it has written a checkpoint of some steps."""
    command = [*before, sys.executable, "-m", "xmlgp", "train", "data", "model", *LONG, *words]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes, **options) as process:
        try:
            wait_for(process, lambda found: found and found.step)
            yield process
        finally:
            process.kill()


def wait_for(process, reached):
    while not reached(InterruptedRun.read("model")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def ended(process, number):
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


def test_the_second_of_two_trainings_of_one_model_is_refused(data):
    with training() as first:
        # By whatever writes there; the first one is not disturbed.
        for command in (
            ["train", "data", "model", *LONG],
            ["train", "data", "model", "--resume"],
            ["preprocess", "data", "model"],
        ):
            line = said(run(*command))
            advice = "wait until it ends, or choose another folder"
            pattern = rf"model: process {first.pid} on [^ ]+ is writing this model; {advice}"
            assert re.fullmatch(pattern, line)
        result = spawn("train", "data", "model", *LONG)
        assert (result.returncode, result.stdout) == (1, b"")
        assert re.fullmatch(f"Error: {pattern}\n", result.stderr.decode())
        found = run("show", "model").stdout
        assert f"but a run by process {first.pid} on " in found
        assert ended(first, signal.SIGTERM)[0] == 143
    assert "but a run that was interrupted after " in run("show", "model").stdout


@pytest.mark.skipif(not shutil.which("nohup"), reason="there is no nohup here")
def test_what_was_started_to_outlive_its_terminal_does(data):
    with training(before=["nohup"]) as process:
        process.send_signal(signal.SIGHUP)
        step = InterruptedRun.read("model").step
        wait_for(process, lambda found: found.step > step + 100)
        status, _, stderr = ended(process, signal.SIGTERM)
    *_, line = stderr.splitlines()
    assert status == 143
    assert re.fullmatch(f"interrupted; stopped after .*; {RESUME}", line)


def test_what_was_started_to_ignore_interrupts_does(data):
    # As shells start jobs in the background of a script.
    with training(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as process:
        process.send_signal(signal.SIGINT)
        step = InterruptedRun.read("model").step
        wait_for(process, lambda found: found.step > step + 100)
        status, _, stderr = ended(process, signal.SIGHUP)
    assert status == 129
    assert stderr.startswith("interrupted; ")
    assert stderr.count("\n") == 1


#: Trains another model into the same folder for each line of standard input.
TRAIN_REPEATEDLY = """if True:
    import sys
    from xmlgp.cli import main
    words = ["train", "data", "model", "--recipe", "s-SMALL", "-q", "--epochs", "1"]
    for line in sys.stdin:
        main([*words, "-P", line.strip(), "--checkpoint-every", "1e-9"], standalone_mode=False)
        print("trained", flush=True)
"""


def test_predict_and_show_read_a_complete_model_while_training_replaces_it(data):
    assert run("train", "data", "model", "--recipe", "s-SMALL", "-q").exit_code == 0
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", TRAIN_REPEATEDLY], **pipes) as process:
        for factors in (2, 3, 4):
            print(factors, file=process.stdin, flush=True)
            # At least once while it trains, and until it has.
            while True:
                result = run("predict", "-q", "model", "data", "-k", "2")
                assert (result.exit_code, result.stderr) == (0, "")
                result = run("show", "--json", "model")
                assert (result.exit_code, result.stderr) == (0, "")
                if select.select([process.stdout], [], [], 0)[0]:
                    break
            assert process.stdout.readline() == "trained\n"
            assert json.loads(run("show", "--json", "model").stdout)["settings"]["factors"] == factors
        process.stdin.close()
        assert process.wait(timeout=60) == 0
