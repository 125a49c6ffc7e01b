"""Metrics that processes share: a worker goes on where the one before it ended, and no full disk ends it."""

import resource
import signal
import subprocess
import sys

import pytest

pytest.importorskip("prometheus_client", reason="prometheus_client is not installed: pip install '.[serve]'")

#: A worker, the third of its server: it counts two documents and one request that waits, and shows what it shares.
PROGRAM = """
import sys
from pathlib import Path
from xmlgp.serving.metrics import Metrics
metrics = Metrics(folder=Path(sys.argv[1]), number=2)
print(metrics.response().body.decode())
metrics.documents.labels("tickets").inc(2)
metrics.waiting.inc()
print("counted", flush=True)
sys.stdin.readline()
"""


def worker(folder, limit=None):
    def few_bytes():
        if limit is not None:
            # Writing beyond it fails with an error as on a full disk, and with a signal, which Python ignores.
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=few_bytes,
    )


def said(process):
    """Return the lines of a worker until it has counted, then kill it."""
    found = []
    try:
        for line in process.stdout:
            if line == "counted\n":
                break
            found.append(line.rstrip())
    finally:
        process.kill()
        process.communicate()
    return found


def test_a_worker_goes_on_with_the_counts_of_the_one_before_it_but_nothing_waits(tmp_path):
    first = worker(tmp_path / "shared")
    assert "xmlgp_waiting_requests 0.0" in said(first)
    assert first.returncode == -signal.SIGKILL
    found = said(worker(tmp_path / "shared"))
    assert 'xmlgp_documents_total{project="tickets"} 2.0' in found
    assert "xmlgp_waiting_requests 0.0" in found


def test_the_space_of_all_counts_is_reserved(tmp_path):
    said(worker(tmp_path))
    files = list(tmp_path.glob("*_2.db"))
    assert len(files) == 3
    # Mapped files without space end a process when the disk is full.
    assert all(file.stat().st_blocks * 512 >= file.stat().st_size for file in files)


def test_without_space_there_is_an_error_and_nothing_is_left(tmp_path):
    process = worker(tmp_path, limit=100_000)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert error.splitlines()[-1].startswith("OSError: [Errno 27]")
    assert list(tmp_path.iterdir()) == []
