"""Runs the command line as `python -m xmlgp`, and as `xmlgp`."""

import signal

__all__ = ["run"]


def run() -> None:
    """Run a command and end the process."""
    try:
        _run()
    except KeyboardInterrupt:
        # Ctrl-C again, after the command has ended.
        raise SystemExit(128 + signal.SIGINT) from None


def _run() -> None:
    # While Python imports the command line, it would print a traceback at Ctrl-C.
    _leave_to_system()
    from xmlgp.cli import main  # noqa: PLC0415, which takes a tenth of a second

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main(prog_name="xmlgp")
    finally:
        # While Python waits for threads, it would print a traceback at Ctrl-C.
        _leave_to_system()


def _leave_to_system() -> None:
    """Let Ctrl-C end the process at once and silently, unless the process ignores it, as in the background."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    run()
