"""A command on a pseudo-terminal: what it writes there, and what a person sees in the end."""

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte

__all__ = ["Process", "Session", "Starter", "seen"]

#: Seconds within which a command must write something or end, also on a machine that does other things.
PATIENCE = 100

#: The project.
ROOT = str(Path(__file__).parents[2])

#: Rows of a terminal on which nothing scrolls away.
ROWS = 200

#: What a bar writes: itself, and an order to erase what is behind it. A second bar also goes to its line and back.
BAR = re.compile(r"\r([^\r\n\x1b]*)\x1b\[J\r?")
SECOND_BAR = re.compile(rf"(?:\r?\n)+{BAR.pattern}(?:\x1b\[A)+")


def seen(text, columns):
    """Return the lines that a terminal shows after a text."""
    screen = pyte.Screen(columns, ROWS)
    pyte.Stream(screen).feed(text)
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return lines


class Starter:
    """Starts commands on terminals, in a folder that has data/ (`tests.terminal.starter`)."""

    def __init__(self, folder):
        command = [sys.executable, "-m", "tests.terminal.starter"]
        # tqdm reads its variables when it is imported: here every update of every bar is drawn.
        environment = os.environ | {"PYTHONPATH": ROOT, "TQDM_MININTERVAL": "0"}
        # Without a buffer, so that `select` sees what there is to read.
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        self._process = subprocess.Popen(command, cwd=folder, env=environment, **pipes)
        # The models are there.
        self._number()

    def start(self, words, folder, environment, **streams):
        """Start a command; return its process id."""
        order = {"words": words, "folder": str(folder), "environment": environment, **streams}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        return self._number()

    def wait(self):
        """Return the exit status of the command that was started last."""
        return self._number()

    def has_ended(self):
        """Return whether the command that was started last has ended."""
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def _number(self):
        assert select.select([self._process.stdout], [], [], PATIENCE)[0], "the command did not end"
        return int(self._process.stdout.readline())

    def close(self):
        """End the process that starts commands."""
        self._process.kill()
        self._process.communicate()


class Process:
    """Starts one command as a shell does, in a process of its own: what starts further processes needs it."""

    def start(self, words, folder, environment, terminal):
        """Start a command; return its process id."""
        command = [sys.executable, "-m", "xmlgp", *words]
        with open(terminal, "r+b", buffering=0) as stream:
            streams = dict.fromkeys(("stdin", "stdout", "stderr"), stream)
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment | {"PYTHONPATH": ROOT, "TQDM_MININTERVAL": "0"},
                start_new_session=True,
                # The terminal sends signals to the session whose terminal it is.
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                **streams,
            )
        return self._process.pid

    def wait(self):
        """Return the exit status of the command."""
        return self._process.wait(PATIENCE)

    def has_ended(self):
        """Return whether the command has ended."""
        return self._process.poll() is not None


class Session:
    """A command on a terminal of its own; `text` is all that it wrote so far."""

    def __init__(self, starter, words, folder, environment, columns):
        self._starter, self.columns, self.folder = starter, columns, folder
        self.text, self.status = "", None
        self._terminal, other = os.openpty()
        # At ^C a terminal drops what it has not shown yet: on a busy machine bars, or what erases them.
        settings = termios.tcgetattr(other)
        settings[3] |= termios.NOFLSH
        termios.tcsetattr(other, termios.TCSANOW, settings)
        self.resize(columns)
        environment = {"TERM": "xterm-256color"} | environment
        self.process = starter.start(words, folder, environment, terminal=os.ttyname(other))
        # The end of the command is the end of what is read only where nothing else has its terminal open.
        self._other = other

    def resize(self, columns):
        """Give the terminal's window another width."""
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def type(self, text):
        """Send what a person types."""
        os.write(self._terminal, text.encode())

    def read_until(self, pattern):
        """Read until a regular expression matches the text, from its start; return the match."""
        end = time.monotonic() + PATIENCE
        while not (match := re.search(pattern, self.text, re.DOTALL)):
            assert time.monotonic() < end, self.text
            assert self._read(0.1) or self.status is None, self.text
        return match

    def read_until_drawn(self, count):
        """Read until so many bars were drawn."""
        end = time.monotonic() + PATIENCE
        while len(self.bars) < count:
            assert time.monotonic() < end, self.text
            self._read(0.1)

    def wait_for_file(self, name):
        """Wait until the command has written a file in its folder."""
        end = time.monotonic() + PATIENCE
        while not (self.folder / name).exists():
            assert time.monotonic() < end, self.text
            self._read(0.1)

    def end(self):
        """Read to the end; return the exit status."""
        end = time.monotonic() + PATIENCE
        while self.status is None:
            assert time.monotonic() < end, self.text
            if not self._read(0.1) and self._starter.has_ended():
                self.status = self._starter.wait()
        while self._read(0):
            pass
        return self.status

    def _read(self, seconds):
        """Read what is there within some seconds; return whether it was anything."""
        if not select.select([self._terminal], [], [], seconds)[0]:
            return False
        self.text += os.read(self._terminal, 1 << 16).decode("utf-8", "replace")
        return True

    def close(self):
        """End the command, if it has not ended, and its terminal."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process, signal.SIGKILL)
            self._starter.wait()
        os.close(self._terminal)
        os.close(self._other)

    @property
    def bars(self):
        """The bars that were drawn."""
        return [bar for bar in BAR.findall(self.text) if bar.strip()]

    @property
    def messages(self):
        """What was written besides bars."""
        text = BAR.sub("", SECOND_BAR.sub("", self.text)).replace("\r\n", "\n")
        return re.sub("^\r+", "", text, flags=re.MULTILINE).splitlines()

    def on_screen(self):
        """Return the lines that a person sees."""
        return seen(self.text, 1000)

    def check(self):
        """Check that no bar is too wide, and that in the end the terminal shows the messages alone."""
        assert "Traceback" not in self.text, self.text
        wide = [bar for bar in self.bars if len(bar) >= self.columns]
        assert wide == []
        expected = "".join(f"{line}\r\n" for line in self.messages)
        # Besides erasing and going up a line, nothing moves the cursor or changes colours.
        assert "\x1b" not in expected, expected
        assert "\r" not in expected.replace("\r\n", ""), expected
        assert seen(self.text, self.columns) == seen(expected, self.columns), repr(self.text)
