"""The processes of a server."""

from __future__ import annotations

from uvicorn.supervisors import Multiprocess

from xmlgp.runtime.interrupts import interrupts_kept_from_processes

__all__ = ["Workers"]


class Workers(Multiprocess):
    """Uvicorn's worker processes; Ctrl-C reaches the process that looks after them, which ends them."""

    def init_processes(self) -> None:
        """Start the workers."""
        with interrupts_kept_from_processes():
            super().init_processes()
