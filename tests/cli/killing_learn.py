"""Kill learning on and run it again: `python -m tests.cli.killing_learn`, in a folder with data/ and new.txt.

As `tests.cli.killing` does for training. Prints a JSON object for each kill: before which call, whether the model was
the earlier or the new one then, and what differs in the end.
"""

import json
import os
import shutil
from functools import partial
from pathlib import Path

from tests.cli.killing import chosen_calls, count_calls, differences, ended, forked, killed, train
from xmlgp.cli import main
from xmlgp.mlgpf import learning
from xmlgp.mlgpf.inducing import InducingMethod
from xmlgp.training import checkpoints


def learn(model):
    return main(["learn", str(model), "new.txt", "--quiet", "--checkpoint-every", "1e-9"], standalone_mode=False)


def parts(model, expected, *but):
    """Return the arrays that differ, and a checkpoint that is left; the next write removes other files."""
    return [part for part in differences(model, expected) if not part.endswith((".npy", ".tmp", *but))]


def run():
    # Every epoch ends with a checkpoint; few steps.
    checkpoints.TIME_RATIO, InducingMethod.learning_steps, learning.LEAST_EPOCHS = 0, 4, 1
    os.fsync = lambda descriptor: None
    train(Path("before"))
    # Compiles.
    shutil.copytree("before", "whole")
    learn("whole")
    model = Path("killed")
    shutil.copytree("before", model)
    total = count_calls(partial(learn, model))
    for number in chosen_calls(total):
        shutil.rmtree(model)
        shutil.copytree("before", model)
        status = killed(partial(learn, model), number)
        kept = [name for name in ("before", "whole") if not parts(model, name, "checkpoint.npz")]
        # Killed again, unless it ends before.
        killed(partial(learn, model), total - 1 - number)
        assert ended(forked(partial(learn, model))) == 0
        differs = parts(model, "whole")
        yield {"call": number, "status": status, "kept": kept, "differs": differs}


if __name__ == "__main__":
    for outcome in run():
        print(json.dumps(outcome), flush=True)
