"""A Dask scheduler and workers on the loopback interface, started and killed one by one."""

import json
import subprocess
import sys
import time

__all__ = ["DaskProcesses"]

#: Seconds until a process must have started.
START_SECONDS = 60


class DaskProcesses:
    """`dask scheduler` and `dask worker` of one thread each; a context manager that ends them all.

    Parameters
    ----------
    folder : Path
        For the address of the scheduler, logs, and what workers write.
    environment : mapping of str to str
    """

    def __init__(self, folder, environment):
        self._folder, self._environment = folder, environment
        self._file = folder / "scheduler.json"
        self._scheduler, self._workers, self._started = None, [], 0

    def __enter__(self):
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", self._file]
        self._scheduler = self._start("scheduler", options)
        self.address = _when(lambda: json.loads(self._file.read_text())["address"])
        return self

    def __exit__(self, *error):
        for process in [*self._workers, self._scheduler]:
            process.kill()
            process.wait()

    def start_worker(self):
        """Start a worker and wait until it has joined."""
        name = f"worker-{self._started}"
        self._started += 1
        options = ["--scheduler-file", self._file, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", name]
        self._workers.append(self._start(name, [*options, "--local-directory", self._folder / "local"]))
        log = self._log(name)
        _when(lambda: "Registered to:" in log.read_text() or None)

    def kill_worker(self, random):
        """End a worker as a machine that fails does, chosen by a `random.Random`."""
        process = self._workers.pop(random.randrange(len(self._workers)))
        process.kill()
        process.wait()

    def _log(self, name):
        return self._folder / f"{name}.log"

    def _start(self, name, options):
        command = [sys.executable, "-m", "dask", name.partition("-")[0], *map(str, options)]
        with open(self._log(name), "wb") as stream:
            return subprocess.Popen(command, stdout=stream, stderr=stream, env=self._environment)


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
