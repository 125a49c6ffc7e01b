"""What a server says of its work: a line for each request on standard error, and metrics for Prometheus."""

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from datetime import datetime, timezone

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.responses import Response

from xmlgp.runtime.untrusted_text import escape
from xmlgp.serving.problems import Unavailable, problem_response

__all__ = ["SHARED", "Metrics", "RequestLog", "configure_log", "write_line"]

#: The variable of prometheus_client that names the folder in which processes share their metrics.
SHARED = "PROMETHEUS_MULTIPROC_DIR"

#: Upper bounds of the times that are counted, in seconds.
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)

log = logging.getLogger(__name__)


def write_line(form, **facts):
    """Write a line on standard error: facts as text, or as JSON if that is the form."""
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    facts = {"time": now, **facts}
    line = json.dumps(facts) if form == "json" else " ".join(str(fact) for fact in facts.values() if fact is not None)
    # A full disk, or a reader that has gone, is no reason to fail.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def configure_log(form):
    """Let what is logged in this process be written as `write_line` does: messages of xmlgp, and others' warnings."""
    handler = _Lines()
    handler.form = form
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("xmlgp").setLevel(logging.INFO)


class _Lines(logging.Handler):
    def emit(self, record):
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        write_line(self.form, level=record.levelname.lower(), message=text)


class Metrics:
    """Counts what a worker does. The workers of a server share theirs by files, where that is set up."""

    def __init__(self):
        self._registry = CollectorRegistry()
        _make_shared()
        own = {"registry": self._registry}
        self.requests = Counter("xmlgp_requests", "Requests that were answered.", ["endpoint", "status"], **own)
        self.seconds = Histogram(
            "xmlgp_request_seconds", "Time from a request to its answer.", ["endpoint"], buckets=SECONDS, **own
        )
        self.documents = Counter("xmlgp_documents", "Documents that labels were suggested for.", ["project"], **own)
        self.learned = Counter("xmlgp_learned_documents", "Documents that were sent to be learned.", ["project"], **own)
        self.batches = Histogram(
            "xmlgp_batch_documents",
            "Documents that were scored together.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            **own,
        )
        self.waiting = Gauge(
            "xmlgp_waiting_requests", "Requests that wait for suggestions.", multiprocess_mode="livesum", **own
        )

    def response(self):
        """Return the metrics of all workers, in the text form of Prometheus."""
        registry = self._registry
        if SHARED in os.environ:
            _make_shared()
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _make_shared():
    """Make the folder of metrics again if someone has tidied it up."""
    if SHARED in os.environ:
        os.makedirs(os.environ[SHARED], exist_ok=True)


class RequestLog:
    """Logs and counts the requests of an ASGI application, and logs why it fails.

    The application may note `project` and `documents` in the state of a request. Neither texts nor labels are logged.
    """

    def __init__(self, app, metrics, form):
        self._app, self._metrics, self._form = app, metrics, form

    async def __call__(self, scope, receive, send):
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), None
        about = scope.setdefault("state", {})

        async def send_and_note(message):
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

    def _write(self, scope, status, took, about):
        # A proxy on this machine says who the client is, and so can any client on it.
        client = escape(scope["client"][0]) if scope.get("client") else None
        method, path = (escape(text) for text in (scope["method"], scope["raw_path"].decode("ascii", "replace")))
        documents = about.get("documents")
        if self._form == "json":
            facts = {"status": status, "seconds": round(took, 6), "documents": documents}
            write_line("json", level="info", client=client, method=method, path=path, **facts)
            return
        amount = None if documents is None else f"{documents} document{'s' * (documents != 1)}"
        write_line(
            "text", client=client, method=method, path=path, status=status, took=f"{1000 * took:.1f} ms", amount=amount
        )
