"""The log of a command on standard error: lines of text for people, or an object of JSON a line for programs.

A command chooses the form once, by `use_log`, because everything in the process writes to the same stream. `xmlgp
serve`, whose log nothing may wait for, has writers of its own with the same keys (`stamped`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from numbers import Real
from types import TracebackType
from typing import ClassVar

from xmlgp.runtime.untrusted_text import escape_undecodable

__all__ = [
    "LOGS",
    "JsonProgress",
    "WARNING",
    "end_work",
    "is_json",
    "level_and_message",
    "log_libraries",
    "stamped",
    "use_log",
    "write_json",
]

#: The forms of a log.
LOGS = ("text", "json")

#: The beginning of a message that is a warning.
WARNING = "warning: "

#: Seconds between two lines on a piece of work: at first the least, then a share of the time since its beginning, until
#: that is the most. A day of work has some 2,000 lines.
LEAST_PAUSE = 1.0
PAUSE = 0.01
MOST_PAUSE = 60.0

#: Digits after the decimal point of what is done of a total, which may be a share.
DIGITS = 6


class _state:
    #: The form of the log of this process.
    form = "text"


#: Reentrant, because a generator that holds a piece of work may be collected while a line is written.
_lock = threading.RLock()


def use_log(form: str) -> None:
    """Let errors of this process be written in a form, one of `LOGS`."""
    _state.form = form


def is_json() -> bool:
    """Return whether the log of this process is JSON."""
    return _state.form == "json"


def stamped(form: str, **facts: object) -> str:
    """Return facts as a line of text, or of JSON if that is the form, with the time."""
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    facts = {"time": now, **facts}
    if form == "json":
        return json.dumps(_decodable(facts))
    return " ".join(str(fact) for fact in facts.values() if fact is not None)


def _decodable(value: object) -> object:
    """Return a value for JSON without halves of surrogate pairs, as names of files have them: strict readers fail."""
    if isinstance(value, dict):
        return {escape_undecodable(str(name)): _decodable(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_decodable(entry) for entry in value]
    return value if value is None or isinstance(value, int | float) else escape_undecodable(str(value))


def level_and_message(text: str) -> dict[str, str]:
    """Return the level of a message, and its text without the word that says it."""
    return {"level": "warning" if text.startswith(WARNING) else "info", "message": text.removeprefix(WARNING)}


def write_json(**facts: object) -> None:
    """Write facts as a line of JSON on standard error; a line that cannot be written is lost."""
    line = stamped("json", **facts)
    # A full disk, or a reader that has gone, is no reason to fail.
    with contextlib.suppress(OSError, ValueError), _lock:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class JsonProgress:
    """Reports the progress of a piece of work by lines of JSON: its beginning, some lines between, and its end."""

    #: The work that has begun and not ended.
    _open: ClassVar[list[JsonProgress]] = []

    def __init__(self, label: str, total: float | None = None, unit: str | None = "it") -> None:
        self._label = label
        self._total = _finite(total) or None
        self._unit = unit and unit.strip()
        self._done = 0.0
        self._facts: dict[str, object] = {}
        self._began = self._last = time.monotonic()
        #: What was done at the first update, and when: that may stand for the steps of an earlier run.
        self._first: tuple[float, float] | None = None

    def __enter__(self) -> JsonProgress:
        self._write("begin", self._began)
        self._open.append(self)
        return self

    def __exit__(
        self, failure: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end("end" if failure is None else "stop")

    def update(self, n: float = 1, **facts: object) -> None:
        """Advance the work by some units, and keep facts for the next line."""
        now = time.monotonic()
        with _lock:
            self._done += _finite(n) or 0
            self._facts.update(facts)
            self._first = self._first or (self._done, now)
            if now - self._last >= min(max(LEAST_PAUSE, PAUSE * (now - self._began)), MOST_PAUSE):
                self._write("progress", now)

    def end(self, event: str) -> None:
        """Write that the work has ended, or has stopped before its end, unless that is written already."""
        with _lock:
            if self in self._open:
                self._open.remove(self)
                self._write(event, time.monotonic())

    def _write(self, event: str, now: float) -> None:
        self._last = now
        # Counts without a unit mean nothing to a reader, but their share of the total does.
        scale = self._total if self._total and self._unit is None else 1
        write_json(
            level="info",
            event=event,
            label=self._label,
            done=_short(self._done / scale),
            total=None if self._total is None else _short(self._total / scale),
            unit=self._unit,
            seconds=round(now - self._began, 3),
            remaining=self._remaining(now),
            facts={name: _value(fact) for name, fact in self._facts.items()},
        )

    def _remaining(self, now: float) -> float | None:
        """Return the seconds for the rest, by the speed since the first update; None if that is not known."""
        if self._total is None or self._first is None:
            return None
        first_done, since = self._first
        left = max(self._total - self._done, 0)
        if self._done <= first_done:
            return None if left else 0.0
        return round(left * (now - since) / (self._done - first_done), 1)


def end_work() -> None:
    """Write of all work that has not ended that it has stopped, so that an error is the last line."""
    for work in reversed(list(JsonProgress._open)):
        work.end("stop")


class _JsonLines(logging.Handler):
    """Writes what libraries log as lines of JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        write_json(level=record.levelname.lower(), message=self.format(record))


@contextlib.contextmanager
def log_libraries() -> Iterator[None]:
    """Let warnings of Python, and those that libraries log, be lines of JSON in the block."""
    root = logging.getLogger()
    handlers = root.handlers
    root.handlers = [_JsonLines(logging.WARNING)]
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers = handlers


def _finite(number: float | None) -> float | None:
    """Return a finite number as a number of Python; None for infinity and NaN, which JSON does not have."""
    if number is None:
        return None
    # A number of NumPy has `item`.
    number = number.item() if hasattr(number, "item") else number
    return number if math.isfinite(number) else None


def _short(number: float) -> float:
    """Return a number without the digits of rounding errors, and a whole one as an integer."""
    return int(number) if float(number).is_integer() else round(number, DIGITS)


def _value(fact: object) -> object:
    """Return a fact as JSON has it: a text that is a number as that."""
    if isinstance(fact, str):
        with contextlib.suppress(ValueError):
            return _finite(float(fact))
        return fact
    return _finite(float(fact)) if isinstance(fact, Real) and not isinstance(fact, int) else fact
