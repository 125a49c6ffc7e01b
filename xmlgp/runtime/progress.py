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

#: Layouts of tqdm for a known and for an unknown total, the fullest first. A bar has the first one that fits, with at
#: least ten columns for `{bar}`; the last one is cut off.
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

#: The same without counts.
TIMES = {True: ("{l_bar}{bar}| {elapsed}<{remaining}{postfix}", *LAYOUTS[True][2:]), False: ("{desc}",)}

#: Columns of a terminal that does not know its width.
COLUMNS = 79

#: Columns that stay free: a ^C that is echoed while a bar is written would let it wrap, and its first line stay.
ECHOED = 2

#: Erases the terminal from the cursor to the end: also the rest of a bar that was wrapped when the window got narrower.
ERASE = "" if os.name == "nt" else "\x1b[J"

#: Seconds that the rest of a slow training takes at least.
SLOW = 180

#: Seconds in which the speed of a training is measured.
MEASURED = 5


class Bar(Protocol):
    """The progress of one piece of work."""

    def update(self, n: float = 1, **facts: object) -> object:
        """Advance the bar by some units, and show facts at its end."""


class Progress(Protocol):
    """What shows the progress of long work: the type of the parameter `progress` of library functions."""

    def __call__(self, label: str, total: float | None = None, unit: str | None = "it") -> AbstractContextManager[Bar]:
        """Show a bar with a label until the block ends."""


class _NoBar:
    def update(self, n: float = 1, **facts: object) -> None:
        pass


@contextlib.contextmanager
def silent(label: str, total: float | None = None, unit: str | None = "it") -> Iterator[Bar]:
    """Show nothing; the default `progress` of every library function."""
    yield _NoBar()


def ignore(text: str) -> None:
    """Take no notice of a message; the default `note` of every library function."""


class Reporter(NamedTuple):
    """What hears of long work: the progress of each piece of it, and messages."""

    progress: Progress = silent
    note: Callable[[str], object] = ignore

    @classmethod
    def of(cls, progress: Progress | None, note: Callable[[str], object] | None) -> Reporter:
        """Return the reporter of optional arguments: without them, nobody hears."""
        return cls(progress or silent, note or ignore)


#: Nobody hears.
QUIET = Reporter()


class _Bar(tqdm):  # type: ignore[type-arg]  # it cannot be subscripted at run time
    """A bar that fits its terminal, also when the window changes, and of which nothing stays at the end."""

    #: tqdm would start a thread that draws bars anew, and wait for it at exit. With one check of the clock for each
    #: update it is not needed.
    monitor_interval = 0

    _instances: ClassVar[WeakSet[object]]

    #: Only threads of this process draw; a lock of tqdm's own would also hold other processes up.
    _lock = threading.RLock()

    def __init__(self, label: str, total: float | None = None, unit: str | None = "it") -> None:
        total = _python_number(total or 0) or None
        self._layouts = (LAYOUTS if unit else TIMES)[total is not None]
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
        # A bar would stand still for as long as the clock of the machine is set back.
        self._time = time.monotonic
        self.last_print_t = self.start_t = self._time()

    def update(self, n: float | None = 1, **facts: object) -> bool | None:
        """Advance the bar by some units, and show facts at its end."""
        if facts:
            self.set_postfix(facts, refresh=False)
        count = _python_number(n or 0)
        # Sums of shares may exceed 1 by a rounding error, of which tqdm would warn.
        return super().update(count if self.total is None else min(count, self.total - self.n))

    @staticmethod
    def status_printer(file: TextIO) -> Callable[[str], None]:  # type: ignore[override]  # always standard error
        """Return the function that draws; it leaves the cursor where the next text overwrites the bar.

        What a terminal echoes, such as ^C, is overwritten too.
        """
        if not ERASE:
            return tqdm.status_printer(file)

        def draw(text: str) -> None:
            file.write(f"\r{text}{ERASE}\r")
            file.flush()

        return draw

    def __str__(self) -> str:
        facts = dict(self.format_dict)
        # tqdm takes one column off. Some pseudo-terminals have 0 columns.
        columns = COLUMNS if facts["ncols"] is None or facts["ncols"] < 0 else max(facts["ncols"] - ECHOED, 1)
        for layout in self._layouts:
            facts |= {"bar_format": layout, "ncols": None}
            if disp_len(self.format_meter(**facts)) <= columns:
                break
        return self.format_meter(**facts | {"ncols": columns})


def terminal_progress(quiet: bool = False) -> Progress:
    """Return a `progress` that draws bars on standard error if that is a terminal, unless `quiet`.

    With the unit None, counts stand for time and are not shown themselves. Counts may be numbers of NumPy; those that
    are not finite count as 0.
    """
    if quiet or not _draws(sys.stderr):
        return silent
    return _Bar


@contextlib.contextmanager
def between_bars() -> Iterator[None]:
    """Let the block write lines to standard error; bars are drawn again below them."""
    with _Bar.external_write_mode(sys.stderr):
        if over := over_echo():
            sys.stderr.write(over)
        yield


def over_echo() -> str:
    """Return what overwrites ^C or another key that a terminal has echoed on standard error; nothing elsewhere."""
    return f"\r{ERASE}" if _draws(sys.stderr) else ""


def end_bars(echoed: bool = False) -> None:
    """Remove all bars, so that the next message begins a line; with `echoed`, also the ^C that a terminal shows.

    When work ends early, Python may still hold what draws a bar.
    """
    for bar in [bar for bar in _Bar._instances if isinstance(bar, _Bar)]:
        bar.close()
    if echoed and _is_terminal(sys.stderr):
        sys.stderr.write(f"\r{ERASE}" if ERASE and _draws(sys.stderr) else "\n")
        sys.stderr.flush()


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _draws(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal on which a line can be overwritten."""
    return _is_terminal(stream) and (os.name == "nt" or os.environ.get("TERM", "dumb") != "dumb")


def _python_number(number: float) -> float:
    """Return a finite number as a number of Python, and 0 for another one.

    tqdm computes dates and repetitions with it, and fails for those of NumPy, for infinity and for NaN.
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
        self._first: tuple[float, float] | None = None
        self._measured = False

    def update(self, n: float = 1, **facts: object) -> None:
        self._bar.update(n, **facts)
        self._done += n
        now = time.monotonic()
        # The first update may stand for steps of an earlier run, or for compiling.
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
