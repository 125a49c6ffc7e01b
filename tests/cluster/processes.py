"""A Dask cluster of real processes on the loopback interface, which tests kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["Processes"]

#: Seconds until a process must have started; far more than it takes on a busy machine.
START_SECONDS = 60


class Processes:
    """`dask scheduler` and `dask worker`, started and killed one by one.

    Parameters
    ----------
    folder : Path
        For the address of the scheduler, logs, and what workers write.
    """

    def __init__(self, folder):
        self._folder, self._file = folder, folder / "scheduler.json"
        self.scheduler, self.workers = None, []

    def start_scheduler(self):
        """Start a scheduler; return its address."""
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self._file)]
        self.scheduler = self._start("scheduler", options)
        return _when(lambda: json.loads(self._file.read_text())["address"])

    def start_worker(self, environment=None, before=()):
        """Start a worker of one thread, by a command that runs another, and wait until it has joined.

        Returns its number.
        """
        number = len(self.workers)
        command = ["--scheduler-file", str(self._file), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        command += ["--name", f"worker-{number}", "--local-directory", str(self._folder / "local")]
        self.workers.append(self._start("worker", command, environment, before))
        log = self._log("worker", number)
        _when(lambda: "Registered to:" in log.read_text() or None)
        return number

    def kill_worker(self, number):
        """End a worker as a machine that fails does."""
        _kill(self.workers[number])

    def kill_scheduler(self):
        """End the scheduler as a machine that fails does."""
        _kill(self.scheduler)

    def stop(self):
        """End all processes."""
        for process in [*self.workers, self.scheduler]:
            if process is not None:
                _kill(process)

    def _log(self, kind, number):
        return Path(self._folder / f"{kind}-{number}.log")

    def _start(self, kind, options, environment=None, before=()):
        log = self._log(kind, len(self.workers) if kind == "worker" else 0)
        with open(log, "wb") as stream:
            return subprocess.Popen(
                [*before, sys.executable, "-m", "dask", kind, *options],
                stdout=stream,
                stderr=stream,
                env=os.environ | (environment or {}),
            )


def _kill(process):
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _when(found):
    """Return the result of a function as soon as it has one."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            result = found()
        except (OSError, ValueError, KeyError):
            result = None
        if result is not None:
            return result
        time.sleep(0.05)
    raise TimeoutError("a process of the Dask cluster did not start")
