"""Starts commands on terminals: `python -m tests.terminal.starter`, for `tests.terminal.session`.

It imports and compiles once what most commands need, and forks for each command, which so starts in a hundredth of the
time. It reads a JSON object a line from standard input: the words of the command, its folder, its environment, and the
path of its terminal, or of two files for its outputs. It writes 0 when it is ready, and then for each command its
process id, and its exit status when it has ended.
"""

import json
import os
import signal
import sys

from tests.cli.command import SMALL, run


def start(order):
    """Run a command in a child process; return its id."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        # A new session has no terminal; the first one that it opens is its own, which sends it signals.
        os.setsid()
        if "terminal" in order:
            streams = [os.open(order["terminal"], os.O_RDWR)] * 3
        else:
            outputs = [os.open(path, os.O_WRONLY | os.O_CREAT) for path in order["outputs"]]
            streams = [os.open(os.devnull, os.O_RDONLY), *outputs]
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate("rww")
        )
        # The default of a command that a shell starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.argv = ["xmlgp", *order["words"]]
        status = _run()
    finally:
        os._exit(status)


def _run():
    """Run the command of `sys.argv`; return its exit status."""
    from xmlgp.__main__ import run as run_command

    try:
        run_command()
    except SystemExit as ended:
        return ended.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    return 0


def warm_up():
    """Import and compile what commands need: train the models that tests use."""
    run("train", "data", "rows", *SMALL, "--label-weights", "-q")
    run("train", "train.jsonl", "text", *SMALL, "--label-weights", "-q")
    run("train", "data", "topics", "--model", "bmlpl", "--topics", "4", "--iterations", "4", "-q")
    run("predict", "-q", "rows", "data", "-k", "all", "-o", "rows.scores")


if __name__ == "__main__":
    warm_up()
    print(0, flush=True)
    for line in sys.stdin:
        child = start(json.loads(line))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
