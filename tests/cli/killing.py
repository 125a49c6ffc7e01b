"""Kill training and resume it: `python -m tests.cli.killing`, in a folder with data/.

Files change only at the calls in `CALLS`, so a run is killed before calls of given numbers, the same on every machine.
One process imports and compiles what training needs and forks for each run. After a kill the run is resumed, killed
again, resumed to its end, and its model compared with that of a run that was not disturbed. Prints a JSON object for
each kill: before which call, how far training was, and what differs.
"""

import json
import os
import random
import shutil
import signal
import zipfile
from functools import partial
from pathlib import Path

from tests.held_out import calibrated
from xmlgp.api.interrupted import InterruptedRun
from xmlgp.cli import main
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.training import checkpoints

#: Functions that create, write, replace and remove files.
CALLS = ("open", "fsync", "replace", "unlink")

#: Options of training.
OPTIONS = ["-P", "3", "--epochs", "3", "--batch-size", "30", "--label-weights"]


def train(model):
    # A checkpoint after most steps.
    return main(["train", "data", str(model), *OPTIONS, "--quiet", "--checkpoint-every", "1e-9"], standalone_mode=False)


def forked(work):
    """Run it in a child process; return the process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def counting_calls(work, killed_before=None):
    """Run it and return how many of `CALLS` it made; or kill the process before the call of that number, from 0."""
    made = 0

    def counted(original):
        def call(*arguments, **options):
            nonlocal made
            if made == killed_before:
                os.kill(os.getpid(), signal.SIGKILL)
            made += 1
            return original(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    work()
    return made


def count_calls(work):
    """Return how many of `CALLS` it makes in a process of its own."""
    file = Path("calls")
    assert ended(forked(lambda: file.write_text(str(counting_calls(work))))) == 0
    return int(file.read_text())


def killed(work, number):
    """Run it in a process that is killed before that call; return the exit status."""
    return ended(forked(partial(counting_calls, work, number)))


def chosen_calls(total):
    """Return some numbers of calls: of preprocessing, of training and of the final save."""
    return sorted({0, 9, *range(14, 30, 4), *range(30, total, total // 7), total - 15, total - 1})


def stage(model):
    """Return how far a killed training got."""
    if (model / "model.json").exists():
        return "saved"
    unfinished = InterruptedRun.read(model)
    if unfinished is None:
        return "not begun"
    with zipfile.ZipFile(unfinished.checkpoint.path) as archive:
        return "calibrated" if "held_out.calibrates.npy" in archive.namelist() else "trained"


def differences(model, expected):
    """Return the arrays that differ from the expected model, and files that should not exist."""
    folder, other = ModelFolder(model), ModelFolder(expected)
    names = folder.entries("").keys() | other.entries("").keys()
    found = [name for name in sorted(names) if content(folder, name) != content(other, name)]
    files = {file.name for file in Path(model).rglob("*")} - {
        Path(entry["file"]).name for entry in folder.entries("").values()
    }
    # The lock of a killed process stays until the next write; it excludes nobody.
    found += sorted(files - {"arrays", "model.json", ".lock"})
    ours, theirs = (
        [{key: value for key, value in epoch.items() if key != "seconds"} for epoch in one.description["history"]]
        for one in (folder, other)
    )
    return found + ["history"] * (ours != theirs)


def content(folder, name):
    array = folder.array(name)
    return None if array is None else (array.dtype.str, array.shape, array.tobytes())


def kill_training():
    # Compiles.
    train("warm")
    model, dice = Path("killed"), random.Random(0)
    again = partial(train, model)
    total = count_calls(partial(train, "expected"))
    for number in chosen_calls(total):
        shutil.rmtree(model, ignore_errors=True)
        status, where = killed(again, number), stage(model)
        # Killed again, unless it ends before.
        killed(again, dice.randrange(total - number))
        assert ended(forked(again)) == 0
        yield {"call": number, "status": status, "stage": where, "differs": differences(model, "expected")}


if __name__ == "__main__":
    # Every epoch ends with a checkpoint.
    checkpoints.TIME_RATIO = 0
    # A kill does not lose what the system has not written to the disk yet.
    os.fsync = lambda descriptor: None
    with calibrated(0.25):
        for outcome in kill_training():
            print(json.dumps(outcome), flush=True)
