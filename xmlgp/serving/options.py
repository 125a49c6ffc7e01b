"""The options that all workers of a server share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """How a worker answers; see `serve`."""

    models: tuple[str, ...]
    learns: bool = False
    token: str | None = None
    #: Whether only this machine reaches the server.
    is_local: bool = True
    allow_origin: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    log: str = "text"
    #: Bytes of a body.
    largest: int = 4_000_000
    #: Seconds for a request to arrive, and for its answer.
    seconds: float = 30.0
    #: Texts that wait for suggestions.
    queue: int = 512
    threads: int | None = None
    #: Connections that wait to be accepted, and open connections.
    backlog: int = 2048
    connections: int = 4096
    #: The folder in which the workers share their metrics.
    metrics: Path | None = None
