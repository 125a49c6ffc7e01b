"""`serve`: Uvicorn's worker processes, which share a socket and the mapped files of models."""

from __future__ import annotations

import functools
import os
import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmlgp.api.points import FilePath
from xmlgp.runtime.errors import UsageError, XmlgpError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.threads import core_count
from xmlgp.serving.options import Options

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["serve"]

#: Processes by default: each takes some hundred megabytes for itself.
WORKERS = 4

#: Connections of a worker; further requests are answered with 503. So many bodies can be in memory at a time.
CONNECTIONS = 128

#: Bytes of the first lines of a request, with its query.
HEADERS = 1 << 16

#: Seconds that a worker which ends waits for the requests that it is answering.
SHUTDOWN_SECONDS = 30

#: Seconds after which a worker that does not answer the process that looks after it is replaced: longer than compiling.
HEALTH_SECONDS = 30

#: Printable ASCII characters but the space.
TOKEN = re.compile("[!-~]+")

#: Uvicorn's log, on standard error, and ours. That processes start and end is not worth a line.
LOG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {"uvicorn.error": {"level": "WARNING"}, "uvicorn.access": {"level": "INFO"}, "xmlgp": {"level": "INFO"}},
    "root": {"handlers": ["stderr"]},
}


def serve(
    models: FilePath | Sequence[FilePath],
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    learn: bool = False,
    token: FilePath | None = None,
    workers: int | None = None,
    max_body: float = 4.0,
    note: Callable[[str], object] = ignore,
) -> None:
    """Suggest labels of texts over HTTP, by version 1 of Annif's REST interface, until SIGTERM or SIGINT.

    Requests that are being answered then are answered. A model that is replaced in its folder is taken up.

    Parameters
    ----------
    models : path or list of path
        Folders of models that were trained on text. The name of a folder is its project.
    host : str
        The address to listen on. Other machines reach the server only if it is not that of the loopback interface.
    port : int
        0 for one that is free.
    learn : bool
        Whether requests may let models learn, which needs a token.
    token : path, optional
        A file with the token that requests must have.
    workers : int, optional
        Number of processes. Default: one for each core, at most 4.
    max_body : float
        Megabytes of the body of a request.
    note : callable
        As for `train`.

    Raises
    ------
    UsageError
        If two models have the same name, or `learn` has no token.
    XmlgpError
        If a package is missing, a model cannot be used, or the address cannot be listened on.
    """
    try:
        from uvicorn import Config

        from xmlgp.serving.app import is_loopback
        from xmlgp.serving.projects import Project
        from xmlgp.serving.workers import Workers
    except ImportError:
        raise XmlgpError("serving needs Starlette and Uvicorn: pip install 'xmlgp[serve]'") from None
    paths = [models] if isinstance(models, str | os.PathLike) else models
    if learn and token is None:
        raise UsageError("`learn=True` needs a token: whoever reaches the server could change the models.")
    projects = [Project(path) for path in paths]
    names = [project.id for project in projects]
    _check_names(names)
    # What the workers would fail by is said before they start, and what is compiled is compiled once.
    for project in projects:
        project.open()
        project.model = None
    secret = None if token is None else _read_token(token)
    with _listen(host, port) as listening:
        address, port, *_ = listening.getsockname()
        options = Options(
            models=tuple(os.fspath(path) for path in paths),
            learns=learn,
            token=secret,
            is_local=is_loopback(address),
            largest=int(max_body * 1e6),
            threads=core_count(),
        )
        config = Config(
            functools.partial(_app_of_worker, options),
            factory=True,
            workers=workers or min(core_count(), WORKERS),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="on",
            log_config=LOG,
            server_header=False,
            # Whatever a client says in X-Forwarded-For would be in the log.
            proxy_headers=False,
            limit_concurrency=CONNECTIONS,
            h11_max_incomplete_event_size=HEADERS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            timeout_worker_healthcheck=HEALTH_SECONDS,
        )
        supervisor = Workers(config, [listening])
        shown = f"[{host}]" if ":" in host else host
        note(f"listening on http://{shown}:{port} with {', '.join(names)}; stop with Ctrl-C")
        if not options.is_local and secret is None:
            note("Warning: whoever reaches this address can ask; a token (`token=FILE`) would keep others out")
        supervisor.run()
    note("stopped")


def _app_of_worker(options: Options) -> Starlette:
    """Return the application, in a process that Uvicorn has started."""
    from xmlgp.serving.app import make_app
    from xmlgp.serving.workers import end_with_parent

    end_with_parent()
    return make_app(options)


def _check_names(names: list[str]) -> None:
    """Raise UsageError if the names of folders cannot be those of projects."""
    if not names:
        raise UsageError("There is no model to serve.")
    if len(set(names)) < len(names):
        raise UsageError(
            f"Two models are in folders of the same name, which would be one project: {', '.join(sorted(names))}; "
            "rename one, or serve a symbolic link to it."
        )


def _read_token(path: FilePath) -> str:
    """Return the token in a file; XmlgpError if it has none."""
    token = Path(path).read_text("ascii", errors="replace").strip()
    if not TOKEN.fullmatch(token):
        raise XmlgpError(f"{os.fspath(path)}: the file must have a token, printable ASCII characters without spaces")
    return token


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address, so that clients that come before the workers wait for them."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        # `create_server` names the address again.
        reason = str(getattr(error, "strerror", None) or error).partition(" (while ")[0]
        raise XmlgpError(f"cannot listen on {host}, port {port}: {reason}") from None
    # Connections inherit it. Otherwise the body of an answer waits 40 ms for the client to confirm the headers.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.set_inheritable(True)
    return listening
