"""Commands on a disk that is full, read-only or over a quota fail in one sentence, and no existing file is lost."""

import errno
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import run
from tests.cli.disk import everything, failing_disk
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.interrupted import CHECKPOINT, InterruptedRun
from xmlgp.runtime import threads

CODES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO)

#: On a disk that keeps failing so, nothing can be removed either.
UNCHANGING = (errno.EROFS, errno.EACCES, errno.EIO)

SIZES = ["-P", "2", "--no-label-weights", "--set", "regression_points=0"]
TRAIN = ["train", "data", "disk/model", *SIZES, "--no-cache", "--checkpoint-every", "1e-9", "--epochs", "1"]
STEPS = {steps: ["--batch-size", str(40 // steps)] for steps in (1, 2)}
PREDICT = ["predict", "model", "data", "--output", "probability", "-k", "all"]

#: Paths in a model folder that errors may name.
MODEL = r"disk/model(/arrays|/checkpoint\.npz|/model\.json)?"

NOTES = re.compile(
    r"disk/model: (resuming after .*|discarding the run that was interrupted .*|"
    r"no checkpoint found; starting a new run|the checkpoint after .* is kept; run the command again to resume)"
)


@pytest.fixture
def disk(workdir, monkeypatch):
    """The folder on the disk that fails; all other files are on another."""
    # Threads would take longer to wait for each other than to work.
    monkeypatch.setattr(threads, "_all_cores", lambda: 1)
    # A checkpoint after every step.
    monkeypatch.setattr("xmlgp.training.checkpoints.TIME_RATIO", 0)
    (workdir / "disk").mkdir()
    return workdir / "disk"


@pytest.fixture
def scores(disk, model):
    """A trained model elsewhere, and scores of it."""
    done([*PREDICT, "-o", "scores"])


def done(command):
    """Run a command that succeeds; return what it prints."""
    result = run(*command)
    assert result.exit_code == 0, result.output
    return result.stdout


def told(result, code, known):
    """Check that a command fails in one sentence that names a path users know; return the notes before it."""
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    *notes, sentence = result.stderr.splitlines()
    if code == errno.ENOSPC:
        pattern = f"Error: no space left on the disk of ({known})"
    else:
        pattern = f"Error: ({known}): {os.strerror(code)}"
    assert re.fullmatch(pattern, sentence), sentence
    return notes


def moments(operations):
    """Return which operations are to fail: the first and the last of each kind."""
    first = {name: i for i, name in reversed(list(enumerate(operations, 1)))}
    last = {name: i for i, name in enumerate(operations, 1)}
    return sorted({*first.values(), *last.values()})


def disturbed(disk, monkeypatch, command, lasting=False):
    """Run a command from the same folder again and again, each time with another operation that fails.

    Yields what was in the folder, the result, the disk and the code of the error.
    """
    before = disk.with_name("before")
    shutil.copytree(disk, before)
    with failing_disk(monkeypatch, disk, math.inf, None) as trial:
        done(command)
    numbers = moments(trial.done)
    assert len(numbers) >= 5
    for number, code in zip(numbers, itertools.cycle(CODES), strict=False):
        shutil.rmtree(disk)
        shutil.copytree(before, disk)
        earlier = everything(disk)
        with failing_disk(monkeypatch, disk, number, code, lasting) as trial:
            result = run(*command)
        assert trial.failed or lasting
        yield earlier, result, trial, code


def model_in(path):
    """Return a model without its times and file names, and the other files of its folder."""
    folder = ModelFolder(path)
    facts = {name: value for name, value in folder.description.items() if name != "arrays"}
    facts["history"] = [dict(epoch, seconds=0) for epoch in facts.get("history", [])]
    files = {str(file.relative_to(path)) for file in Path(path).rglob("*") if not file.is_dir()}
    others = files - {"model.json", *(entry["file"] for entry in folder.entries("").values())}
    return (facts, {name: np.array(array).tobytes() for name, array in folder.arrays("").items()}), others


def entries(where):
    """Return the entries of the arrays that a model or a checkpoint names."""
    if where is None:
        return []
    return (where.entries("") if isinstance(where, ModelFolder) else where.preprocess).values()


@pytest.mark.parametrize(("start", "lasting"), [("trained", True), ("interrupted", False)])
def test_training_keeps_the_model_and_the_run_wherever_the_disk_fails(disk, monkeypatch, interrupt, start, lasting):
    command = [*TRAIN, *STEPS[2 if start == "interrupted" else 1]]
    done(command)
    expected, _ = model_in("disk/model")
    shutil.rmtree("disk/model")
    done([*TRAIN, "--seed", "4"])
    if start == "interrupted":
        interrupt(1, *TRAIN[1:], *STEPS[2])
    kept = 0
    for earlier, result, trial, code in disturbed(disk, monkeypatch, command, lasting):
        if result.exit_code == 0:
            found, others = model_in("disk/model")
            assert found == expected, trial.done
            assert not others or "os.remove" in trial.failed, trial.done
            done([*command, "--no-resume"])
        else:
            notes = told(result, code, MODEL)
            left = InterruptedRun.read("disk/model")
            assert all(map(NOTES.fullmatch, notes))
            assert sum("is kept" in note for note in notes) <= bool(left and left.steps)
            after = everything(disk)
            # The checkpoint of another run is removed with its arrays.
            described = {f"model/{entry['file']}" for entry in entries(left)}
            expect = {name for name in earlier if not name.startswith("model/arrays/")}
            expect |= {"model", "model/arrays", f"model/{CHECKPOINT}"} if left else set()
            mine = {f"model/{entry['file']}" for entry in entries(ModelFolder("disk/model"))} | {"model/model.json"}
            assert all(after[name] == earlier[name] for name in mine), trial.done
            described |= mine
            if not (lasting and code in UNCHANGING):
                assert after.keys() <= expect | described, trial.done
            kept += bool(left and left.steps)
            done(command)
        assert model_in("disk/model") == (expected, set()), trial.done
    assert kept


@pytest.mark.usefixtures("scores")
def test_a_read_only_disk_changes_nothing(disk, monkeypatch):
    done([*TRAIN, "--seed", "4"])
    (disk / "some.scores").write_bytes(b"earlier")
    earlier = everything(disk)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(disk / "cache"))
    with failing_disk(monkeypatch, disk, 1, errno.EROFS, lasting=True):
        for path, command in [
            (MODEL, TRAIN),
            ("disk/new", ["train", "data", "disk/new", *SIZES]),
            ("disk/some.scores", [*PREDICT, "-o", "disk/some.scores"]),
        ]:
            assert told(run(*command), errno.EROFS, path) == []
        # Commands that need not write there succeed.
        assert done(["show", "disk/model"]).startswith("disk/model: mlgpf, trained")
        assert done(["predict", "disk/model", "data"])
        assert json.loads(done(["evaluate", "scores", "data", "--json"])).keys() >= {"P@1", "P@3", "P@5"}
    assert everything(disk) == earlier


@pytest.mark.usefixtures("scores")
def test_full_standard_output_is_one_sentence():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no device that is full")
    with open("/dev/full", "wb") as output:
        command = [sys.executable, "-m", "xmlgp", "show", "model"]
        result = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (1, "Error: no space left on the disk of the output\n")
