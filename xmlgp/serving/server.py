"""`serve`: worker processes that share a socket and the mapped files of models, and answer over HTTP until a signal."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from xmlgp.errors import UsageError, XmlgpError
from xmlgp.inputs.kinds import FilePath
from xmlgp.runtime.locks import temporary_folder
from xmlgp.runtime.logs import LOGS, WARNING, level_and_message
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.threads import core_count
from xmlgp.serving.lines import finish_lines, write_line
from xmlgp.serving.options import Options

if sys.platform == "win32":
    resource = None
else:
    import resource

__all__ = ["LOGS", "serve"]

#: Processes by default: each takes some hundred megabytes for itself.
WORKERS = 4

#: Connections that wait to be accepted.
BACKLOG = 2048

#: Files and connections that a process may have open: more than the usual 1,024, for slow clients.
OPEN_FILES = 65_536

#: The longest token that is read.
LONGEST_TOKEN = 4096

#: Milliseconds after which a connection ends whose client does not read its answer.
UNREAD = 60_000


def serve(  # noqa: PLR0913, which are the options of the command
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
        Folders of models that were trained on text, or packed ones. The name of a folder is its project, and so is that
        of a packed model without `.zip`.
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
        If two models have the same name, or pages of all origins could let models learn.
    XmlgpError
        If a package is missing, a model cannot be used, or the address cannot be listened on.
    """
    options = Options(
        models=_folders(models),
        learns=learn,
        token=None if token is None else _read_token(token),
        allow_origin=tuple(allow_origin),
        allow_host=tuple(allow_host),
        log=log,
        largest=int(max_body * 1e6),
        seconds=timeout,
        queue=queue,
        threads=core_count(),
        backlog=min(BACKLOG, _allow_connections() // 4),
    )
    if log not in LOGS:
        raise UsageError(f"log is one of {', '.join(LOGS)}, not {log!r}.")
    if learn and "*" in allow_origin and token is None:
        danger = "Any page in a browser could teach the models"
        raise UsageError(f"{danger}: `learn=True` with `allow_origin=*` needs a token.")
    try:
        _run(options, host, port, workers or min(core_count(), WORKERS), _in_form(log, note))
    finally:
        finish_lines()


def _run(options: Options, host: str, port: int, workers: int, note: Callable[[str], object]) -> None:
    """Open the models, listen, and look after workers until a signal."""
    try:
        from xmlgp.serving.access import is_loopback
        from xmlgp.serving.connections import connection_limit
        from xmlgp.serving.logs import configure_log
        from xmlgp.serving.projects import Project, project_id
        from xmlgp.serving.supervisor import Supervisor
    except ImportError:
        raise XmlgpError("serving needs Starlette and others: pip install 'xmlgp[serve]'") from None
    names = [project_id(path) for path in options.models]
    _check_names(names)
    # What the workers would fail by is said before they start, and what is compiled is compiled once.
    with contextlib.ExitStack() as opened:
        for path in options.models:
            opened.enter_context(contextlib.closing(Project(path))).open()
        options = replace(options, connections=connection_limit(options.backlog))
    configure_log(options.log)
    with contextlib.closing(_listen(host, port)) as listening, temporary_folder(Path(tempfile.gettempdir())) as metrics:
        address, port, *_ = listening.getsockname()
        options = replace(options, is_local=is_loopback(address), metrics=metrics)
        supervisor = Supervisor(options, listening, workers)
        with supervisor.receive_signals():
            shown = f"[{host}]" if ":" in host else host
            note(f"listening on http://{shown}:{port} with {', '.join(names)}; stop with Ctrl-C")
            if not options.is_local and options.token is None:
                can = "ask, and change the models" if options.learns else "ask"
                note(f"{WARNING}whoever reaches this address can {can}; a token (`token=FILE`) would keep others out")
            supervisor.run()
    note("stopped")


def _folders(models: FilePath | Sequence[FilePath]) -> tuple[str, ...]:
    paths = [models] if isinstance(models, str | os.PathLike) else models
    if not paths:
        raise UsageError("There is no model to serve.")
    return tuple(os.fspath(path) for path in paths)


def _check_names(names: list[str]) -> None:
    """Raise UsageError if the names of folders cannot be those of projects."""
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


def _in_form(log: str, note: Callable[[str], object]) -> Callable[[str], object]:
    """Return what shows a message: as JSON if the log is."""

    def note_json(text: str) -> None:
        write_line("json", **level_and_message(text))

    return note_json if log == "json" else note


def _read_token(path: FilePath) -> str:
    """Return the token in a file; XmlgpError if it has none."""
    try:
        with open(path, encoding="ascii") as stream:
            token = stream.read(LONGEST_TOKEN + 1).strip()
    except UnicodeDecodeError:
        token = ""
    if not token or len(token) > LONGEST_TOKEN or not token.isprintable() or " " in token:
        raise XmlgpError(f"{os.fspath(path)}: the file must have a token, printable ASCII characters without spaces")
    return token


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address, so that clients that come before the workers wait for them."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, number)
        try:
            if sys.platform != "win32":
                # On Windows, it would let another program listen on the same address.
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                # Connections inherit it.
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD)
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
    if sys.platform == "win32":
        return OPEN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return OPEN_FILES
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(soft, most)
