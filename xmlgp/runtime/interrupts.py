"""SIGINT, SIGTERM and SIGHUP, the signals that end a process, as an exception that work can defer.

Signals belong to the process and Python delivers them to its main thread, so the state of this module is global.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = [
    "Interrupted",
    "defer_signals",
    "handle_signals",
    "ignore_signals",
    "interrupts_kept_from_processes",
    "raise_pending_signal",
    "signal_pending",
    "uninterruptible",
]

#: Sent by a terminal (Ctrl-C, hangup), at shutdown, and by schedulers. Windows has no SIGHUP.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(BaseException):
    """A signal asked the process to end. Like KeyboardInterrupt, it is not an `Exception`.

    A caller may set `advice`, a clause for the user.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        #: Whether work asked for the signal, so that its state is whole.
        self.was_asked_for = False
        self.advice: str | None = None

    @property
    def status(self) -> int:
        """The exit status that a shell expects: 128 plus the signal's number."""
        return 128 + self.number


class _state:
    #: Signals that were received but not raised yet.
    pending: list[int] = []
    #: Whether the first signal is deferred.
    deferred = False
    #: The depth of `uninterruptible` blocks.
    depth = 0
    #: Whether further signals are ignored.
    ignored = False


@contextlib.contextmanager
def handle_signals() -> Iterator[None]:
    """Raise `Interrupted` in the block when a signal asks the process to end; restore the handlers afterwards.

    It is raised at once, or as soon as `defer_signals` and `uninterruptible` blocks allow it. A signal that the
    process was started to ignore (by `nohup`, or as a background job of a script) stays ignored. Outside the main
    thread this does nothing.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        _state.ignored = False
        for number in SIGNALS:
            # None: a handler that Python did not set.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, _receive)
    try:
        yield
    finally:
        # An exception between two of these calls would leave the other handlers in place.
        ignore_signals()
        for number, handler in before.items():
            signal.signal(number, handler)
        # A signal that another exception took precedence over does not interrupt what the process does next.
        _state.pending.clear()


def ignore_signals() -> None:
    """Ignore further signals until the end of the `handle_signals` block, because the process is ending already."""
    _state.ignored = True


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Defer the first signal until `raise_pending_signal` or the end of the block; raise a second one at once."""
    _state.deferred = True
    try:
        yield
    finally:
        _state.deferred = False
    raise_pending_signal()


def signal_pending() -> bool:
    """Return whether a deferred signal waits to be raised."""
    return bool(_state.pending)


def raise_pending_signal(is_asked_for: bool = True) -> None:
    """Raise `Interrupted` if a deferred signal waits to be raised."""
    # Another thread may take the signal at the same time.
    pending, _state.pending = _state.pending, []
    if pending:
        error = Interrupted(pending[-1])
        error.was_asked_for = is_asked_for
        raise error


@contextlib.contextmanager
def interrupts_kept_from_processes() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started in the block.

    A terminal sends Ctrl-C to all processes. Those that are starting would print tracebacks; this process ends them.
    In this process it takes effect at the end of the block.
    """
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker

    # The start of the resource tracker would unblock the signal again.
    resource_tracker.ensure_running()
    # Threads and processes inherit the mask: also threads that later replace lost processes.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Uninterruptible:
    """Defers every signal to the end of the block.

    An exception in the middle of submitting work to threads would leave their locks held forever. Such blocks are
    short and may be nested. Outside the main thread they do nothing.
    """

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            _state.depth += 1

    def __exit__(self, failure: type[BaseException] | None, *details: object) -> None:
        if threading.current_thread() is threading.main_thread():
            _state.depth -= 1
            if failure is None:
                _raise_if_due()


uninterruptible = _Uninterruptible()


def _receive(number: int, frame: FrameType | None) -> None:
    if _state.ignored:
        return
    _state.pending.append(number)
    _raise_if_due()


def _raise_if_due() -> None:
    """Raise `Interrupted` if a signal waits, outside `uninterruptible` blocks; the first one may be deferred."""
    if not _state.depth and (not _state.deferred or len(_state.pending) > 1):
        raise_pending_signal(is_asked_for=False)
