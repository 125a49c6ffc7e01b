"""The log of a server: a line for each request, and what goes wrong."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import escape
from xmlgp.serving.lines import write_line
from xmlgp.serving.metrics import Metrics
from xmlgp.serving.problems import Unavailable, problem_response

__all__ = ["RequestLog", "configure_log"]

#: Seconds after which a warning or an error is logged again; until then it is counted.
PAUSE = 60

#: Most different messages that are counted; after that all are logged again.
MESSAGES = 1000

log = logging.getLogger(__name__)


def configure_log(form: str) -> None:
    """Let what is logged in this process be written as `write_line` does: messages of xmlgp, and others' warnings."""
    logging.basicConfig(handlers=[_Lines(form)], level=logging.WARNING, force=True)
    logging.getLogger("xmlgp").setLevel(logging.INFO)


class _Lines(logging.Handler):
    """Writes what is logged; the same warning or error once a minute only, whatever many clients cause."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form
        #: For each message when it was last written, and how often it has come since.
        self._written: dict[str, tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            more = self._more(f"{text} {record.exc_info and record.exc_info[1]!r}")
            if more is None:
                return
            if more:
                text += f" (and {more} times since this was logged before)"
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        write_line(self._form, level=record.levelname.lower(), message=text)

    def _more(self, text: str) -> int | None:
        """Return how often a message has come since it was last written, or None if it is not to be written again."""
        now = time.monotonic()
        last, more = self._written.get(text, (-PAUSE, 0))
        if now - last < PAUSE:
            self._written[text] = last, more + 1
            return None
        if len(self._written) >= MESSAGES:
            self._written.clear()
        self._written[text] = now, 0
        return more


class RequestLog:
    """Logs and counts the requests of an ASGI application, and logs why it fails.

    The application may note `project` and `documents` in the state of a request. Neither texts nor labels are logged.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, form: str) -> None:
        self._app = app
        self._metrics = metrics
        self._form = form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = None
        about = scope.setdefault("state", {})

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except asyncio.CancelledError:
            # The server ends, and has waited for this request as long as it may.
            if status is None:
                problem = Unavailable("the server ended before the request was answered; try again later")
                await problem_response(problem)(scope, receive, send_and_note)
        except Exception:
            # Starlette has answered it.
            log.exception("answering a request failed")
        finally:
            took = time.perf_counter() - began
            endpoint = about.get("endpoint", "other")
            self._metrics.requests.labels(endpoint, status).inc()
            self._metrics.seconds.labels(endpoint).observe(took)
            self._write(scope, status, took, about)

    def _write(self, scope: Scope, status: int | None, took: float, about: Mapping[str, Any]) -> None:
        # A proxy on this machine says who the client is, and so can any client on it.
        client = escape(scope["client"][0]) if scope.get("client") else None
        method = escape(scope["method"])
        path = escape(scope["raw_path"].decode("ascii", "replace"))
        facts = {"client": client, "method": method, "path": path, "status": status}
        documents = about.get("documents")
        if self._form == "json":
            write_line("json", level="info", **facts, seconds=round(took, 6), documents=documents)
        else:
            amount = None if documents is None else counted(documents, "document")
            write_line("text", **facts, took=f"{1000 * took:.1f} ms", amount=amount)
