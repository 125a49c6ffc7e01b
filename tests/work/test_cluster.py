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

from xmlgp.errors import ClusterError, SettingsError
from xmlgp.runtime.atomic_files import FOLDER_LOCK
from xmlgp.work import THIS_MACHINE
from xmlgp.work import cluster as cluster_module
from xmlgp.work.connection import open_work

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

#: Elements of a result that goes through a file.
LARGE = 5000


@pytest.fixture
def cluster(request):
    """Return the cluster of all tests, or one of its own for a test that kills a process."""
    if not any(word in request.node.name for word in ("lost", "kills")):
        yield request.getfixturevalue("_clusters").open()
        return
    with open_work(workers=2) as opened:
        yield opened


def negative(shared, value):
    return -value


def marked(folder, value):
    """Note the process that computes a block, and take a while; the result is as large as the block says."""
    (folder / f"{value}-{os.getpid()}").touch()
    time.sleep(0.1)
    return np.full(LARGE * (value % 2), value)


@pytest.mark.parametrize("work", ["cluster", "this machine"])
def test_blocks_are_taken_as_there_is_room(request, work):
    work = THIS_MACHINE if work == "this machine" else request.getfixturevalue("cluster")
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

    def opened(self):
        with open(self.file, "a") as stream:
            stream.write(f"{os.getpid()}\n")
        return 10


def test_what_blocks_share_is_opened_once_in_each_process(cluster, tmp_path):
    results = cluster.map(operator.add, ((i,) for i in range(40)), Opened(tmp_path / "opened"))
    assert list(results) == list(range(10, 50))
    pids = (tmp_path / "opened").read_text().split()
    assert 1 <= len(pids) == len(set(pids)) <= 2
    assert list(THIS_MACHINE.map(operator.add, [(1,), (2,)], Opened(tmp_path / "here"))) == [11, 12]
    assert (tmp_path / "here").read_text() == f"{os.getpid()}\n"


def refuse(shared, text):
    raise SettingsError(text)


def status(shared, path):
    os.stat(path)


def test_an_error_of_a_function_is_raised_and_that_of_a_file_names_the_worker(cluster, tmp_path):
    with pytest.raises(SettingsError, match="^no$"):
        list(cluster.map(refuse, [("no",)]))
    with pytest.raises(ClusterError, match=r"worker tcp://\S+ of the Dask cluster .*absent: No such file"):
        list(cluster.map(status, [(str(tmp_path / "absent"),)]))


def pid_of(folder, value):
    """Return the process that computes a block, as soon as there is one."""
    end = time.monotonic() + 60
    while not (found := list(folder.glob(f"{value}-*"))):
        assert time.monotonic() < end
        time.sleep(0.01)
    return int(found[0].name.partition("-")[2])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_is_lost_or_stopped_while_it_computes_costs_nothing(cluster, tmp_path, number):
    results = cluster.map(marked, ((i,) for i in range(30)), tmp_path)
    assert len(next(results)) == 0
    # One of the first blocks, which are with Dask however few workers there are.
    os.kill(pid_of(tmp_path, 2), number)
    assert [found.tolist() for found in results] == [[i] * LARGE * (i % 2) for i in range(1, 30)]
    # The files of results are removed.
    assert [file.name for file in cluster._folder.rglob("*") if file.is_file()] == [FOLDER_LOCK]


class Travelling:
    """A result that takes long to be sent at first."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        if not self.marker.exists():
            self.marker.write_text(str(os.getpid()))
            time.sleep(30)
        return str, ("here",)


def test_a_worker_that_is_lost_while_its_result_travels_costs_nothing(cluster, tmp_path):
    marker, killed = tmp_path / "marker", []

    def kill():
        end = time.monotonic() + 60
        while not (marker.exists() and marker.read_text()) and time.monotonic() < end:
            time.sleep(0.01)
        killed.append(int(marker.read_text()))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    assert list(cluster.map(travelling, [()], marker)) == ["here"]
    thread.join(10)
    assert killed


def travelling(marker):
    return Travelling(marker)


def test_a_block_that_kills_its_workers_is_one_sentence(cluster):
    # Dask may give up a worker that is lost while it starts again.
    with pytest.raises(ClusterError, match="^(several workers of the Dask cluster were lost|all workers of)"):
        list(cluster.map(die, [()]))


def die(shared):
    os._exit(1)


def test_workers_may_be_threads_of_the_client():
    with (
        distributed.Client(processes=False, n_workers=1, dashboard_address=None, set_as_default=False) as client,
        open_work(client=client) as work,
    ):
        assert list(work.map(negative, [(1,), (2,)])) == [-1, -2]


@pytest.fixture
def no_scheduler():
    """Return the address of a server that is no scheduler."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_address_without_a_scheduler_is_one_sentence(monkeypatch, no_scheduler):
    monkeypatch.setattr("xmlgp.work.connection.CONNECT_SECONDS", 1)
    for address in ("tcp://127.0.0.1:9", "tcp://", "http://127.0.0.1:9", "foo://x:1", no_scheduler):
        with pytest.raises(ClusterError, match=f"^no Dask scheduler answers at {address}$"), open_work(address):
            pass
    # Dask waits when an unfinished client is deleted, and then prints a traceback.
    code = (
        "from xmlgp.errors import ClusterError\n"
        "from xmlgp.work.connection import open_work\n"
        "try:\n"
        "    with open_work('tls://127.0.0.1:9'): pass\n"
        "except ClusterError as error: print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (found.stdout, found.stderr) == ("no Dask scheduler answers at tls://127.0.0.1:9\n", "")


def test_a_client_is_one_of_dask_that_is_open(cluster):
    with pytest.raises(TypeError, match=r"client is a str, but must be a distributed.Client"), open_work(client="x"):
        pass
    client = distributed.Client(cluster._client.scheduler.address, set_as_default=False)
    client.close()
    with pytest.raises(ClusterError, match="the client of the Dask cluster is closed"), open_work(client=client):
        pass


def test_local_processes_are_started_again_if_one_is_lost_meanwhile(monkeypatch):
    made, original = [], distributed.LocalCluster

    def failing(*arguments, **options):
        made.append(options)
        if len(made) < 2:
            raise RuntimeError("Nanny failed to start.")
        return original(*arguments, **options)

    monkeypatch.setattr(distributed, "LocalCluster", failing)
    with open_work(workers=1) as work:
        assert list(work.map(negative, [(1,)])) == [-1]
    monkeypatch.setattr("xmlgp.work.connection.STARTS", 0)
    with pytest.raises(ClusterError, match="^the 3 processes of the Dask cluster do not start$"), open_work(workers=3):
        pass
