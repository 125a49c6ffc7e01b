"""What Uvicorn does not do by itself: requests whose first lines do not arrive end, and a failed start is told."""

import logging

import h11
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

__all__ = ["PatientProtocol", "Supervisor"]

log = logging.getLogger(__name__)

#: What a client is told whose request does not arrive.
TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/problem+json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)
PROBLEM = b'{"type":"about:blank","title":"Request Timeout","status":408,"detail":"the request did not arrive in time"}'


class PatientProtocol(H11Protocol):
    """A connection that ends if the first lines of a request do not arrive within some seconds."""

    def __init__(self, seconds, *arguments, **options):
        super().__init__(*arguments, **options)
        self._seconds, self._too_slow_task = seconds, None

    def connection_made(self, transport):
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data):
        """Go on; wait for the rest of a request of which only the beginning has arrived."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self.conn.trailing_data[0] and not self._too_slow_task:
            self._wait()

    def connection_lost(self, error):
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(error)

    def _wait(self):
        self._too_slow_task = self.loop.call_later(self._seconds, self._end)

    def _stop_waiting(self):
        if self._too_slow_task:
            self._too_slow_task.cancel()
            self._too_slow_task = None

    def _end(self):
        self._too_slow_task = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.write(TOO_SLOW % (len(PROBLEM), PROBLEM))
            self.transport.close()


class Supervisor(Multiprocess):
    """Starts the workers of a server, and others in the place of those that end."""

    def keep_subprocess_alive(self):
        """Start workers in the place of those that have ended, and log it."""
        before = [process.pid for process in self.processes]
        super().keep_subprocess_alive()
        for process, other in zip(self.processes, before, strict=False):
            if process.pid != other:
                log.warning("worker %d ended; worker %d takes its place", other, process.pid)

    @property
    def failed(self):
        """Whether a worker could not start."""
        return any(process.exitcode == STARTUP_FAILURE for process in self.processes)
