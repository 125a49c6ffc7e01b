"""Predictions and trainings on Dask clusters, each of which loses a worker at a random moment.

    python -m tests.soak [--predictions 100] [--trainings 20] [--seed 0]

Every command is a process of its own, on two workers: those of `--workers 2`, and those of a `dask scheduler` with two
`dask worker`, where a lost one is replaced. One of them is killed (SIGKILL) at a moment that is drawn from the time the
same command takes undisturbed. What it writes must be that of one process, and it must end within `LIMIT` seconds. The
exit status is 1 if one of them does not.
"""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from tests.dask_processes import DaskProcesses
from tests.problems import small_dataset  # noqa: E402
from xmlgp.data.repository_format import write_dataset  # noqa: E402
from xmlgp.model_folder.folder import ModelFolder  # noqa: E402

#: Seconds until a command that has not ended counts as one that hangs.
LIMIT = 120

TRAIN = ["train", "-q", "train.txt", "--inducing", "features", "--label-weights", "-P", "20", "--epochs", "1"]
PREDICT = ["predict", "-q", "model", "points.txt", "-k", "5", "--output", "probability"]


def start(arguments):
    """Start an xmlgp command."""
    return subprocess.Popen([sys.executable, "-m", "xmlgp", *arguments], stderr=subprocess.PIPE, text=True)


def written_by(kind, out):
    """Return what a command has written, to be compared."""
    if kind == "prediction":
        return out.read_bytes()
    return {name: array.tobytes() for name, array in ModelFolder(out).arrays("parameters.").items()}


def arguments_of(kind, out, cluster):
    """Return the arguments of a command that writes to a path."""
    return [*PREDICT, "-o", str(out), *cluster] if kind == "prediction" else [*TRAIN, "--no-resume", str(out), *cluster]


class OwnWorkers:
    """The workers that a command starts."""

    name, options = "--workers 2", ["--workers", "2"]

    def kill(self, command, draw):
        """Kill one of them, as soon as there is one; return whether there was one."""
        while command.poll() is None:
            with contextlib.suppress(IndexError, psutil.Error):
                children = psutil.Process(command.pid).children(recursive=True)
                draw.choice([child for child in children if "spawn_main" in " ".join(child.cmdline())]).kill()
                return True
            time.sleep(0.01)
        return False


class ScheduledWorkers:
    """The workers of a scheduler."""

    name = "dask scheduler"

    def __init__(self, processes):
        self._processes, self.options = processes, ["--scheduler", processes.address]

    def kill(self, command, draw):
        """Kill one of them and start another."""
        self._processes.kill_worker(draw.choice(self._processes.alive))
        self._processes.start_worker()
        return True


def soak(kind, count, workers, expected, draw):
    """Run a command so many times; return the counts of how they ended, and their seconds."""
    ends, seconds = Counter(), []
    usual = 0.0
    for number in range(count + 1):
        out = Path(f"out-{number}")
        began, command = time.monotonic(), start(arguments_of(kind, out, workers.options))
        if number:
            try:
                command.wait(draw.uniform(0, usual))
            except subprocess.TimeoutExpired:
                ends["killed"] += workers.kill(command, draw)
        try:
            _, told = command.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            command.kill()
            command.communicate()
            ends["hung"] += 1
            continue
        taken = time.monotonic() - began
        if not number and not command.returncode:  # undisturbed
            usual = taken
            subprocess.run(["rm", "-rf", out], check=True)
            continue
        seconds.append(taken)
        if command.returncode:
            ends["failed"] += 1
            print(told, file=sys.stderr)
        else:
            ends["equal" if written_by(kind, out) == expected else "different"] += 1
        subprocess.run(["rm", "-rf", out], check=True)
    return ends, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predictions", type=int, default=100)
    parser.add_argument("--trainings", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw, failed = random.Random(options.seed), False
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XMLGP_CACHE_DIR"] = str(Path(folder, "cache"))
        write_dataset("train.txt", small_dataset(N=3_000, D=40, K=600))
        write_dataset("points.txt", small_dataset(seed=1, N=30_000, D=40, K=600))
        assert start([*TRAIN, "model"]).wait() == 0
        assert start(arguments_of("prediction", Path("here"), [])).wait() == 0
        expected = {"prediction": written_by("prediction", Path("here")), "training": written_by("training", "model")}
        print("| cluster | | runs | worker killed in | equal | different | failed | hung | s, median | s, longest |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        with DaskProcesses(Path(folder)) as processes:
            processes.have_workers(2)
            for workers in OwnWorkers(), ScheduledWorkers(processes):
                for kind, count in ("prediction", options.predictions), ("training", options.trainings):
                    if not count:
                        continue
                    ends, seconds = soak(kind, count, workers, expected[kind], draw)
                    failed |= ends["equal"] != count
                    cells = [workers.name, kind, count, *(ends[key] for key in ("killed", "equal", "different"))]
                    cells += [ends["failed"], ends["hung"], f"{np.median(seconds):.1f}", f"{max(seconds):.1f}"]
                    print("|", " | ".join(map(str, cells)), "|", flush=True)
        os.chdir("/")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
