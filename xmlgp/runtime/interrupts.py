"""SIGINT, SIGTERM and SIGHUP: what a user or a system sends to end a process, as an exception that work can put off.

Signals are the process's, and Python hands them to its main thread; so is what is known of them here.
"""

import contextlib
import signal
import threading

__all__ = ["Interrupted", "answered", "held", "ignore", "pending", "raise_pending", "undivided"]

#: Those of the terminal (Ctrl-C, its end) and of whoever shuts down or schedules; Windows lacks the last.
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(BaseException):
    """A signal came that ends the process; like KeyboardInterrupt no error that a handler of errors should see.

    Parameters
    ----------
    number : int
        Of the signal.

    Attributes
    ----------
    advice : str or None
        What to do next, where somebody on the way up knows it.
    """

    def __init__(self, number):
        super().__init__(number)
        self.number = number
        self.advice = None

    @property
    def status(self):
        """The exit status that a shell expects: 128 and the number of the signal."""
        return 128 + self.number


class _state:
    #: A signal that came and has not been raised, and whether another came after it.
    waiting, impatient = None, False
    #: Whether work puts the first signal off, and how many `undivided` blocks are under way.
    held, undivided = False, 0
    #: Whether signals come to nothing, for the end has come.
    deaf = False


@contextlib.contextmanager
def answered():
    """Within the block, signals that end the process raise `Interrupted`; afterwards they do what they did before.

    They raise it at once, or when `held` and `undivided` blocks allow it. What the process was started to ignore
    (`nohup`, jobs in the background of a script) it goes on ignoring. In other threads than the main one nothing is
    set.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        _state.waiting, _state.impatient, _state.deaf = None, False, False
        for number in ENDING:
            # None: a handler that Python did not set.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, _receive)
    try:
        yield
    finally:
        # One that comes between two of them would leave the others as they are.
        ignore()
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore():
    """Let signals come to nothing until the end of the `answered` block: what they ask for is under way."""
    _state.deaf = True


@contextlib.contextmanager
def held():
    """Within the block the first signal waits: for `raise_pending`, or for the end of the block; a second does not."""
    _state.held = True
    try:
        yield
    finally:
        _state.held = False
    raise_pending()


def pending():
    """Say whether a signal is waiting."""
    return _state.waiting is not None


def raise_pending():
    """Raise `Interrupted` if a signal is waiting."""
    if _state.waiting is not None:
        number, _state.waiting, _state.impatient = _state.waiting, None, False
        raise Interrupted(number)


class _Undivided:
    """Within the block every signal waits for its end.

    An exception that comes up in the midst of handing work to threads would leave locks behind that nobody opens
    again. Such blocks are short and may lie in each other; in other threads than the main one they do nothing.
    """

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            _state.undivided += 1

    def __exit__(self, failure, *details):
        if threading.current_thread() is threading.main_thread():
            _state.undivided -= 1
            if failure is None and not _state.undivided and (not _state.held or _state.impatient):
                raise_pending()


undivided = _Undivided()


def _receive(number, frame):
    if _state.deaf:
        return
    if _state.undivided or (_state.held and _state.waiting is None):
        _state.impatient = _state.waiting is not None
        _state.waiting = number
    else:
        raise Interrupted(number)
