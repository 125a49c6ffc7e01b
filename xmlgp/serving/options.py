"""What the processes of a server are told."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """How a worker answers; see `xmlgp.serving.server.serve`."""

    models: tuple[str, ...]
    learns: bool = False
    token: str | None = None
    #: Whether only this machine reaches the server.
    is_local: bool = True
    #: Bytes of a body.
    largest: int = 4_000_000
    threads: int | None = None
