"""Blocks of work on a Dask cluster of local processes, with real faults."""

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import distributed
import numpy as np
import pytest

from xmlgp.cluster import cluster as cluster_module
from xmlgp.cluster.connection import open_executor
from xmlgp.runtime.errors import ClusterError, SettingsError
from xmlgp.runtime.executor import LOCAL_EXECUTOR

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

#: Elements of a result that goes through a file.
LARGE = 5000


def negative(shared, value):
    return -value


@pytest.mark.parametrize("work", ["cluster", "this machine"])
def test_blocks_are_taken_as_there_is_room(request, work):
    work = LOCAL_EXECUTOR if work == "this machine" else request.getfixturevalue("cluster")
    taken = []
    results = work.map(negative, ((taken.append(i) or i,) for i in range(200)))
    next(results)
    assert 1 <= len(taken) <= 2 * cluster_module.AHEAD + 1
    # Results are in the order of the blocks.
    assert list(results) == [-i for i in range(1, 200)]


class Opened:
    """What blocks share; it counts in a file how often it is opened."""

    def __init__(self, file):
        self.file = file

    def prepare_shared(self):
        with open(self.file, "a") as stream:
            stream.write(f"{os.getpid()}\n")
        return 10


def test_what_blocks_share_is_opened_once_in_each_process(cluster, tmp_path):
    results = cluster.map(operator.add, ((i,) for i in range(40)), Opened(tmp_path / "opened"))
    assert list(results) == list(range(10, 50))
    pids = (tmp_path / "opened").read_text().split()
    assert 1 <= len(pids) == len(set(pids)) <= 2
    assert list(LOCAL_EXECUTOR.map(operator.add, [(1,), (2,)], Opened(tmp_path / "here"))) == [11, 12]
    assert (tmp_path / "here").read_text() == f"{os.getpid()}\n"


def refuse(shared, text):
    raise SettingsError(text)


def status(shared, path):
    os.stat(path)


def test_an_error_of_a_function_is_raised_and_that_of_a_file_names_the_worker(cluster, tmp_path, monkeypatch):
    with pytest.raises(SettingsError, match="^no$"):
        list(cluster.map(refuse, [("no",)]))
    with pytest.raises(ClusterError, match=r"worker tcp://\S+ of the Dask cluster .*absent: No such file"):
        list(cluster.map(status, [(str(tmp_path / "absent"),)]))
    monkeypatch.setattr(cluster_module, "__version__", "0.0.1")
    with pytest.raises(
        ClusterError, match=r"^worker tcp://\S+ of the Dask cluster has xmlgp .*, but this is xmlgp 0.0.1$"
    ):
        list(cluster.map(negative, [(1,)]))


def marked(folder, value):
    """Note the process that computes a block, and take a while; the result is as large as the block says."""
    (folder / f"{value}-{os.getpid()}").touch()
    time.sleep(0.1)
    return np.full(LARGE * (value % 2), value)


def pid_of(folder, value):
    """Return the process that computes a block, as soon as there is one."""
    end = time.monotonic() + 60
    while not (found := list(folder.glob(f"{value}-*"))):
        assert time.monotonic() < end
        time.sleep(0.01)
    return int(found[0].name.partition("-")[2])


def test_a_worker_that_is_lost_costs_nothing_and_a_lost_scheduler_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 2.0)
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, **options) as local, open_executor(local.scheduler_address) as work:
        results = work.map(marked, ((i,) for i in range(30)), tmp_path)
        assert len(next(results)) == 0
        # One of the first blocks, which are with Dask however few workers there are.
        os.kill(pid_of(tmp_path, 2), signal.SIGKILL)
        assert [found.tolist() for found in results] == [[i] * LARGE * (i % 2) for i in range(1, 30)]
        # The files of results are removed.
        assert [file.name for file in work._folder.rglob("*") if file.is_file()] == []
        results = work.map(marked, ((i,) for i in range(30, 60)), tmp_path)
        next(results)
        local.close()
        with pytest.raises(ClusterError, match="^the Dask scheduler at .* is lost$|^all workers of the Dask"):
            list(results)


def test_a_cluster_without_workers_is_one_sentence(monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 0.3)
    options = {"processes": False, "dashboard_address": None, "set_as_default": False}
    with (
        distributed.Client(n_workers=0, **options) as client,
        pytest.raises(ClusterError, match="^the Dask cluster has no worker$"),
        open_executor(client=client),
    ):
        pass
    # Workers may be threads of the client.
    with distributed.Client(n_workers=1, **options) as client, open_executor(client=client) as work:
        assert list(work.map(negative, [(1,), (2,)])) == [-1, -2]
    for other in client, "x":
        with pytest.raises(ClusterError, match="not a distributed.Client that is open"), open_executor(client=other):
            pass


@pytest.fixture
def no_scheduler():
    """Return the address of a server that is no scheduler."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_address_without_a_scheduler_is_one_sentence(monkeypatch, no_scheduler):
    monkeypatch.setattr("xmlgp.cluster.connection.CONNECT_SECONDS", 1)
    for address in (
        "tcp://127.0.0.1:9",
        "tcp://",
        "http://127.0.0.1:9",
        "foo://x:1",
        "tls://127.0.0.1:9",
        no_scheduler,
    ):
        with pytest.raises(ClusterError, match=f"^no Dask scheduler answers at {address}$"), open_executor(address):
            pass


def test_training_on_this_machine_needs_nothing_of_the_wings():
    code = (
        "import sys, numpy as np\n"
        "for name in ('dask', 'distributed', 'starlette', 'uvicorn', 'jinja2'): sys.modules[name] = None\n"
        "import xmlgp, xmlgp.cli\n"
        "X = np.eye(20)\n"
        "model = xmlgp.train(X, labels=X[:, :4], settings={'epochs': 1, 'factors': 2})\n"
        "assert len(list(xmlgp.predict(model, X, k=1))) == 20\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
