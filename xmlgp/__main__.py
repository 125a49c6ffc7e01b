"""Runs the command line as `python -m xmlgp`, and as `xmlgp`."""

import gc
import signal

from xmlgp.cli import main

__all__ = ["run"]


def run() -> None:
    """Run a command and end the process."""
    try:
        _run()
    except KeyboardInterrupt:
        # Ctrl-C again, after the command has ended.
        raise SystemExit(128 + signal.SIGINT) from None


def _run() -> None:
    try:
        main(prog_name="xmlgp")
    finally:
        # While Python waits for threads, it would print a traceback at Ctrl-C.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Python would look for garbage among all objects before it ends: 0.15 s.
        gc.freeze()


if __name__ == "__main__":
    run()
