"""The environment of the other tools, without which nothing here runs, and the data sets."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from xmlgp.data.repository_format import write_dataset
from xmlgp.data.toy import toy_dataset

WORKER = Path(__file__).with_name("worker.py")

#: Data sets that were downloaded.
DATA = Path(__file__).parents[2] / "data"

#: Seconds that a worker may take, less than a test on a busy machine.
LIMIT = 100


def pytest_addoption(parser):
    parser.addoption("--tools", metavar="PYTHON", help="the Python of the environment with the other tools")


def pytest_ignore_collect(config):
    """Leave the tests out of runs of the whole suite, which know no option of this folder."""
    return True if config.getoption("--tools", None) is None else None


@pytest.fixture(scope="session")
def call(request, tmp_path_factory):
    """Return a function that calls one of the worker's by its name, and returns the arrays that it returns."""
    python = os.path.abspath(request.config.getoption("--tools"))
    folder = tmp_path_factory.mktemp("worker")

    def call(function, *arguments):
        out = folder / f"{len(os.listdir(folder))}.npz"
        command = [python, str(WORKER), function, str(out), *map(str, arguments)]
        result = subprocess.run(
            command, cwd=folder, timeout=LIMIT, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stdout + result.stderr
        with np.load(out) as arrays:
            return dict(arrays)

    return call


@pytest.fixture(scope="session", params=["toy", "bibtex"])
def data(request, tmp_path_factory):
    """Return a folder with train.txt and test.txt, of which many test points have no labels in `toy`."""
    if request.param == "toy":
        folder = tmp_path_factory.mktemp("toy")
        for name, points in zip(("train.txt", "test.txt"), toy_dataset(), strict=True):
            write_dataset(folder / name, points)
        return folder
    folder = DATA / request.param
    if not (folder / "test.txt").exists():
        pytest.skip(f"{request.param} is not in data: `xmlgp fetch {request.param}` downloads it")
    return folder
