"""The process that looks after workers: unlike that of Uvicorn, it waits between attempts, and answers meanwhile."""

import contextlib
import logging
import signal
import socket
import time

from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import SIGNALS, Process

from xmlgp.runtime.interrupts import interrupts_kept_from_processes
from xmlgp.serving.problems import refusal

__all__ = ["Supervisor"]

log = logging.getLogger(__name__)

#: What a client is told while no worker runs: the status and one sentence.
NO_WORKER = 503, "the server is starting again; try again later"

#: Seconds between looks at workers that are ending.
PAUSE = 0.1

#: Seconds that they may take longer than what they are answering.
GRACE = 5.0

#: Seconds after which a worker is steady.
STEADY = 60.0

#: Longest pause in seconds before another one takes the place of one that was not.
LONGEST = 60.0

#: Connections that are answered at each look while no worker runs.
REFUSED = 256

#: Bytes of their requests that are read.
READ = 1 << 16


class _Place:
    """The place of a worker: when it was started, and when another one is to be started after it has ended."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.due = None
        self._pause = 0.0

    def put_off(self) -> float:
        """Return the seconds until another worker is started: more after each one that ends soon."""
        now = time.monotonic()
        self._pause = 0.0 if now - self.started >= STEADY else min(max(1.0, 2 * self._pause), LONGEST)
        self.due = now + self._pause
        return self._pause


class Supervisor(Multiprocess):
    """Starts the workers of a server, and others in the place of those that end or do not answer.

    Places of workers that end again and again are left empty for a while, twice as long each time. It never waits for a
    worker, so that signals take effect at once also while workers start.
    """

    def __init__(self, config, sockets):
        ignored = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
        super().__init__(config, sockets)
        for number in ignored:  # by `nohup`
            signal.signal(number, signal.SIG_IGN)
        # When each worker that has not answered yet was asked whether it is well.
        self._asked = {}
        self._places = []
        # Whether a worker has served; until then the server cannot start at all.
        self._served = False

    def init_processes(self):
        """Start all workers."""
        self.processes += [self._start(place) for place in range(self.processes_num)]
        self._places += [_Place() for _ in self.processes]

    def keep_subprocess_alive(self):
        """Start workers in the place of those that have ended, and log it; answer clients while none runs."""
        for place, process in enumerate(self.processes):
            own = self._places[place]
            works = own.due is not None or (process.process.is_alive() and self._answers(process))
            if not works and not self._end_of(process, own):
                self.should_exit.set()
                return
            if own.due is not None and time.monotonic() >= own.due:
                own.started = time.monotonic()
                own.due = None
                self.processes[place] = self._start(place)
        if all(own.due is not None for own in self._places):
            self._refuse()

    def _end_of(self, process: Process, place: _Place) -> bool:
        """Log that a worker has ended, and when another one takes its place; return whether one does."""
        ended_itself = not process.process.is_alive()
        process.kill()
        process.join()
        self._asked.pop(process.pid, None)
        if process.exitcode == STARTUP_FAILURE and not self._served:
            return False
        how = _how_it_ended(process.exitcode) if ended_itself else "did not answer and was ended"
        pause = place.put_off()
        log.warning("worker %d %s; another one takes its place in %.0f s", process.pid, how, pause)
        return True

    def _refuse(self) -> None:
        """Answer clients that wait for a worker while there is none."""
        for _ in range(REFUSED):
            try:
                connection, _ = self.sockets[0].accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(refusal(*NO_WORKER))
                connection.shutdown(socket.SHUT_WR)
                # What is not read when a connection is closed would take the answer with it.
                connection.recv(READ)

    def join_all(self):
        """Wait for the workers, which end what they are doing; a second signal or too long a time ends them at once."""
        deadline = time.monotonic() + self.config.timeout_graceful_shutdown + GRACE
        for process in self.processes:
            while process.process.is_alive():
                process.process.join(PAUSE)
                if self.signal_queue or time.monotonic() > deadline:
                    for other in self.processes:
                        other.process.kill()

    def handle_hup(self):
        """End the server as its terminal is closed; models are taken up without a restart."""
        self.handle_term()

    @property
    def failed(self):
        """Whether a worker could not start."""
        return not self._served and any(process.exitcode == STARTUP_FAILURE for process in self.processes)

    def _start(self, place: int) -> Process:
        process = Process(self.config, self.sockets)
        # Its metrics go on where those of the worker before it ended.
        process.process.name = str(place)
        # A terminal sends Ctrl-C to all processes; this one ends the others.
        with interrupts_kept_from_processes():
            process.start()
        return process

    def _answers(self, process):
        """Return whether a worker has answered lately; ask it again if it has."""
        connection = process.parent_conn
        now = time.monotonic()
        # What it wrote before it ended may be there, too.
        with contextlib.suppress(OSError, EOFError):
            if process.pid in self._asked and connection.poll():
                self._served |= connection.recv()
                del self._asked[process.pid]
            if process.pid not in self._asked:
                connection.send(b"ping")
                self._asked[process.pid] = now
        return now - self._asked.get(process.pid, now) < self.config.timeout_worker_healthcheck


def _how_it_ended(status: int | None) -> str:
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"
