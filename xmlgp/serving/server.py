"""`serve`: worker processes that share a socket and the mapped files of models, and answer over HTTP until a signal."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

from xmlgp.errors import UsageError, XmlgpError
from xmlgp.runs.given import FilePath
from xmlgp.runtime.locks import temporary_folder
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.threads import core_count

__all__ = ["LOGS", "serve"]

#: What `log` can be.
LOGS = ("text", "json")

#: The beginning of a message that is a warning.
WARNING = "warning: "

#: Processes by default: each takes some hundred megabytes for itself.
WORKERS = 4

#: Connections that wait to be accepted.
BACKLOG = 2048

#: Bytes of the first lines of a request, with its query.
HEADERS = 1 << 16

#: Seconds in which a worker must answer the process that looks after it. It is killed then, so this is long.
HEALTHY = 60

#: Files and connections that a process may have open: more than the usual 1,024, for slow clients.
OPEN_FILES = 65_536

#: The longest token that is read.
LONGEST_TOKEN = 4096


def serve(
    models: FilePath | Sequence[FilePath],
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    learn: bool = False,
    workers: int | None = None,
    token: FilePath | None = None,
    allow_origin: Sequence[str] = (),
    allow_host: Sequence[str] = (),
    log: str = "text",
    max_body: float = 4.0,
    timeout: float = 30.0,
    queue: int = 512,
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
        Whether requests may let models learn.
    workers : int, optional
        Number of processes. Default: one for each core, at most 4.
    token : path, optional
        A file with the token that requests must have.
    allow_origin : list of str
        Origins of pages that may ask in a browser, such as `https://example.org`; `*` for all.
    allow_host : list of str
        Names by which clients may call a server on the loopback interface that has no token, beside `localhost`.
    log : str
        "text" or "json", a line on standard error for each request.
    max_body : float
        Megabytes of the body of a request.
    timeout : float
        Seconds for a request to arrive, and for its answer.
    queue : int
        Texts that may wait in a worker.
    note : callable
        As for `train`.

    Raises
    ------
    UsageError
        If two models have the same folder name, or pages of all origins could let models learn.
    XmlgpError
        If a package is missing, a model cannot be used, or the address cannot be listened on.
    """
    try:
        from uvicorn import Config

        from xmlgp.serving.app import Options, create_app
        from xmlgp.serving.connections import Connections, PatientProtocol, room_for_connections
        from xmlgp.serving.lines import finish_lines, write_line
        from xmlgp.serving.logs import configure_log
        from xmlgp.serving.metrics import SHARED
        from xmlgp.serving.projects import Project, project_id
        from xmlgp.serving.supervisor import Supervisor
    except ImportError:
        raise XmlgpError("serving needs Starlette and others: pip install 'xmlgp[serve]'") from None
    folders = [os.fspath(path) for path in ([models] if isinstance(models, str | os.PathLike) else models)]
    names = [project_id(path) for path in folders]
    if not folders:
        raise UsageError("There is no model to serve.")
    for name in names:
        if not name.isprintable():
            raise UsageError(
                f"The folder name {name!r} has characters that cannot be shown; rename it, or serve a symbolic link "
                "to it."
            )
        if names.count(name) > 1:
            raise UsageError(
                f"Two models are in folders of the name {name}, which would be one project; rename one, or serve a "
                "symbolic link to it."
            )
    if log not in LOGS:
        raise UsageError(f"log is one of {', '.join(LOGS)}, not {log!r}.")
    if learn and "*" in allow_origin and token is None:
        raise UsageError("Any page in a browser could teach the models: learn with allow_origin=* needs a token.")
    threads = core_count()
    secret = None if token is None else _read_token(token)
    backlog = min(BACKLOG, _allow_connections() // 4)
    # What the workers would fail by is said before they start, and what is compiled is compiled once.
    with contextlib.ExitStack() as opened:
        for folder in folders:
            opened.enter_context(contextlib.closing(Project(folder))).open()
        connections = Connections(room_for_connections(backlog))
    listening = _listen(host, port)
    local = _is_local(listening)
    with contextlib.closing(listening), temporary_folder(Path(tempfile.gettempdir())) as shared:
        options = Options(
            models=tuple(folders),
            learns=learn,
            token=secret,
            local=local,
            allow_origin=tuple(allow_origin),
            allow_host=tuple(allow_host),
            log=log,
            largest=int(max_body * 1e6),
            seconds=timeout,
            queue=queue,
            threads=threads,
            parent=os.getpid(),
        )
        config = Config(
            functools.partial(create_app, options),
            factory=True,
            workers=workers or min(threads, WORKERS),
            http=functools.partial(PatientProtocol, timeout, connections),
            loop="asyncio",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            backlog=backlog,
            h11_max_incomplete_event_size=HEADERS,
            timeout_graceful_shutdown=int(timeout) + 1,
            timeout_worker_healthcheck=HEALTHY,
        )
        configure_log(log)
        if log == "json":

            def note(text):
                level = "warning" if text.startswith(WARNING) else "info"
                write_line(log, level=level, message=text.removeprefix(WARNING))

        shown = f"[{host}]" if ":" in host else host
        with _environment(SHARED, os.fspath(shared)), _signal_handlers():
            # From here on it receives signals.
            supervisor = Supervisor(config, [listening])
            note(f"listening on http://{shown}:{listening.getsockname()[1]} with {', '.join(names)}; stop with Ctrl-C")
            if not local and secret is None:
                can = "ask, and change the models" if learn else "ask"
                note(f"{WARNING}whoever reaches this address can {can}; a token (`token=FILE`) would keep others out")
            supervisor.run()
    try:
        if supervisor.failed:
            raise XmlgpError("the workers of the server could not start")
        note("stopped")
    finally:
        finish_lines()


def _read_token(path):
    """Return the token in a file; XmlgpError if it has none."""
    try:
        with open(path, encoding="ascii") as stream:
            token = stream.read(LONGEST_TOKEN + 1).strip()
    except UnicodeDecodeError:
        token = ""
    if not token or len(token) > LONGEST_TOKEN or not token.isprintable() or " " in token:
        raise XmlgpError(f"{os.fspath(path)}: the file must have a token, printable ASCII characters without spaces")
    return token


def _listen(host, port):
    """Return a socket that listens on an address, so that clients that come before the workers wait for them."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, number)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                # Connections inherit it: one whose client does not read its answer ends.
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
            listening.bind(address)
            listening.listen(BACKLOG)
            listening.set_inheritable(True)
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise XmlgpError(f"cannot listen on {host}, port {port}: {reason}") from None
    return listening


def _allow_connections() -> int:
    """Raise the limit of open files of this process and those that it starts, as far as it may; return it."""
    if not resource:
        return OPEN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return OPEN_FILES
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(soft, most)


def _is_local(listening):
    from xmlgp.serving.access import is_loopback

    return is_loopback(listening.getsockname()[0])


@contextlib.contextmanager
def _environment(name, value) -> Iterator[None]:
    """Set a variable for the processes that are started in the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


@contextlib.contextmanager
def _signal_handlers() -> Iterator[None]:
    """Restore the handlers of signals after the block, in which the server has its own."""
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
