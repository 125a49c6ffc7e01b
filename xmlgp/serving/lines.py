"""Lines on standard error that nothing waits for: if they cannot be written, they are dropped and counted."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading

from xmlgp.runtime.logs import stamped
from xmlgp.runtime.progress import over_echo

__all__ = ["finish_lines", "write_line", "write_text"]

#: Most lines that wait to be read.
WAITING = 10_000

#: Seconds that lines still have when the process ends.
PATIENCE = 1.0


class _Writer:
    """Writes lines on a thread of its own, which may wait for a reader without end."""

    def __init__(self) -> None:
        #: Lines with their form, and an event that is set when all lines before it are written.
        self._lines: queue.Queue[tuple[str, str] | threading.Event] = queue.Queue(WAITING)
        self._dropped = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, line: str, form: str = "text") -> None:
        """Let a line be written soon, or drop it."""
        try:
            self._lines.put_nowait((line, form))
        except queue.Full:
            with self._lock:
                self._dropped += 1
        if self._thread is None:
            with self._lock:
                # With the first line: not every process that imports this serves.
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="xmlgp-lines", daemon=True)
                    self._thread.start()

    def finish(self, seconds: float) -> None:
        """Wait until all lines are written, but not longer than some seconds."""
        written = threading.Event()
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(written)
            if self._thread:
                written.wait(seconds)

    def _run(self) -> None:
        while True:
            waiting = self._lines.get()
            if isinstance(waiting, threading.Event):
                waiting.set()
                continue
            line, form = waiting
            written = _write(line)
            with self._lock:
                dropped = self._dropped + (not written)
                self._dropped = 0 if written else dropped
            if written and dropped:
                text = f"{dropped} lines of this log were dropped, because they could not be written"
                _write(stamped(form, level="warning", message=text))


_writer = _Writer()


def write_text(text: str) -> None:
    """Write a line on standard error, in its turn and without waiting for it."""
    _writer.put(text)


def write_line(form: str, **facts: object) -> None:
    """Write facts as a line of text, or of JSON if that is the form, with the time."""
    _writer.put(stamped(form, **facts), form)


def finish_lines() -> None:
    """Give the lines that wait a moment to be written, at the end of the process."""
    _writer.finish(PATIENCE)


def _write(line: str) -> bool:
    """Write a line; return whether that was possible: a full disk, or a reader that has gone, is no reason to fail."""
    content = f"{over_echo()}{line}\n".encode(errors="backslashreplace")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # Not by sys.stderr: at its end Python waits for whoever is writing there.
        descriptor = sys.stderr.fileno()
        while content:
            content = content[os.write(descriptor, content) :]
    return not content
