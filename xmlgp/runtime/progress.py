"""Progress of long work: the library reports it, the command line shows it on a terminal.

Library functions take `progress=silent` and know neither terminals nor options.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol
from weakref import WeakSet

from tqdm import tqdm

from xmlgp.runtime.untrusted_text import visible

__all__ = ["QUIET", "Bar", "Progress", "Reporter", "between_bars", "end_bars", "ignore", "silent", "terminal_progress"]

#: Layouts of tqdm for bars whose counts mean nothing to a reader, by whether the total is known.
TIME_LAYOUTS = {True: "{l_bar}{bar}| {elapsed}<{remaining}{postfix}", False: "{desc}"}

#: The layout of bars with counts and facts, which have no room for the rate beside them in 80 columns.
FACTS_LAYOUT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"

#: The width of a bar in columns if the terminal does not report its own.
COLUMNS = 79


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

    def about(self, subject: object) -> Reporter:
        """Return the same with messages that begin with what they are about, such as a model folder."""
        return Reporter(self.progress, lambda text: self.note(f"{subject}: {text}"))


#: Reports nothing.
QUIET = Reporter()


class _Bar(tqdm):  # type: ignore[type-arg]  # it cannot be subscripted at run time
    """A bar on standard error that fits its terminal, and that is erased at the end."""

    #: No monitor thread: tqdm would wait for it at exit.
    monitor_interval = 0

    _instances: ClassVar[WeakSet[object]]

    def __init__(self, label: str, total: float | None = None, unit: str | None = "it") -> None:
        super().__init__(
            desc=visible(label),
            total=total,
            unit=unit or "it",
            unit_scale=unit == "B",
            file=sys.stderr,
            leave=False,
            dynamic_ncols=True,
            miniters=0,
            bar_format=None if unit else TIME_LAYOUTS[bool(total)],
        )

    @property
    def format_dict(self) -> dict[str, Any]:
        """What a drawn bar consists of, with room for a ^C that the terminal echoes, which would wrap it."""
        facts = super().format_dict
        return {**facts, "ncols": max((facts["ncols"] or COLUMNS) - 2, 1)}

    def update(self, n: float | None = 1, **facts: object) -> bool | None:
        """Advance the bar by some units, and show facts at its end."""
        if facts:
            self.set_postfix(facts, refresh=False)
            self.bar_format = self.bar_format or FACTS_LAYOUT
        # Fractions of a total of 1 may add up to more by a rounding error, and tqdm would warn of it.
        return super().update(min(n or 0, (self.total or math.inf) - self.n))


def terminal_progress(quiet: bool = False) -> Progress:
    """Return a `progress` that draws bars on standard error if that is a terminal, unless `quiet`.

    If the unit of a bar is None, its counts are not shown, only the times that follow from them.
    """
    return silent if quiet or not _can_draw() else _Bar


@contextlib.contextmanager
def between_bars() -> Iterator[None]:
    """Let the block write lines to standard error; bars are drawn again below them."""
    with _Bar.external_write_mode(sys.stderr):
        yield


def end_bars() -> None:
    """Erase all bars, and a ^C that the terminal has echoed, so that the next message begins a line.

    When work ends early, an unfinished generator may still hold a bar.
    """
    for bar in [bar for bar in _Bar._instances if isinstance(bar, _Bar)]:
        bar.close()
    if _can_draw():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _can_draw() -> bool:
    """Return whether standard error is a terminal on which a line can be overwritten."""
    return sys.stderr.isatty() and (os.name == "nt" or os.environ.get("TERM", "dumb") != "dumb")
