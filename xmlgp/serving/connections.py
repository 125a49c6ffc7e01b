"""The connections of a worker: one that waits for a request ends after some seconds, and their number is limited."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, cast

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from xmlgp.errors import XmlgpError
from xmlgp.serving.problems import refusal

if sys.platform == "win32":
    resource = None
else:
    import resource

__all__ = ["Answering", "Connections", "connection_limit"]

log = logging.getLogger(__name__)

#: What a client is told whose request does not reach the application: the status and one sentence.
TOO_SLOW = 408, "the request did not arrive in time"
TOO_MANY = 503, "there are too many connections; try again later"

#: Open files where the limit is unknown.
UNKNOWN_LIMIT = 4096

#: Files beside models and connections, such as those of learning.
OTHER_FILES = 64

#: The fewest connections that are worth starting.
FEWEST = 16


class Connections:
    """The connections of a worker: at most `limit`, each of which waits for a request for at most `seconds`.

    Called by Uvicorn in place of its protocol class, it returns a new connection.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit = limit
        self.seconds = seconds
        self.count = 0
        #: Connections that wait for a request, the one that has waited longest first.
        self.waiting: dict[_Connection, None] = {}

    def __call__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> asyncio.Protocol:
        """Return a new connection; the parameters are those of `H11Protocol`."""
        return _Connection(self, H11Protocol(config, server_state, app_state, _loop))


class _Connection(asyncio.Protocol):
    """Passes everything on to Uvicorn's protocol, and ends the connection if no request arrives in time."""

    def __init__(self, connections: Connections, protocol: asyncio.Protocol) -> None:
        self._connections = connections
        self._protocol = protocol
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        #: Requests that the application is answering.
        self._requests = 0
        #: Whether the client waits for an answer: at first, and after the beginning of another request.
        self._expects_answer = True
        #: Whether all of the latest request has been read; what arrives is otherwise the rest of it.
        self.is_read = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # what a socket has
        self._protocol.connection_made(transport)
        self._connections.count += 1
        self._wait()
        if self._connections.count > self._connections.limit:
            log.warning("there are more than %d connections; the idle ones make room", self._connections.limit)
            next(iter(self._connections.waiting))._end(TOO_MANY)

    def data_received(self, data: bytes) -> None:
        if self.is_read:
            self._expects_answer = True
        context = CURRENT.set(self)
        try:
            self._protocol.data_received(data)
        except h11.LocalProtocolError:
            # Uvicorn answers a malformed rest of a request, also if that has an answer already.
            self._transport.close()
        finally:
            CURRENT.reset(context)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_waiting()
        self._connections.count -= 1
        self._protocol.connection_lost(error)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Let the connection wait for nothing while the application answers a request in the block."""
        self._requests += 1
        self._stop_waiting()
        try:
            yield
        finally:
            self._requests -= 1
            self._expects_answer = False
            if not self._requests and not self._transport.is_closing():
                self._wait()

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._connections.seconds, self._end, TOO_SLOW)
        self._connections.waiting[self] = None

    def _stop_waiting(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._connections.waiting.pop(self, None)

    def _end(self, problem: tuple[int, str]) -> None:
        """End the connection; a client that waits for an answer is told why."""
        self._stop_waiting()
        if not self._transport.is_closing():
            if self._expects_answer:
                self._transport.write(refusal(*problem))
            self._transport.close()


#: The connection whose data are being read; Uvicorn calls the application in this context.
CURRENT: ContextVar[_Connection | None] = ContextVar("connection", default=None)


class Answering:
    """Tells the connection of a request that an ASGI application is answering it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        connection = CURRENT.get()
        if connection is None:  # the lifespan
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        connection.is_read = not {"content-length", "transfer-encoding"} & set(headers)
        has_two_lengths = {"content-length", "transfer-encoding"} <= set(headers)

        async def receive_and_note() -> Message:
            message = await receive()
            connection.is_read |= not message.get("more_body")
            return message

        async def send_and_close(message: Message) -> None:
            if has_two_lengths and message["type"] == "http.response.start":
                # A proxy may take the other length, and what follows the body for a request of someone else (RFC 9112).
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        with connection.answering():
            await self._app(scope, receive_and_note, send_and_close)


def connection_limit(backlog: int) -> int:
    """Return how many connections a worker can have beside the models that are open in this process.

    Those of the backlog can be accepted before one is ended. XmlgpError if the limit of open files is too low.
    """
    most_files = _most_files()
    # A model that is replaced is open together with the one that replaces it.
    reserved = 2 * _open_files() + OTHER_FILES
    limit = most_files - reserved - backlog
    if limit < FEWEST:
        needed = (reserved + FEWEST) * 4 // 3 + 1
        raise XmlgpError(
            f"the limit of open files of this process, {most_files}, is too low for a server of these models; raise "
            f"it to {needed} or more (`ulimit -n {needed}`)"
        )
    return limit


def _most_files() -> int:
    if sys.platform == "win32":
        return UNKNOWN_LIMIT
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNKNOWN_LIMIT if soft == resource.RLIM_INFINITY else soft


def _open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0
