"""Commands on a Dask cluster whose workers, scheduler or client are lost, or cannot be used: real processes."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import run, said
from tests.dask_processes import DaskProcesses
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.mlgpf import sweep
from xmlgp.mlgpf.train import Training
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.interrupted import readable_run
from xmlgp.work import cluster as cluster_module

OPTIONS = ["--inducing", "features", "--label-weights", "-P", "5", "--epochs", "2", "--batch-size", "25"]
OPTIONS += ["--set", "label_sample=40", "--checkpoint-every", "0.001"]
TRAIN = ["train", "many", "model", *OPTIONS]

#: A step of the second sweep, whose blocks are computed on the workers.
IN_SWEEP = 50


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Return a scheduler and workers, which the tests of this module share."""
    with pytest.MonkeyPatch.context() as patch:
        # Workers see the files of a run under the paths that the client says.
        patch.delenv("XMLGP_CACHE_DIR", raising=False)
        with DaskProcesses(tmp_path_factory.mktemp("dask")) as processes:
            yield processes


@pytest.fixture
def processes(workdir, started, monkeypatch):
    """Return a cluster of two workers; the data have enough blocks for a test to interrupt the run among them."""
    Path("many").mkdir()
    write_dataset("many/train.txt", small_dataset(N=200, D=40, K=80))
    monkeypatch.setattr(sweep, "POINT_BLOCK", 16)
    monkeypatch.setattr(sweep, "LABEL_BLOCK", 8)
    started.have_workers(2)
    return started


@pytest.fixture
def here(processes, trained):
    """Return the arrays of the model that is trained on this machine."""
    trained("here", "many", "model", *OPTIONS)
    return ModelFolder(Path("model").rename("here")).arrays("parameters.")


def assert_same(path, expected):
    found = ModelFolder(path).arrays("parameters.")
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def at_step(monkeypatch, number, action):
    """Do something when a training run makes the step with this number, from 0, of all runs of the test."""
    made, original = iter(range(10**6)), Training.step

    def watched(self, epoch, done):
        if next(made) == number:
            action()
        return original(self, epoch, done)

    monkeypatch.setattr(Training, "step", watched)


def last_line(result):
    assert result.exit_code == 1, result.output
    return result.stderr.splitlines()[-1]


def test_the_model_is_that_of_one_machine_while_workers_are_lost_and_join(processes, here, monkeypatch):
    def replace():
        processes.kill_worker(processes.alive[0])
        processes.start_worker()
        processes.kill_worker(processes.alive[0])

    at_step(monkeypatch, IN_SWEEP, replace)
    result = run(*TRAIN, "--scheduler", processes.address)
    assert result.exit_code == 0, result.output
    assert "2 workers of a Dask cluster" in result.stderr
    assert_same("model", here)
    assert ModelFolder("model").description["workers"] == 2
    assert not list(Path(os.environ["XMLGP_CACHE_DIR"], "cluster").iterdir())


def test_without_workers_the_run_can_be_resumed_on_one_machine(processes, here, monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 2.0)
    at_step(monkeypatch, IN_SWEEP, lambda: [processes.kill_worker(number) for number in processes.alive])
    line = last_line(run(*TRAIN, "--scheduler", processes.address))
    assert line == "Error: all workers of the Dask cluster are lost"
    # Workers are ahead of the steps in a sweep.
    assert IN_SWEEP <= readable_run("model").step <= IN_SWEEP + 2 * cluster_module.AHEAD
    assert run(*TRAIN, "-q").exit_code == 0
    assert_same("model", here)
    for command in ["train", "many", "other", *OPTIONS], ["preprocess", "many", "other"]:
        line = last_line(run(*command, "--scheduler", processes.address))
        assert line == "Error: the Dask cluster has no worker"


def test_without_the_scheduler_the_run_can_be_resumed_on_one_machine(here, monkeypatch, tmp_path):
    with DaskProcesses(tmp_path) as own:
        own.start_worker()
        at_step(monkeypatch, IN_SWEEP, own.kill_scheduler)
        line = last_line(run(*TRAIN, "--scheduler", own.address))
    assert line == f"Error: the Dask scheduler at {own.address} is lost"
    assert IN_SWEEP <= readable_run("model").step <= IN_SWEEP + cluster_module.AHEAD
    assert run(*TRAIN, "-q").exit_code == 0
    assert_same("model", here)


def test_an_interrupted_run_resumes_with_another_number_of_workers(processes, here, monkeypatch):
    at_step(monkeypatch, IN_SWEEP, lambda: os.kill(os.getpid(), signal.SIGINT))
    result = run(*TRAIN, "--scheduler", processes.address)
    assert result.exit_code == 130
    assert "interrupted; stopped after" in result.stderr.splitlines()[-1]
    processes.kill_worker(processes.alive[0])
    assert run(*TRAIN, "--scheduler", processes.address).exit_code == 0
    assert_same("model", here)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('__version__ = "0.0.1"\n', "has xmlgp 0.0.1"),
        ('raise ModuleNotFoundError("gone", name="xmlgp")\n', "has no xmlgp (gone)"),
    ],
)
def test_a_worker_without_this_version_is_named(processes, tmp_path, content, problem):
    (tmp_path / "other" / "xmlgp").mkdir(parents=True)
    (tmp_path / "other" / "xmlgp" / "__init__.py").write_text(content)
    number = processes.start_worker({"PYTHONPATH": str(tmp_path / "other")})
    line = last_line(run(*TRAIN, "--scheduler", processes.address))
    processes.kill_worker(number)
    assert line.startswith("Error: worker tcp://127.0.0.1:")
    assert f" of the Dask cluster {problem}, but this is xmlgp " in line


def test_a_worker_that_is_stopped_is_one_sentence(processes, monkeypatch):
    """The scheduler of a user waits for minutes until it gives up a worker."""
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 2.0)
    monkeypatch.setattr(cluster_module, "ANSWER_SECONDS", 2.0)
    at_step(monkeypatch, IN_SWEEP, lambda: processes.stop_worker(processes.alive[0]))
    line = last_line(run(*TRAIN, "--scheduler", processes.address))
    for number in processes.alive:
        processes.kill_worker(number)
    assert line.startswith("Error: worker tcp://127.0.0.1:")
    assert line.endswith(" of the Dask cluster does not answer; end it and start it again")


@pytest.mark.usefixtures("workdir")
def test_a_cluster_is_asked_for_in_one_way_only():
    line = said(run(*TRAIN, "--scheduler", "tcp://h:1", "--workers", "2"), status=2)
    assert line == "--scheduler and --workers exclude each other."
