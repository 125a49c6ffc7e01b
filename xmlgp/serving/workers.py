"""The processes of a server."""

from __future__ import annotations

import multiprocessing
import os
import threading

from uvicorn.supervisors import Multiprocess

from xmlgp.runtime.interrupts import interrupts_kept_from_processes

__all__ = ["Workers", "end_with_parent"]


class Workers(Multiprocess):
    """Uvicorn's worker processes; Ctrl-C reaches the process that looks after them, which ends them."""

    def init_processes(self) -> None:
        """Start the workers."""
        with interrupts_kept_from_processes():
            super().init_processes()


def end_with_parent() -> None:
    """Make this worker end when the process that looks after it ends, even if that is killed."""

    def exit_after_parent() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            os._exit(1)

    threading.Thread(target=exit_after_parent, daemon=True).start()
