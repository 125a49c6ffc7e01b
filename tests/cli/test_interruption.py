"""Signals in any phase of training, and models that other processes write or read meanwhile."""

import contextlib
import json
import os
import pkgutil
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from tests.cli.command import run, said
from tests.held_out import calibrated
from tests.problems import paired_dataset
from xmlgp.api.interrupted import InterruptedRun
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder, lock_model_folder

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

#: Options for a run with preprocessing, held-out points, stochastic steps and sweeps.
SMALL = ["-P", "3", "--epochs", "5", "--batch-size", "30", "--label-weights"]
TRAIN = ["train", "data", "model", *SMALL]

READ = "xmlgp.api.source.Source.read"
WRITE = "xmlgp.model_folder.arrays.write_array"
STEP = "xmlgp.models.mlgpf.train.Stochastic.step"
SWEEP = "xmlgp.models.mlgpf.sweep.Sweep._update_weights"
CALIBRATION = "xmlgp.models.mlgpf.held_out.fit_calibration"

#: By phase: the function and the number of its call at which a signal comes, and where the run stops (None: nowhere).
#: There are 50 stochastic steps, 4 of two sweeps without the held-out points, one for the calibration on these,
#: and 2 of the sweep that adds them.
PHASES = {
    "reading": (READ, 1, None),
    "preprocessing": ("xmlgp.features.pipeline.inverse_frequencies", 1, None),
    "saving preprocessing": (WRITE, 1, None),
    "within an epoch": (STEP, 16, "after 16 of 55 steps of training"),
    "first sweep": (SWEEP, 1, "after 52 of 55 steps of training"),
    "calibration": (CALIBRATION, 1, "after 53 of 55 steps of training"),
    "last sweep": (SWEEP, 2, "after 55 of 55 steps of training"),
    "saving the model": (WRITE, 9, "after 55 of 55 steps of training"),
}


@pytest.fixture
def data(workdir, monkeypatch):
    """Let training hold out a quarter of the points, and every epoch end with a checkpoint."""
    write_dataset("data/train.txt", paired_dataset(N=120))
    monkeypatch.setattr("xmlgp.training.checkpoints.TIME_RATIO", 0)
    with calibrated(0.25):
        yield workdir


@contextlib.contextmanager
def signals_at(name, call, *numbers, after=False):
    """Send signals to this process before or after a call of a function, and check that the call came."""
    holder, _, function = name.rpartition(".")
    holder = pkgutil.resolve_name(holder)
    original, calls = getattr(holder, function), []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == call and not after:
            send(numbers)
        value = original(*arguments, **options)
        if len(calls) == call and after:
            send(numbers)
        return value

    with mock.patch.object(holder, function, interrupted):
        yield
    assert len(calls) >= call


def send(numbers):
    for number in numbers:
        os.kill(os.getpid(), number)


def interrupted(result, number):
    """Check that a signal ended a command with its status and one line; return where the run goes on, or None."""
    assert (result.exit_code, result.stdout) == (128 + number, "")
    *notes, line = result.stderr.splitlines()
    assert all(re.match(r"Note: model: (resuming|[a-z_]+ has no effect) ", note) for note in notes)
    if line == "Note: interrupted":
        return None
    assert line == "Note: interrupted; run the same command again to resume"
    return InterruptedRun.read("model").where


def resume():
    """Resume the run and check that a model results."""
    result = run(*TRAIN, "-q")
    assert (result.exit_code, result.output) == (0, "")
    assert ModelFolder("model").stage == "trained"
    assert InterruptedRun.read("model") is None
    assert_no_other_files(Path("model"))


def assert_no_other_files(path):
    """Check that a folder has no files but those that its model or its checkpoint names."""
    entries = []
    if (path / "model.json").exists():
        entries += ModelFolder(path).entries("").values()
    if left := InterruptedRun.read(path):
        entries += left.preprocess.values()
    files = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    assert files - {entry["file"] for entry in entries} <= {"model.json", "checkpoint.npz"}


