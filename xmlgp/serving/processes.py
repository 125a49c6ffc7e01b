"""What Uvicorn does not do by itself: it ends requests that do not arrive, and tells of workers that end."""

import contextlib
import logging
import signal
import time
from http import HTTPStatus

import h11
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import SIGNALS, Process

from xmlgp.runtime.interrupts import interrupts_kept_from_processes
from xmlgp.serving.problems import Problem, problem_response

__all__ = ["PatientProtocol", "Supervisor"]

log = logging.getLogger(__name__)

#: What a client is told of a request that the application does not get: the status and one sentence.
TOO_SLOW, MALFORMED = (408, "the request did not arrive in time"), (400, "the request is not HTTP")

#: Seconds between looks at workers that are ending.
PAUSE = 0.1

#: Headers of a request of which only one counts, after which the connection ends (RFC 9112).
TWO_LENGTHS = {b"content-length", b"transfer-encoding"}


class PatientProtocol(H11Protocol):
    """A connection that ends if what is awaited does not arrive within some seconds.

    This is the first lines of a request, or the rest of one that has been answered already.
    """

    def __init__(self, seconds, *arguments, **options):
        super().__init__(*arguments, **options)
        self._seconds, self._too_slow_task, self._awaited = seconds, None, None

    def connection_made(self, transport):
        """Wait for the first request."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data):
        """Go on; wait for the rest of a request of which only the beginning has arrived."""
        super().data_received(data)
        self._look()

    def on_response_complete(self):
        """Go on; wait for the rest of a request that is answered before it has arrived."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, error):
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(error)

    def send_400_response(self, text):
        """Say that a request is malformed, unless it has been answered already, and end the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_refusal(*MALFORMED))
        self.transport.close()

    def _unsupported_upgrade_warning(self):
        """Log nothing: a client may offer another protocol with each request."""

    def _look(self):
        if self.cycle and {name for name, _ in self.headers} >= TWO_LENGTHS:
            # A proxy may take the other one, and what follows the body for a request of someone else.
            self.cycle.keep_alive = False
        state = self.conn.their_state
        # Uvicorn itself ends a connection that is idle after an answer, until something arrives.
        awaited = not self.timeout_keep_alive_task if state is h11.IDLE else self._is_answered()
        if self.transport.is_closing() or not awaited:
            self._stop_waiting()
        elif self._awaited is not state:
            self._stop_waiting()
            self._awaited = state
            self._too_slow_task = self.loop.call_later(self._seconds, self._end)

    def _is_answered(self):
        """Return whether the rest of a request is of no use."""
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE

    def _stop_waiting(self):
        if self._too_slow_task:
            self._too_slow_task.cancel()
        self._too_slow_task = self._awaited = None

    def _end(self):
        self._too_slow_task = self._awaited = None
        if self.transport.is_closing():
            return
        # Nothing is awaited of a client that has an answer and sends no other request.
        if self.conn.their_state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            self.transport.write(_refusal(*TOO_SLOW))
        self.transport.close()


def _refusal(status, detail):
    """Return an answer (bytes), after which the connection ends."""
    response = problem_response(Problem(status, detail, {"Connection": "close"}))
    lines = [b"%s: %s" % header for header in response.raw_headers]
    return b"\r\n".join([f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(), *lines, b"", response.body])


class Supervisor(Multiprocess):
    """Starts the workers of a server, and others in the place of those that end or do not answer.

    It never waits for a worker, so that signals take effect at once also while workers start.
    """

    def __init__(self, config, sockets):
        ignored = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
        super().__init__(config, sockets)
        for number in ignored:  # by `nohup`
            signal.signal(number, signal.SIG_IGN)
        # When each worker that has not answered yet was asked whether it is well.
        self._asked = {}

    def init_processes(self):
        """Start all workers."""
        self.processes += [self._start() for _ in range(self.processes_num)]

    def keep_subprocess_alive(self):
        """Start workers in the place of those that have ended, and log it."""
        for place, process in enumerate(self.processes):
            if process.process.is_alive() and self._answers(process):
                continue
            process.kill()
            process.join()
            # Requests do not go on waiting in a worker that has ended.
            mark_process_dead(process.pid)
            if process.exitcode == STARTUP_FAILURE:
                self.should_exit.set()
                return
            self.processes[place] = self._start()
            log.warning("worker %d ended; worker %d takes its place", process.pid, self.processes[place].pid)

    def join_all(self):
        """Wait for the workers, which end what they are doing; a second signal ends them at once."""
        for process in self.processes:
            while process.process.is_alive():
                process.process.join(PAUSE)
                if self.signal_queue:
                    for other in self.processes:
                        other.process.kill()

    def handle_hup(self):
        """End the server as its terminal is closed; models are taken up without a restart."""
        self.handle_term()

    @property
    def failed(self):
        """Whether a worker could not start."""
        return any(process.exitcode == STARTUP_FAILURE for process in self.processes)

    def _start(self):
        process = Process(self.config, self.sockets)
        # A terminal sends Ctrl-C to all processes; this one ends the others.
        with interrupts_kept_from_processes():
            process.start()
        return process

    def _answers(self, process):
        """Return whether a worker has answered lately; ask it again if it has."""
        connection, now = process.parent_conn, time.monotonic()
        # What it wrote before it ended may be there, too.
        with contextlib.suppress(OSError, EOFError):
            if process.pid in self._asked and connection.poll():
                connection.recv()
                del self._asked[process.pid]
            if process.pid not in self._asked:
                connection.send(b"ping")
                self._asked[process.pid] = now
        return now - self._asked.get(process.pid, now) < self.config.timeout_worker_healthcheck
