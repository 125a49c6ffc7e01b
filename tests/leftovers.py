"""Processes that tests start: at the end, none of them is alive."""

import contextlib
import os
import secrets
import signal
import time
from pathlib import Path

__all__ = ["end_what_is_left", "mark_processes"]

#: What the processes that tests start inherit. pytest adds the name of the test.
MARK, TEST = "XMLGP_TESTS", "PYTEST_CURRENT_TEST"

#: Seconds within which processes that are ending have ended, also on a machine that does other things.
PATIENCE = 30

#: It ends after the process that it serves.
TRACKER = "multiprocessing.resource_tracker"


def mark_processes():
    """Mark the processes that this one starts from now on."""
    os.environ[MARK] = secrets.token_hex(8)


def end_what_is_left():
    """Wait for the end of marked processes, and kill those that do not end; return what they are (list of str)."""
    deadline = time.monotonic() + PATIENCE
    while (left := _marked()) and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return [f"process {process}, {command}, which {test} started" for process, (command, test) in left.items()]


def _marked():
    """Return the command and the test of each marked process by its id, where this system has /proc."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        # It may end meanwhile, or be another user's.
        with contextlib.suppress(OSError):
            environment = _words(folder / "environ")
            command = " ".join(_words(folder / "cmdline"))
            if f"{MARK}={os.environ[MARK]}" in environment and command and not _serves_this_process(folder, command):
                tests = [word.removeprefix(f"{TEST}=") for word in environment if word.startswith(f"{TEST}=")]
                found[int(folder.name)] = command, tests[0] if tests else "no test"
    found.pop(os.getpid(), None)
    return found


def _serves_this_process(folder, command):
    parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
    return TRACKER in command and int(parent) == os.getpid()


def _words(file):
    return file.read_text("utf-8", "replace").split("\0")