@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_ends_training_so_that_it_can_be_resumed(data, phase):
    name, call, where = PHASES[phase]
    # Each of the three signals in turn, before the call and after it.
    position = list(PHASES).index(phase)
    number, after = SIGNALS[position % 3], position % 2
    with signals_at(name, call, number, after=after):
        stopped = interrupted(run(*TRAIN), number)
    if where is None:
        assert stopped is None
        assert not (data / "model").exists()
        return
    assert re.fullmatch(where, stopped)
    assert not (data / "model" / "model.json").exists()
    assert not (data / "model" / ".lock").exists()
    resume()


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGHUP, signal.SIGINT]])
def test_a_signal_while_a_checkpoint_is_written_leaves_a_complete_checkpoint(data, numbers):
    # In the middle of the second checkpoint.
    with signals_at("xmlgp.training.checkpoints.write_array", 17, *numbers):
        stopped = interrupted(run(*TRAIN), numbers[-1])
    step = int(re.fullmatch("after ([0-9]+) of 55 steps of training", stopped)[1])
    assert InterruptedRun.read("model").step == step
    assert_no_other_files(data / "model")
    resume()


def test_a_second_signal_ends_a_step_at_once_with_the_checkpoint_of_the_epoch_before(data):
    with signals_at(STEP, 16, signal.SIGINT, signal.SIGTERM):
        assert interrupted(run(*TRAIN), signal.SIGTERM) == "after 10 of 55 steps of training"
    resume()


def test_a_signal_while_a_run_is_resumed_keeps_its_checkpoint(data):
    with signals_at(STEP, 6, signal.SIGINT):
        run(*TRAIN)
    for name in (READ, "xmlgp.training.loop.Loop._restore"):
        with signals_at(name, 1, signal.SIGTERM):
            interrupted(run(*TRAIN), signal.SIGTERM)
        assert InterruptedRun.read("model").step == 6
    resume()


def test_the_earlier_model_stays_until_the_new_one_is_complete(data):
    for phase in ("within an epoch", "saving the model"):
        run("train", "data", "model", "--recipe", "s-SMALL", "--seed", "1", "-q", "--overwrite")
        before = (data / "model" / "model.json").read_bytes()
        name, call, _ = PHASES[phase]
        with signals_at(name, call, signal.SIGTERM):
            interrupted(run(*TRAIN, "--overwrite"), signal.SIGTERM)
        assert (data / "model" / "model.json").read_bytes() == before
        assert run("predict", "-q", "model", "data").exit_code == 0
        assert_no_other_files(data / "model")
        assert run(*TRAIN, "-q", "--overwrite").exit_code == 0
        assert ModelFolder("model").settings.factors == 3


def test_a_signal_in_the_preprocess_command_leaves_no_folder(data):
    with signals_at(WRITE, 2, signal.SIGTERM):
        result = run("preprocess", "data", "model", "--inducing", "free", "-M", "5")
    assert interrupted(result, signal.SIGTERM) is None
    assert not (data / "model").exists()


def test_a_second_writer_of_a_model_is_refused(data):
    with lock_model_folder("model"):
        for command in (TRAIN, ["preprocess", "data", "model"]):
            assert said(run(*command)) == (
                "model: another process is writing this model; wait until it ends, or choose another folder"
            )


#: Trains another model into the same folder for each line of standard input.
TRAIN_REPEATEDLY = """if True:
    import sys
    from xmlgp.cli import main
    words = ["train", "data", "model", "--recipe", "s-SMALL", "-q", "--epochs", "1", "--overwrite"]
    for line in sys.stdin:
        main([*words, "-P", line.strip(), "--checkpoint-every", "1e-9"], standalone_mode=False)
        print("trained", flush=True)
"""


def test_predict_and_show_read_a_complete_model_while_training_replaces_it(data):
    assert run("train", "data", "model", "--recipe", "s-SMALL", "-q").exit_code == 0
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", TRAIN_REPEATEDLY], **pipes) as process:
        print(2, file=process.stdin, flush=True)
        # At least once while it trains, and until it has finished.
        while True:
            result = run("predict", "-q", "model", "data", "-k", "2")
            assert (result.exit_code, result.stderr) == (0, "")
            result = run("show", "--json", "model")
            assert (result.exit_code, result.stderr) == (0, "")
            if select.select([process.stdout], [], [], 0.1)[0]:
                break
        assert process.stdout.readline() == "trained\n"
        assert json.loads(run("show", "--json", "model").stdout)["settings"]["factors"] == 2
        process.stdin.close()
        assert process.wait(timeout=60) == 0
