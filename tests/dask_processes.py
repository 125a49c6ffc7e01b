"""A Dask scheduler and workers on the loopback interface, started and killed one by one."""

import json
import os
import signal
import subprocess
import sys
import time

__all__ = ["DaskProcesses"]

#: Seconds until a process must have started; far more than it takes on a busy machine.
START_SECONDS = 60


class DaskProcesses:
    """`dask scheduler` and `dask worker` of one thread each, whose files are in a folder; ends them all.

    `address` is that of the scheduler, `alive` has the numbers of the workers that have not been killed.
    """

    def __init__(self, folder):
        self._folder, self._file = folder, folder / "scheduler.json"
        self._scheduler, self._workers = None, []

    def __enter__(self):
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", self._file]
        self._scheduler = self._start("scheduler", options)
        self.address = _when(lambda: json.loads(self._file.read_text())["address"])
        return self

    def __exit__(self, *error):
        for process in [*self._workers, self._scheduler]:
            _kill(process)

    @property
    def alive(self):
        return [number for number, process in enumerate(self._workers) if process.poll() is None]

    def start_worker(self, environment=None):
        """Start a worker, perhaps with other variables, and wait until it has joined; return its number."""
        number = len(self._workers)
        name = f"worker-{number}"
        options = ["--scheduler-file", self._file, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", name]
        options += ["--local-directory", self._folder / "local"]
        self._workers.append(self._start(name, options, environment))
        log = self._log(name)
        _when(lambda: "Registered to:" in log.read_text() or None)
        return number

    def have_workers(self, count):
        """Start workers, or end some, until there are so many."""
        for number in self.alive[count:]:
            self.kill_worker(number)
        while len(self.alive) < count:
            self.start_worker()

    def stop_worker(self, number):
        """Stop a worker, whose connections stay open."""
        self._workers[number].send_signal(signal.SIGSTOP)

    def kill_worker(self, number):
        """End a worker as a machine that fails does."""
        _kill(self._workers[number])

    def kill_scheduler(self):
        """End the scheduler as a machine that fails does."""
        _kill(self._scheduler)

    def _log(self, name):
        return self._folder / f"{name}.log"

    def _start(self, name, options, environment=None):
        command = [sys.executable, "-m", "dask", name.partition("-")[0], *map(str, options)]
        with open(self._log(name), "wb") as stream:
            return subprocess.Popen(command, stdout=stream, stderr=stream, env=os.environ | (environment or {}))


def _kill(process):
    process.kill()
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
