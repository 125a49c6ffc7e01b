"""The suite passes regardless of how it is started: the root conftest restores signals and their handlers."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Tests that send signals to their own process.
SIGNAL_TESTS = ["tests/runtime/test_interrupts.py"]


def ignore_signals():
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def test_signal_tests_pass_in_the_background_under_nohup():
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *SIGNAL_TESTS]
    result = subprocess.run(
        command, cwd=ROOT, preexec_fn=ignore_signals, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout
