"""`xmlgp train` on a Dask cluster whose workers, scheduler or client are lost, or cannot be used."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from dask_processes import DaskProcesses

from tests.cli.command import run, said, spawn
from tests.problems import small_dataset
from xmlgp.cluster import cluster as cluster_module
from xmlgp.data.repository_format import write_dataset
from xmlgp.mlgpf import step_division, sweep
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.plan import readable_run

OPTIONS = ["--inducing", "features", "--label-weights", "-P", "5", "--epochs", "6", "--batch-size", "25"]
OPTIONS += ["--label-sample", "40", "--checkpoint-every", "0.001"]
TRAIN = ["train", "many", "model", *OPTIONS]


def more(*steps):
    """Return steps of tests that take long and are like others."""
    return [pytest.param(step, marks=pytest.mark.exhaustive) for step in steps]


@pytest.fixture
def processes(workdir, tmp_path, monkeypatch):
    """Start a scheduler and two workers; the data have enough blocks for a test to interrupt the run among them."""
    Path("many").mkdir()
    write_dataset("many/train.txt", small_dataset(N=400, D=60, K=150))
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 4.0)
    # So that steps are divided, however small.
    monkeypatch.setattr(step_division, "MESSAGE_SECONDS", 0)
    monkeypatch.setattr(step_division, "BYTES_A_SECOND", np.inf)
    monkeypatch.setattr(step_division, "core_count", lambda: 0.5)
    monkeypatch.setattr(sweep, "POINT_BLOCK", 16)
    monkeypatch.setattr(sweep, "LABEL_BLOCK", 8)
    with DaskProcesses(tmp_path) as started:
        for _ in range(2):
            started.start_worker()
        yield started


@pytest.fixture
def local(workdir, processes):
    """Return the arrays of the model that is trained on one machine."""
    assert run("train", "many", "local", *OPTIONS, "-q").exit_code == 0
    return ModelFolder("local").arrays("parameters.")


def assert_close(path, local):
    """Check a model against the one of this machine; sums in another order differ in the last digits."""
    found = ModelFolder(path).arrays("parameters.")
    assert found.keys() == local.keys()
    for name, array in local.items():
        np.testing.assert_allclose(found[name], array, rtol=2e-2, atol=2e-3, err_msg=name)


def at_step(monkeypatch, number, action):
    """Do something when a training run makes the step with this number, from 0, of all runs of the test."""
    made = iter(range(10**6))
    step = "xmlgp.mlgpf.weight_space_ascent.WeightSpaceAscent.step"
    original = __import__("xmlgp.mlgpf.weight_space_ascent", fromlist=["_"]).WeightSpaceAscent.step

    def watched(self, epoch, done):
        if next(made) == number:
            action()
        return original(self, epoch, done)

    monkeypatch.setattr(step, watched)


def test_the_model_is_that_of_one_machine(processes, local):
    result = run(*TRAIN, "--scheduler", processes.address)
    assert result.exit_code == 0, result.output
    assert "2 workers of a Dask cluster" in result.stderr
    assert_close("model", local)
    assert ModelFolder("model").description["workers"] == 2
    assert ", on a Dask cluster of 2 workers\n" in run("show", "model").stdout
    assert not list(Path(os.environ["XMLGP_CACHE_DIR"], "cluster").iterdir())


@pytest.mark.parametrize("step", [3, 130, *more(98, 170)])
def test_a_lost_worker_changes_nothing(processes, local, monkeypatch, step):
    at_step(monkeypatch, step, lambda: processes.kill_worker(0))
    result = run(*TRAIN, "--scheduler", processes.address)
    assert result.exit_code == 0, result.output
    assert_close("model", local)


def test_a_worker_that_joins_is_used(processes, local, monkeypatch):
    at_step(monkeypatch, 20, lambda: (processes.kill_worker(0), processes.start_worker(), processes.kill_worker(1)))
    result = run(*TRAIN, "--scheduler", processes.address)
    assert result.exit_code == 0, result.output
    assert_close("model", local)


@pytest.mark.parametrize("step", [110, *more(5, 175)])
def test_without_workers_the_run_can_be_resumed_on_one_machine(processes, local, monkeypatch, step):
    at_step(monkeypatch, step, lambda: [processes.kill_worker(number) for number in range(2)])
    result = run(*TRAIN, "--scheduler", processes.address)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "Error: all workers of the Dask cluster are lost"
    # Workers are ahead of the steps in a sweep.
    assert step <= readable_run("model").step <= step + 2 * cluster_module.AHEAD
    assert run("train", "many", "model", "--resume", "-q").exit_code == 0
    assert_close("model", local)


@pytest.mark.parametrize("step", [5, *more(140)])
def test_without_the_scheduler_the_run_can_be_resumed_on_other_workers(processes, local, monkeypatch, step):
    at_step(monkeypatch, step, processes.kill_scheduler)
    result = run(*TRAIN, "--scheduler", processes.address)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"Error: the Dask scheduler at {processes.address} is lost"
    assert step <= readable_run("model").step <= step + 2 * cluster_module.AHEAD
    assert run("train", "many", "model", "--resume", "--workers", "3").exit_code == 0
    assert_close("model", local)


def test_an_interrupted_run_resumes_with_another_number_of_workers(processes, local):
    command = [sys.executable, "-m", "xmlgp", *TRAIN, "--scheduler", processes.address]
    client = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (readable_run("model") and readable_run("model").step):
        time.sleep(0.02)
    client.send_signal(signal.SIGINT)
    _, said_last = client.communicate(timeout=60)
    assert client.returncode == 130
    assert "interrupted; stopped after" in said_last.splitlines()[-1]
    assert f"--scheduler {processes.address} --resume`" in said_last
    processes.kill_worker(1)
    # In a process whose blocks have the sizes of the first one's.
    result = spawn("train", "many", "model", "--resume", "--scheduler", processes.address)
    assert result.returncode == 0, result.stderr
    assert_close("model", local)


def test_a_worker_with_another_version_is_named(processes, tmp_path):
    (tmp_path / "other" / "xmlgp").mkdir(parents=True)
    (tmp_path / "other" / "xmlgp" / "__init__.py").write_text('__version__ = "0.0.1"\n')
    processes.start_worker({"PYTHONPATH": str(tmp_path / "other")})
    line = said_last_of(run(*TRAIN, "--scheduler", processes.address))
    assert line.startswith("Error: worker tcp://127.0.0.1:")
    assert " of the Dask cluster has xmlgp 0.0.1, but this is xmlgp " in line


def test_a_worker_without_the_package_is_named(processes, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "xmlgp.py").write_text('raise ModuleNotFoundError("gone", name="xmlgp")\n')
    processes.start_worker({"PYTHONPATH": str(tmp_path / "other")})
    line = said_last_of(run(*TRAIN, "--scheduler", processes.address))
    assert line.startswith("Error: worker tcp://127.0.0.1:")
    assert line.endswith(" of the Dask cluster does not have the package xmlgp")


def test_a_worker_that_cannot_read_the_data_is_named(processes):
    cache = Path(os.environ["XMLGP_CACHE_DIR"])
    cache.mkdir(exist_ok=True)
    # To this worker, the folder is another, empty one.
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(cache)]
    if subprocess.run([*hidden, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    for number in range(2):
        processes.kill_worker(number)
    processes.start_worker(before=hidden)
    line = said_last_of(run(*TRAIN, "--scheduler", processes.address))
    assert line.startswith("Error: worker tcp://127.0.0.1:")
    assert "cannot use the shared storage" in line
    assert line.endswith("No such file or directory")


def test_no_worker_is_one_sentence(processes):
    for number in range(2):
        processes.kill_worker(number)
    assert said_last_of(run(*TRAIN, "--scheduler", processes.address)) == "Error: the Dask cluster has no worker"


def said_last_of(result):
    assert result.exit_code == 1
    return result.stderr.splitlines()[-1]


@pytest.mark.usefixtures("workdir")
def test_a_cluster_is_asked_for_in_one_way_only():
    line = said(run(*TRAIN, "--scheduler", "tcp://h:1", "--workers", "2"), status=2)
    assert line == "--scheduler and --workers exclude each other."


@pytest.mark.exhaustive
def test_twenty_workers_killed_at_random_moments(processes, local):
    """Each worker that is killed is replaced, as by a supervisor; the moments are random, so the test is not exact."""
    over, times = threading.Event(), random.Random(0)

    def kill():
        for _ in range(20):
            if over.wait(times.uniform(0.2, 1.5)):
                return
            processes.kill_worker(times.choice(processes.alive))
            processes.start_worker()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        result = run(*TRAIN, "--epochs", "60", "--scheduler", processes.address)
    finally:
        over.set()
        thread.join()
    assert result.exit_code == 0, result.output
    assert run("train", "many", "local", *OPTIONS, "--epochs", "60", "-q").exit_code == 0
    assert_close("model", ModelFolder("local").arrays("parameters."))
