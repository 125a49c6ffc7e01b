"""Runs the command line as `python -m xmlgp`, and as `xmlgp`."""

import contextlib
import ctypes
import os
import signal

__all__ = ["run"]

#: Parameters of mallopt in malloc.h of glibc, and what they get, in bytes.
KEPT_MEMORY = {-1: 1 << 26, -3: 1 << 23}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD


def run() -> None:
    """Run a command and end the process."""
    try:
        _run()
    except KeyboardInterrupt:
        # Ctrl-C again, after the command has ended.
        raise SystemExit(128 + signal.SIGINT) from None


def _run() -> None:
    # The threads that OpenBLAS starts would spin a while, and then never be used.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _keep_freed_memory()
    # While Python imports the command line, it would print a traceback at Ctrl-C.
    _leave_to_system()
    from xmlgp.cli import main  # noqa: PLC0415, which takes a tenth of a second

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main(prog_name="xmlgp")
    finally:
        # While Python waits for threads, it would print a traceback at Ctrl-C.
        _leave_to_system()


# Python keeps frames in chunks of 16 KB: a call at the end of one maps memory, and its return unmaps it. In an unlucky
# loop that takes a tenth of a second. This frame, of 128 KB, brings a chunk of 256 KB, where those above it find room.
_run.__code__ = _run.__code__.replace(co_stacksize=1 << 14)


def _keep_freed_memory() -> None:
    """Let malloc reuse up to 64 MB that was freed, and for arrays of up to 8 MB, where there is the malloc of glibc.

    It would return the temporary arrays of each training step to the system, and get them back page by page: 5 to 30 %
    of the time of Delicious, depending on where in memory they lie.
    """
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in KEPT_MEMORY.items():
            mallopt(parameter, value)


def _leave_to_system() -> None:
    """Let Ctrl-C end the process at once and silently, unless the process ignores it, as in the background."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    run()
