"""Progress of long work: the library reports it, the command line shows it on a terminal.

Library functions take `progress=silent` and know neither terminals nor options.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import ClassVar, NamedTuple, Protocol, TextIO
from weakref import WeakSet

from tqdm import tqdm
from tqdm.utils import disp_len

from xmlgp.runtime.untrusted_text import escape

__all__ = [
    "QUIET",
    "Bar",
    "Progress",
    "Reporter",
    "between_bars",
    "end_bars",
    "ignore",
    "over_echo",
    "silent",
    "tell_if_slow",
    "terminal_progress",
]

#: Layouts of tqdm by whether the total is known, the fullest first. A bar has the first layout that fits, with at least
#: ten columns for `{bar}`; if none fits, the last one is cut off.
LAYOUTS = {
    True: (
        "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]",
        "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]",
        "{l_bar}{bar}| {elapsed}<{remaining}",
        "{l_bar}{bar}|",
        "{percentage:3.0f}% {desc}",
    ),
    False: (
        "{desc}: {n_fmt}{unit} [{elapsed}, {rate_fmt}{postfix}]",
        "{desc}: {n_fmt}{unit} [{elapsed}]",
        "{n_fmt}{unit} {desc}",
    ),
}

#: The same without counts, for bars whose unit is None.
TIME_LAYOUTS = {True: ("{l_bar}{bar}| {elapsed}<{remaining}{postfix}", *LAYOUTS[True][2:]), False: ("{desc}",)}

#: The width of a bar in columns if the terminal does not report its own.
COLUMNS = 79

#: Columns that a bar leaves free for a ^C that the terminal echoes while drawing. Otherwise the bar would wrap, and the
#: next one would overwrite only its second line.
ECHO_COLUMNS = 2

#: Erases the terminal from the cursor to the end: also the rest of a bar that was wrapped when the window got narrower.
ERASE = "" if os.name == "nt" else "\x1b[J"

#: Work is slow if the rest of it takes at least so many seconds.
SLOW = 180

#: Seconds for which the speed of work is measured before the time for the rest is estimated.
MEASURED = 5


class Bar(Protocol):
    """The progress of one piece of work."""

    def update(self, n: float = 1, **facts: object) -> object:
        """Advance the bar by some units, and show facts at its end."""


class Progress(Protocol):
    """A function that shows the progress of long work: the type of the parameter `progress` of library functions."""

    def __call__(self, label: str, total: float | None = None, unit: str | None = "it") -> AbstractContextManager[Bar]:
        """Show a bar with a label until the `with` block ends."""


class _NoBar:
    """A bar that is not shown."""

    def update(self, n: float = 1, **facts: object) -> None:
        pass


@contextlib.contextmanager
def silent(label: str, total: float | None = None, unit: str | None = "it") -> Iterator[Bar]:
    """Show nothing; the default `progress` of every library function."""
    yield _NoBar()


def ignore(text: str) -> None:
    """Take no notice of a message; the default `note` of every library function."""


class Reporter(NamedTuple):
    """The two ways in which long work reports to its caller: the progress of each piece of it, and messages."""

    progress: Progress = silent
    note: Callable[[str], object] = ignore

    @classmethod
    def of(cls, progress: Progress | None, note: Callable[[str], object] | None) -> Reporter:
        """Return the reporter of optional arguments; one that is None reports nothing."""
        return cls(progress or silent, note or ignore)


#: Reports nothing.
QUIET = Reporter()


class _Bar(tqdm):  # type: ignore[type-arg]  # it cannot be subscripted at run time
    """A bar that fits its terminal, even if the window is resized, and that is erased at the end."""

    #: No monitor thread: tqdm would wait for it at exit. It redraws bars that skip updates for too long, but with
    #: `miniters=0` below, each update looks at the clock.
    monitor_interval = 0

    _instances: ClassVar[WeakSet[object]]

    #: Only threads of this process draw; the lock that tqdm has by default would also block other processes.
    _lock = threading.RLock()

    def __init__(self, label: str, total: float | None = None, unit: str | None = "it") -> None:
        total = _python_number(total or 0) or None
        self._layouts = (LAYOUTS if unit else TIME_LAYOUTS)[total is not None]
        super().__init__(
            desc=escape(label),
            total=total,
            unit=unit or "it",
            unit_scale=unit == "B",
            file=sys.stderr,
            leave=False,
            dynamic_ncols=True,
            miniters=0,
        )
        # By tqdm's own clock, the time of day, a bar would stand still after that is set back.
        self._time = time.monotonic
        self.last_print_t = self.start_t = self._time()

    def update(self, n: float | None = 1, **facts: object) -> bool | None:
        """Advance the bar by some units, and show facts at its end."""
        if facts:
            self.set_postfix(facts, refresh=False)
        count = _python_number(n or 0)
        # Fractions of a total of 1 may add up to more by a rounding error, and tqdm would warn of it.
        return super().update(count if self.total is None else min(count, self.total - self.n))

    @staticmethod
    def status_printer(file: TextIO) -> Callable[[str], None]:  # type: ignore[override]  # always standard error
        """Return the function that draws a bar and then puts the cursor at its beginning.

        What comes next, such as a message or a ^C that the terminal echoes, overwrites the bar.
        """
        if not ERASE:
            return tqdm.status_printer(file)

        def draw(text: str) -> None:
            file.write(f"\r{text}{ERASE}\r")
            file.flush()

        return draw

    def __str__(self) -> str:
        arguments = dict(self.format_dict)
        # tqdm has subtracted one column from the width. Some pseudo-terminals have 0 columns, which gives −1.
        width = arguments["ncols"]
        columns = COLUMNS if width is None or width < 0 else max(width - ECHO_COLUMNS, 1)
        for layout in self._layouts:
            arguments |= {"bar_format": layout, "ncols": None}
            if disp_len(self.format_meter(**arguments)) <= columns:
                break
        return self.format_meter(**arguments | {"ncols": columns})


def terminal_progress(quiet: bool = False) -> Progress:
    """Return a `progress` that draws bars on standard error if that is a terminal, unless `quiet`.

    If the unit of a bar is None, its counts are not shown, only the times that follow from them. Counts may be numbers
    of NumPy; those that are not finite count as 0.
    """
    if quiet or not _can_draw(sys.stderr):
        return silent
    return _Bar


@contextlib.contextmanager
def between_bars() -> Iterator[None]:
    """Let the block write lines to standard error; bars are drawn again below them."""
    with _Bar.external_write_mode(sys.stderr):
        if erase := over_echo():
            sys.stderr.write(erase)
        yield


def over_echo() -> str:
    """Return the text that erases ^C or another key that a terminal has echoed; empty if no line can be overwritten."""
    return f"\r{ERASE}" if _can_draw(sys.stderr) else ""


def end_bars(echoed: bool = False) -> None:
    """Erase all bars, so that the next message begins a line; if `echoed`, also a ^C that the terminal has echoed.

    When work ends early, an unfinished generator may still hold a bar.
    """
    for bar in [bar for bar in _Bar._instances if isinstance(bar, _Bar)]:
        bar.close()
    if echoed and _is_terminal(sys.stderr):
        sys.stderr.write(f"\r{ERASE}" if ERASE and _can_draw(sys.stderr) else "\n")
        sys.stderr.flush()


def _is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is an open terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def _can_draw(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal on which a line can be overwritten."""
    return _is_terminal(stream) and (os.name == "nt" or os.environ.get("TERM", "dumb") != "dumb")


