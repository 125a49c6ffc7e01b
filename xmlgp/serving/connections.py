"""Connections of a worker: what Uvicorn does not do by itself is to end those that only wait, and to limit them."""

import logging
import os

try:
    import resource
except ImportError:  # Windows
    resource = None

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from xmlgp.errors import XmlgpError
from xmlgp.serving.problems import refusal

__all__ = ["Connections", "PatientProtocol", "room_for_connections"]

log = logging.getLogger(__name__)

#: What a client is told of a request that the application does not get: the status and one sentence.
TOO_SLOW = (408, "the request did not arrive in time")
MALFORMED = (400, "the request is not HTTP")
TOO_MANY = 503, "there are too many connections; try again later"

#: Open files where the limit is unknown.
UNKNOWN_LIMIT = 4096

#: Files beside models and connections, such as those of learning.
OTHER_FILES = 64

#: The fewest connections that are worth starting.
FEWEST = 16

#: Headers of a request of which only one counts, after which the connection ends (RFC 9112).
TWO_LENGTHS = {b"content-length", b"transfer-encoding"}


class PatientProtocol(H11Protocol):
    """A connection that ends if what is awaited does not arrive within some seconds.

    This is the first lines of a request, or the rest of one that has been answered already.
    """

    def __init__(self, seconds, limit, *arguments, **options):
        super().__init__(*arguments, **options)
        self._seconds = seconds
        self._limit = limit
        self._too_slow_task = None
        self._awaited = None

    def connection_made(self, transport):
        """Wait for the first request; if there are too many connections, end the one that has waited longest."""
        super().connection_made(transport)
        self._look()
        if len(self.connections) > self._limit.most:
            log.warning("there are more than %d connections; the idle ones make room", self._limit.most)
            next(iter(self._limit.idle), self).refuse()

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
            self.transport.write(refusal(*MALFORMED))
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
            self._limit.idle[self] = None

    def _is_answered(self):
        """Return whether the rest of a request is of no use."""
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE

    def _stop_waiting(self):
        if self._too_slow_task:
            self._too_slow_task.cancel()
        self._too_slow_task = self._awaited = None
        self._limit.idle.pop(self, None)

    def refuse(self) -> None:
        """End the connection, which is one too many, before it has an answer."""
        self._stop_waiting()
        if not self.transport.is_closing():
            if self.conn.our_state is h11.IDLE:
                self.transport.write(refusal(*TOO_MANY))
            self.transport.close()

    def _end(self):
        self._stop_waiting()
        if self.transport.is_closing():
            return
        # Nothing is awaited of a client that has an answer and sends no other request.
        if self.conn.their_state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            self.transport.write(refusal(*TOO_SLOW))
        self.transport.close()


class Connections:
    """The connections of a worker, of which there are at most so many.

    `idle` are those of which a request is awaited, the one that has waited longest first.
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self.idle = {}


def room_for_connections(backlog: int) -> float:
    """Return how many connections a worker has room for beside the models that are open in this process.

    Those of the backlog can be accepted before one is ended. XmlgpError if the limit of open files is too low.
    """
    # A model that is replaced is open together with the one that replaces it.
    room = _most_files() - 2 * _open_files() - OTHER_FILES - backlog
    if room < FEWEST:
        needed = (2 * _open_files() + OTHER_FILES + FEWEST) * 4 // 3 + 1
        raise XmlgpError(
            f"the limit of open files of this process, {_most_files()}, is too low for a server of these models; raise "
            f"it to {needed} or more (`ulimit -n {needed}`)"
        )
    return room


def _most_files() -> float:
    if resource is None:
        return UNKNOWN_LIMIT
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNKNOWN_LIMIT if soft == resource.RLIM_INFINITY else soft


def _open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0
