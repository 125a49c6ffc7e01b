"""Tasks of a Dask cluster with real processes, some of which are killed."""

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import distributed
import pytest

from xmlgp.cluster.connection import open_cluster
from xmlgp.errors import ClusterError, SettingsError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def _pids(cluster):
    return list(cluster._client.run(os.getpid).values())


def _kill_later(cluster, seconds):
    timer = threading.Timer(seconds, os.kill, [_pids(cluster)[0], signal.SIGKILL])
    timer.start()
    return timer


def _settle(cluster):
    """Wait until lost workers are replaced."""
    while cluster.worker_count < 2:
        time.sleep(0.1)
        cluster._look()


def test_results_are_in_the_order_of_the_items(cluster):
    assert list(cluster.map(operator.mul, ((i, 3) for i in range(50)))) == [3 * i for i in range(50)]


def test_items_are_taken_as_workers_become_free(cluster):
    taken = []
    results = cluster.map(operator.neg, ((taken.append(i) or i,) for i in range(200)))
    next(results)
    assert len(taken) < 60
    results.close()


def test_calls_answer_in_order(cluster):
    assert cluster.call(operator.sub, [(9, i) for i in range(5)]) == [9 - i for i in range(5)]


def test_a_killed_worker_costs_its_task_only(cluster):
    _settle(cluster)
    timer = _kill_later(cluster, 0.5)
    assert list(cluster.map(_slow, ((i,) for i in range(20)))) == list(range(20))
    timer.join()


def test_a_killed_worker_costs_its_call_only(cluster):
    _settle(cluster)
    timer = _kill_later(cluster, 0.3)
    for i in range(10):
        assert cluster.call(_slow, [(i,), (i + 1,)]) == [i, i + 1]
    timer.join()


def test_a_worker_that_was_restarted_at_its_address_is_used_again(cluster):
    _settle(cluster)
    cluster.call(operator.neg, [(1,), (2,)])
    for worker in cluster._callers:
        cluster._callers[worker] = _Lost()
    assert cluster.call(operator.neg, [(1,), (2,)]) == [-1, -2]


class _Lost:
    def call(self, function, *arguments):
        # As Dask says it.
        raise RuntimeError("Worker holding Actor was lost")


def _slow(value):
    time.sleep(0.1)
    return value


def test_an_error_of_a_task_is_raised_as_it_is(cluster):
    with pytest.raises(SettingsError, match="^no$"):
        list(cluster.map(_refuse, [("no",)]))


def _refuse(text):
    raise SettingsError(text)


def test_a_file_that_a_worker_cannot_read_is_named_with_the_worker(cluster, tmp_path):
    with pytest.raises(ClusterError, match=r"worker tcp://\S+ of the Dask cluster .*absent: No such file"):
        list(cluster.map(os.stat, [(str(tmp_path / "absent"),)]))


def test_no_scheduler_is_one_sentence():
    with (
        pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"),
        open_cluster("tcp://127.0.0.1:9"),
    ):
        pass


@pytest.mark.parametrize(
    "address", ["tcp://", "tcp://127.0.0.1", "http://127.0.0.1:9", "foo://x:1", "tls://127.0.0.1:9"]
)
def test_an_address_without_a_scheduler_is_one_sentence_without_delay(address):
    code = (
        "from xmlgp.cluster.connection import open_cluster\n"
        "from xmlgp.errors import ClusterError\n"
        "try:\n"
        f"    with open_cluster({address!r}): pass\n"
        "except ClusterError as error: print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert found.stdout == f"no Dask scheduler answers at {address}\n"
    # Dask waits when an unfinished client is deleted, and then prints a traceback.
    assert found.stderr == ""


def test_a_server_that_is_no_scheduler_is_one_sentence(monkeypatch):
    monkeypatch.setattr("xmlgp.cluster.connection.CONNECT_SECONDS", 1)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_port}"
        with pytest.raises(ClusterError, match=f"^no Dask scheduler answers at {address}$"), open_cluster(address):
            pass
        server.shutdown()


def test_a_client_is_one_of_dask_that_is_open(cluster):
    with pytest.raises(TypeError, match=r"client is a str, but must be a distributed.Client"), open_cluster(client="x"):
        pass
    client = distributed.Client(cluster._client.scheduler.address, set_as_default=False)
    client.close()
    with pytest.raises(ClusterError, match="the client of the Dask cluster is closed"), open_cluster(client=client):
        pass


def test_workers_in_the_process_of_the_client_are_refused():
    with (
        distributed.Client(processes=False, n_workers=1, dashboard_address=None, set_as_default=False) as client,
        pytest.raises(ClusterError, match=r"worker inproc://\S+ of the Dask cluster is no process of its own"),
        open_cluster(client=client),
    ):
        pass


def test_a_lost_caller_of_a_worker_that_lives_is_made_again(cluster):
    _settle(cluster)
    cluster.call(operator.neg, [(1,), (2,)])
    cluster._client.run(lambda dask_worker: dask_worker.state.actors.clear())
    assert cluster.call(operator.neg, [(1,), (2,)]) == [-1, -2]
