"""Progress of long work: the library reports it, the command line shows it on standard error.

Library functions take `progress=silent` and know neither terminals nor options.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from xmlgp.runtime.untrusted_text import fitted, visible

__all__ = ["QUIET", "Progress", "Reporter", "between_bars", "end_bars", "ignore", "silent"]

#: Layouts of a bar, and of a line where there is no terminal.
LAYOUTS = {
    True: "{desc} {percentage:3.0f} %|{bar}| {elapsed}, about {remaining} left",
    False: "{desc}, {percentage:.0f} %, about {remaining} left",
}

#: Seconds from one drawing of a bar to the next, and from one line to the next.
DRAW_SECONDS = 0.2
LINE_SECONDS = 30.0

#: Most columns of a line.
WIDEST = 200

#: Erases the line of a terminal.
ERASE = "\r\x1b[K"


class Progress:
    """Receives how far long work is, and shows it if `is_shown`; the type of the parameter `progress`.

    Work has phases, one after the other. Work that begins within other work is a phase of it.
    """

    def __init__(self, is_shown: bool) -> None:
        self._is_shown = is_shown

    @contextlib.contextmanager
    def __call__(self, title: str) -> Iterator[None]:
        """Show work until the `with` block ends."""
        is_outer = self._is_shown and _work.ended.is_set()
        if is_outer:
            _work.title, _work.estimate, _work.ended = title, None, threading.Event()
        self.at(title)
        if is_outer:
            threading.Thread(target=_show, args=(_work.ended,), daemon=True).start()
        try:
            yield
        finally:
            if is_outer:
                end_bars()

    def plan(self, estimate: Callable[[str, float | None], tuple[float, float] | None]) -> None:
        """Take a function that is called now and then, of a phase and the share of it that is done.

        It returns the seconds that what is done of the work takes, and those of all of it; None if that is unknown.
        """
        if self._is_shown:
            _work.estimate = estimate

    def at(self, phase: str, share: float | None = None) -> None:
        """Take notice that work is in a phase, of which a share is done, if that is known."""
        if self._is_shown:
            _work.place = phase, share


#: Shows nothing; the default `progress` of every library function.
silent = Progress(is_shown=False)


def ignore(text: object) -> None:
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


class _work:
    """The work that is shown."""

    title: str
    place: tuple[str, float | None]
    estimate: Callable[[str, float | None], tuple[float, float] | None] | None
    #: Set where no work is shown.
    ended = threading.Event()
    ended.set()
    #: Of the threads that write.
    lock = threading.RLock()


def _show(ended: threading.Event) -> None:
    """Draw a bar, or write a line, now and then: long computations do not report before they end."""
    # Short commands draw nothing.
    from tqdm import tqdm  # noqa: PLC0415

    began = time.monotonic()
    next_line = LINE_SECONDS
    can_draw = _can_draw()
    # Standard error may be a log on a full disk.
    with contextlib.suppress(OSError, ValueError):
        while not ended.wait(DRAW_SECONDS):
            elapsed = time.monotonic() - began
            phase, share = _work.place
            estimated = _work.estimate and _work.estimate(phase, share)
            if not can_draw and elapsed < next_line:
                continue
            next_line += LINE_SECONDS
            # Room for a ^C that the terminal echoes, which would wrap the bar.
            columns = os.get_terminal_size(sys.stderr.fileno()).columns - 2 if can_draw else WIDEST
            done, total = estimated or (0, 0)
            text = tqdm.format_meter(
                done,
                total,
                elapsed,
                columns,
                visible(phase if phase == _work.title else f"{_work.title}: {phase}"),
                # By it tqdm divides what is left.
                rate=1.0,
                bar_format=LAYOUTS[can_draw] if estimated else "{desc} {elapsed}",
            )
            with _work.lock:
                if not ended.is_set():
                    _erase()
                    print(fitted(text, columns), end="" if can_draw else "\n", file=sys.stderr, flush=True)


@contextlib.contextmanager
def between_bars() -> Iterator[None]:
    """Let the block write lines to standard error; a bar is drawn again below them."""
    with _work.lock:
        _erase()
        yield


def end_bars() -> None:
    """End the bar, and erase it and a ^C that the terminal has echoed, so that the next message begins a line.

    When work ends early, an unfinished generator may still hold it.
    """
    with _work.lock:
        _work.ended.set()
        _erase()


def _erase() -> None:
    if _can_draw():
        sys.stderr.write(ERASE)
        sys.stderr.flush()


def _can_draw() -> bool:
    """Return whether standard error is a terminal on which a line can be overwritten."""
    return sys.stderr.isatty() and (os.name == "nt" or os.environ.get("TERM", "dumb") != "dumb")
