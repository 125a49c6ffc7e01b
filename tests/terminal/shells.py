"""An interactive shell on a pseudo-terminal, in which a person types and presses Tab."""

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte

from tests.terminal.session import PATIENCE, ROOT

__all__ = ["PROMPT", "SHELLS", "Shell"]

#: How each shell starts without the user's files.
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}

#: The size of the terminal.
ROWS, COLUMNS = 60, 100

#: The prompt of all shells.
PROMPT = "next> "

#: What sets it. Zsh would ask whether to use completion functions of folders that others may write to.
SET_PROMPT = {
    "bash": f"PS1='{PROMPT}'",
    "zsh": f"PS1='{PROMPT}'; autoload -Uz compinit; compinit -u -D",
    "fish": f"function fish_prompt; echo -n '{PROMPT}'; end; set -g fish_autosuggestion_enabled 0",
}


class Shell:
    """A shell in a folder, with the xmlgp of this checkout in its PATH; its home is the folder."""

    def __init__(self, name, folder):
        program = folder / "bin" / "xmlgp"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m xmlgp "$@"\n')
        program.chmod(0o755)
        environment = {
            "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "XMLGP_CACHE_DIR": str(folder / "cache"),
            "PYTHONPATH": ROOT,
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
        }
        self.terminal, other = os.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self.process = subprocess.Popen(
            SHELLS[name],
            cwd=folder,
            env=environment,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(other)
        self.type(SET_PROMPT[name] + "\r")
        self.wait_for(lambda lines: lines[-1] == PROMPT.strip())

    @property
    def lines(self):
        """The lines on the screen, up to the last one that is not empty."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip().splitlines() or [""]

    @property
    def line(self):
        """What stands behind the last prompt."""
        lines = [line for line in self._screen.display if line.startswith(PROMPT)]
        return lines[-1].removeprefix(PROMPT).rstrip() if lines else ""

    def type(self, text):
        """Send what a person types."""
        os.write(self.terminal, text.encode())

    def wait_for(self, is_there):
        """Read until the lines on the screen are as a function of them says."""
        end = time.monotonic() + PATIENCE
        while not is_there(self.lines):
            assert time.monotonic() < end, "\n".join(self.lines)
            if select.select([self.terminal], [], [], 0.1)[0]:
                self._stream.feed(os.read(self.terminal, 65536))

    def complete(self, text, whole):
        """Type a text and Tab, and wait until the line is the whole one."""
        self.type(f"{text}\t")
        self.wait_for(lambda lines: self.line == whole)

    def clear(self):
        """Discard the line."""
        self.type("\x15")
        self.wait_for(lambda lines: self.line == "")

    def close(self):
        """End the shell and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        os.close(self.terminal)
