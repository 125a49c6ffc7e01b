"""Runs commands on pseudo-terminals, each in a fork of one process that has imported and compiled what they need.

For each line of standard input, `[words, columns, typed]`, prints `[status, text]` as JSON: what the command wrote on
the terminal, on which `typed`, a list of what must be on it and what is typed then, came in turn.
"""

import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios

from xmlgp.cli import main

SMALL = ["-P", "3", "--epochs", "2", "--batch-size", "16", "-q"]

WARM = (
    ["train", "data", "rows", *SMALL, "--label-weights"],
    ["train", "train.jsonl", "text", *SMALL],
    ["predict", "-q", "rows", "data", "-k", "all", "-o", "rows.scores"],
)


def command(words):
    """Run a command as `xmlgp` does; return its exit status."""
    try:
        main(words, prog_name="xmlgp")
    except SystemExit as ended:
        return ended.code or 0
    return 1


def on_terminal(words, columns, typed):
    child, terminal = pty.fork()
    if not child:
        status = 1
        try:
            fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            # Those of this process are of pipes.
            sys.stdin = os.fdopen(0, closefd=False)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
            status = command(words)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    text = b""
    typed = list(typed)
    if typed and not typed[0][0]:
        os.write(terminal, typed.pop(0)[1].encode())
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # the command has ended
            piece = b""
        if not piece:
            break
        text += piece
        if typed and re.search(typed[0][0].encode(), text):
            os.write(terminal, typed.pop(0)[1].encode())
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text.decode(errors="replace")


if __name__ == "__main__":
    for words in WARM:
        main(words, standalone_mode=False)
    for line in sys.stdin:
        print(json.dumps(on_terminal(*json.loads(line))), flush=True)
