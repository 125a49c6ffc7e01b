"""Child processes that do not outlive their parent."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import wait

__all__ = ["end_with_parent"]

#: The option of prctl(2) that chooses the signal sent to a process when the thread that started it ends.
PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Make this process end as soon as its parent ends, even if the parent is killed.

    Call this first in a process that `multiprocessing` starts. The thread of the parent that started it must outlive
    it, because Linux kills the process when that thread ends.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("multiprocessing has not started this process")
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()
    # If the parent ended before the lines above, no signal comes.
    if os.getppid() != parent.pid:
        os._exit(1)


def _exit_after(sentinel: int) -> None:
    """Wait until the process of a sentinel has ended, then end this one."""
    wait([sentinel])
    os._exit(1)
