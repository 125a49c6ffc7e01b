"""Processes that do not outlive the one that started them."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import wait

__all__ = ["end_with_parent"]

#: The option of prctl(2) that sets the signal that a process gets when the thread that started it ends.
PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let this process end as soon as the one that started it ends, even if that is killed.

    To be called first in a process that `multiprocessing` starts. The thread that started it must wait for it.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("multiprocessing has not started this process")
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()
    # The other process may have ended before.
    if os.getppid() != parent.pid:
        os._exit(1)


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