def _python_number(number: float) -> float:
    """Return a finite number as a number of Python; 0 for infinity and NaN.

    tqdm computes dates with counts and repeats texts by them, which fails for numbers of NumPy, infinity and NaN.
    """
    number = getattr(number, "item", lambda: number)()
    return number if math.isfinite(number) else 0


class _SlowWatch:
    """A bar that also calls `tell(seconds)`, once, if the rest of the work is slow."""

    def __init__(self, bar: Bar, total: float, tell: Callable[[float], None]) -> None:
        self._bar = bar
        self._total = total
        self._tell = tell
        self._done = 0.0
        #: What was done at the first update, and when.
        self._first: tuple[float, float] | None = None
        self._measured = False

    def update(self, n: float = 1, **facts: object) -> None:
        self._bar.update(n, **facts)
        self._done += n
        now = time.monotonic()
        # Measuring begins after the first update, which may stand for steps of an earlier run, or for compiling.
        self._first = self._first or (self._done, now)
        first_done, began = self._first
        if self._measured or now - began < MEASURED or self._done == first_done:
            return
        self._measured = True
        seconds = (self._total - self._done) * (now - began) / (self._done - first_done)
        if seconds >= SLOW:
            self._tell(seconds)


def tell_if_slow(progress: Progress, watched: str, tell: Callable[[float], None]) -> Progress:
    """Return a `progress` that also calls `tell(seconds)`, once, if the rest of the work labelled `watched` is slow."""

    @contextlib.contextmanager
    def show(label: str, total: float | None = None, unit: str | None = "it") -> Iterator[Bar]:
        with progress(label, total, unit) as bar:
            yield _SlowWatch(bar, total, tell) if total and label == watched else bar

    return show
