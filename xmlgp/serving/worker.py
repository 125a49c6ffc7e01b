"""A worker of a server: a process that answers requests."""

from __future__ import annotations

import logging
import signal
import socket
import sys

from uvicorn import Config, Server
from uvicorn.config import STARTUP_FAILURE

from xmlgp.runtime.processes import end_with_parent
from xmlgp.serving.app import make_app
from xmlgp.serving.connections import Answering, Connections
from xmlgp.serving.lines import finish_lines
from xmlgp.serving.logs import configure_log
from xmlgp.serving.metrics import Metrics
from xmlgp.serving.options import Options

__all__ = ["STARTUP_FAILURE", "shutdown_seconds", "work"]

#: Bytes of the first lines of a request, with its query.
HEADERS = 1 << 16

log = logging.getLogger(__name__)


def work(options: Options, listening: socket.socket, number: int) -> None:
    """Answer requests to a socket until SIGTERM; `number` is the place of this worker among those of the server."""
    end_with_parent()
    configure_log(options.log)
    if hasattr(signal, "SIGHUP"):
        # A closed terminal sends it to all processes; the one that looks after this one ends it.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        metrics = Metrics(len(options.models), options.metrics, number)
    except OSError as error:
        log.error("%s: the metrics of a worker have no space: %s", error.filename, error.strerror)
        finish_lines()
        sys.exit(STARTUP_FAILURE)
    config = Config(
        Answering(make_app(options, metrics)),
        http=Connections(options.connections, options.seconds),  # type: ignore[arg-type]  # it is called like a class
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=options.backlog,
        h11_max_incomplete_event_size=HEADERS,
        timeout_graceful_shutdown=shutdown_seconds(options),
    )
    Server(config).run(sockets=[listening])


def shutdown_seconds(options: Options) -> int:
    """Return how long a worker that ends waits for the requests that it is answering."""
    return int(options.seconds) + 1
