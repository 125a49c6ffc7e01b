"""The process that looks after the workers of a server."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import socket
import time
from collections.abc import Iterator
from multiprocessing.context import SpawnProcess
from types import FrameType

from xmlgp.errors import XmlgpError
from xmlgp.runtime.interrupts import interrupts_kept_from_processes
from xmlgp.serving.options import Options
from xmlgp.serving.problems import refusal
from xmlgp.serving.worker import STARTUP_FAILURE, shutdown_seconds, work

__all__ = ["Supervisor"]

log = logging.getLogger(__name__)

#: Signals that end a server. Windows has no SIGHUP, and only Windows has SIGBREAK.
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]

#: What a client is told while no worker runs: the status and one sentence.
NO_WORKER = 503, "the server is starting again; try again later"

#: Seconds between looks at the workers.
LOOK = 0.1

#: Seconds that workers may take to end, beside what they are answering.
GRACE = 5.0

#: Seconds after which a worker is steady.
STEADY = 60.0

#: Longest pause in seconds before another worker takes the place of one that was not steady.
LONGEST = 60.0

#: Connections that are refused at each look while no worker runs, and bytes of their requests that are read.
REFUSED = 256
READ = 1 << 16

SPAWN = multiprocessing.get_context("spawn")


class Supervisor:
    """Starts the workers of a server, and others in place of those that end.

    A slot whose workers end again and again stays empty for a while, twice as long each time.
    """

    def __init__(self, options: Options, listening: socket.socket, count: int) -> None:
        self._shutdown_seconds = shutdown_seconds(options) + GRACE
        self._listening = listening
        self._slots = [_Slot(options, listening, number) for number in range(count)]
        self._signals = 0

    @contextlib.contextmanager
    def receive_signals(self) -> Iterator[None]:
        """Let signals end `run` in the block; those that the process was started to ignore stay ignored."""
        numbers = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        handlers = {number: signal.signal(number, self._receive) for number in numbers}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def run(self) -> None:
        """Look after the workers until a signal; XmlgpError if they cannot start at all."""
        try:
            while not self._signals:
                for slot in self._slots:
                    slot.keep_worker()
                if not any(slot.is_working() for slot in self._slots):
                    self._refuse()
                time.sleep(LOOK)
        finally:
            self._end()

    def _refuse(self) -> None:
        """Answer clients while there is no worker."""
        for _ in range(REFUSED):
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(refusal(*NO_WORKER))
                connection.shutdown(socket.SHUT_WR)
                # What is not read when a connection is closed would take the answer with it.
                connection.recv(READ)

    def _end(self) -> None:
        """End the workers after what they are doing, or at once at another signal or after too long a time."""
        signals = self._signals
        deadline = time.monotonic() + self._shutdown_seconds
        for slot in self._slots:
            slot.end()
        while any(slot.is_working() for slot in self._slots):
            time.sleep(LOOK)
            if self._signals > signals or time.monotonic() > deadline:
                for slot in self._slots:
                    slot.end(at_once=True)


class _Slot:
    """The slot of a worker: its process, and when another one is to be started."""

    def __init__(self, options: Options, listening: socket.socket, number: int) -> None:
        self._arguments = options, listening, number
        self._process: SpawnProcess | None = None
        self._started = 0.0
        self._starts = 0
        self._due: float | None = 0.0
        self._pause = 0.0

    def keep_worker(self) -> None:
        """Start a worker if it is time; log that one has ended. XmlgpError if the first one cannot start."""
        now = time.monotonic()
        if self._due is not None:
            if now >= self._due:
                self._start()
        elif self._process and not self.is_working():
            status = self._process.exitcode
            if status == STARTUP_FAILURE and self._starts == 1:
                raise XmlgpError("the workers of the server could not start")
            self._pause = 0.0 if now - self._started >= STEADY else min(max(1.0, 2 * self._pause), LONGEST)
            self._due = now + self._pause
            text = "worker %d %s; another one takes its place in %.0f s"
            log.warning(text, self._process.pid, _describe_end(status), self._pause)

    def _start(self) -> None:
        self._due = None
        self._started = time.monotonic()
        self._starts += 1
        self._process = SPAWN.Process(target=work, args=self._arguments)
        # A terminal sends Ctrl-C to all processes; this one ends the others.
        with interrupts_kept_from_processes():
            self._process.start()

    def is_working(self) -> bool:
        """Return whether there is a worker that has not ended."""
        return self._process is not None and self._process.is_alive()

    def end(self, at_once: bool = False) -> None:
        """End the worker, after what it is doing unless `at_once`."""
        if self._process:
            (self._process.kill if at_once else self._process.terminate)()


def _describe_end(status: int | None) -> str:
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"
