"""Trains in processes that are killed: `python -m tests.cli.killing KIND MODEL RANDOM_MOMENTS`, in a folder with data/.

One process imports and compiles what training needs, and forks for each training, so that the time of one is that of
the work alone. Every training that was killed is gone on with, as often as it is killed again, and its model compared
with that of one that nobody disturbed. Prints a JSON object a killing: when, how far it was, and what differs.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path

from xmlgp.cli import main
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.interrupted import InterruptedRun
from xmlgp.training import checkpoints

#: The calls that files are written, replaced and removed by.
CALLS = ("open", "fsync", "replace", "unlink")


#: By the name of a kind of training, its options.
KINDS = {
    "mlgpf": ["--recipe", "s-SMALL", "--epochs", "3", "--batch-size", "30", "--validation", "0.1"]
    + ["--regression-points", "1000", "--label-weights"],
    **{
        inference: ["--model", "bmlpl", "--inference", inference, "--iterations", "8", "--batch-size", "50"]
        for inference in ("em", "em-cg", "online-em", "gibbs")
    },
    "svi-adadelta": ["--model", "gpc", "--inference", "svi-adadelta", "--iterations", "6", "--batch-size", "50"]
    + ["-M", "6"],
    "vi-taylor": ["--model", "gpc", "--inference", "vi-taylor", "--iterations", "8", "-M", "6"],
}


def train(kind, model, *options):
    # Checkpoints as often as they come: after most steps.
    words = ["train", "data", str(model), *KINDS[kind], "--quiet", "--checkpoint-every", "1e-9"]
    return main([*words, *options], standalone_mode=False)


def forked(work):
    """Run it in a process of its own; return its number."""
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


def killed_at_call(number, work):
    """Run it until so many of `CALLS` have been made, and kill it before the next."""
    made = 0

    def counting(original):
        def call(*arguments, **options):
            nonlocal made
            made += 1
            if made > number:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, counting(getattr(os, name)))
    work()
    print(json.dumps({"calls": made}), flush=True)


def stage(model):
    """How far a training is that was killed."""
    if (model / "model.json").exists():
        return "saved"
    unfinished = InterruptedRun.read(model)
    if unfinished is None:
        return "not begun"
    if not unfinished.preprocess:
        return "preprocessing"
    if not unfinished.steps:
        return "preprocessed"
    return "trained on all" if unfinished.checkpoint.facts.get("plan") else "trained"


def differences(model, expected):
    """What is not as it is in the model that nobody disturbed: arrays, and files that are left."""
    folder, other = ModelFolder(model), ModelFolder(expected)
    names = folder.entries("").keys() | other.entries("").keys()
    found = [name for name in sorted(names) if content(folder, name) != content(other, name)]
    files = {file.name for file in Path(model).rglob("*")} - {
        Path(entry["file"]).name for entry in folder.entries("").values()
    }
    # The lock of a process that was killed stays until somebody writes there again; it keeps nobody out.
    found += sorted(files - {"arrays", "model.json", ".lock"})
    for history in ("history", "validation"):
        ours, theirs = (
            [{key: value for key, value in epoch.items() if key != "seconds"} for epoch in epochs or []]
            for epochs in (one.description[history] for one in (folder, other))
        )
        found += [history] * (ours != theirs)
    return found


def content(folder, name):
    array = folder.array(name)
    return None if array is None else (array.dtype.str, array.shape, array.tobytes())


def finish(kind, model):
    assert ended(forked(lambda: train(kind, model, "--resume"))) == 0


def run(kind, expected, moments):
    # The end of no epoch is left out.
    checkpoints.PATIENCE = 0
    # Compiles, and warms the caches of files.
    train(kind, "warm")
    began = time.monotonic()
    assert ended(forked(lambda: train(kind, expected))) == 0
    usual = time.monotonic() - began
    model, dice = Path("killed"), random.Random(0)
    for moment in range(moments):
        shutil.rmtree(model, ignore_errors=True)
        # One in each of as many equal parts of the time.
        wait = usual * (moment + dice.random()) / moments
        child = forked(lambda: train(kind, model))
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
        status, where = ended(child), stage(model)
        # And once more, on the way.
        child = forked(lambda: train(kind, model, "--resume"))
        time.sleep(dice.random() * (usual - wait))
        os.kill(child, signal.SIGKILL)
        ended(child)
        if status == 0:
            # It was timed beside other work, and would come to its end before most of the moments to come.
            usual = min(usual, wait)
        finish(kind, model)
        yield {"seconds": wait, "status": status, "stage": where, "differs": differences(model, expected)}
    number, status = 0, None
    while status != 0:
        shutil.rmtree(model, ignore_errors=True)
        status = ended(forked(partial(killed_at_call, number, partial(train, kind, model))))
        where = stage(model)
        finish(kind, model)
        yield {"call": number, "status": status, "stage": where, "differs": differences(model, expected)}
        number += dice.randint(1, 4)


if __name__ == "__main__":
    for outcome in run(sys.argv[1], sys.argv[2], int(sys.argv[3])):
        print(json.dumps(outcome), flush=True)
