"""A process that a test leaves is found and named, and does not outlive the tests."""

import signal
import subprocess
import sys

from tests import leftovers

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_process_that_is_left_is_named_and_ended(monkeypatch):
    monkeypatch.setattr(leftovers, "PATIENCE", 0.0)
    monkeypatch.setenv(leftovers.MARK, "another mark")
    assert leftovers.end_what_is_left() == []
    # Like the processes of a server, it is not of this session.
    with subprocess.Popen(SLEEP, start_new_session=True) as process:
        (left,) = leftovers.end_what_is_left()
        assert process.wait(60) == -signal.SIGKILL
    assert left.startswith(f"process {process.pid}, {' '.join(SLEEP)}")
    assert "test_a_process_that_is_left_is_named_and_ended" in left
    assert leftovers.end_what_is_left() == []


def test_a_process_that_is_ending_is_waited_for(monkeypatch):
    monkeypatch.setenv(leftovers.MARK, "another mark")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"]) as process:
        assert leftovers.end_what_is_left() == []
    assert process.returncode == 0
