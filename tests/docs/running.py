"""Running the examples of a page in order, and comparing what they print with what the page shows."""

import contextlib
import io
import itertools
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from click.testing import CliRunner

from tests.docs.pages import ROOT, blocks_of, commands_of
from xmlgp.cli import main

#: Numbers differ from machine to machine: times always, and results in their last digits.
NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

TIME = re.compile(r"\d+\.\d+ s\b")

#: How far scores, measures and bounds, which have a decimal point, may be from what a page shows.
RELATIVE, ABSOLUTE = 0.02, 0.001

#: Nothing listens here, so an example that needs a network fails.
NOWHERE = "http://127.0.0.1:9"

#: The status of a command whose reader, such as `head`, has seen enough.
PIPE_CLOSED = 141

#: Commands whose result several pages start from, with the folder that they make: they run once.
SHARED = re.compile(r"xmlgp fetch (?:--quiet )?toy|xmlgp train (?:.* )?data/toy (?P<model>models/\S+)(?: .*)?")

#: A command that needs no shell.
PLAIN = re.compile(r"xmlgp [^|&;<>$*]*")


class Shown(NamedTuple):
    """A command of a console block: what the page shows below it, and what it prints."""

    line: int
    command: str
    expected: str
    printed: str


def make_environment(folder):
    """Return the variables of examples: `xmlgp` is this checkout, the cache is empty, and there is no network."""
    command = folder / "xmlgp"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m xmlgp "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(folder), os.path.dirname(sys.executable), os.environ["PATH"]])
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
    return proxies | {"PATH": path, "PYTHONPATH": str(ROOT), "XMLGP_CACHE_DIR": str(folder / "cache")}


def run_page(text, folder, environment, shared):
    """Run the examples of a page in an empty folder, and yield each command whose output the page shows (`Shown`).

    The environment is that of `make_environment`; the folder `shared` keeps results that several pages start from.
    """
    # Files of examples, by the names that they have in a checkout.
    (folder / "docs").symlink_to(ROOT / "docs")
    blocks = [block for block in blocks_of(text) if not block.reason]
    for block in blocks:
        if block.language == "python":
            _run_python(block, folder, environment)
            continue
        for command, expected in zip(commands_of(block), _outputs_of(block), strict=False):
            printed = _run_shell(command, folder, environment, shared)
            if expected is not None:
                yield Shown(block.line, command, expected, printed)


def is_as_shown(shown):
    """Return whether a command prints what the page shows below it, except for integers and times."""
    if _without_numbers(shown.printed) != _without_numbers(shown.expected):
        return False
    pairs = zip(*(NUMBER.findall(TIME.sub("#", text)) for text in (shown.printed, shown.expected)), strict=True)
    return all(
        math.isclose(*(float(number.replace("−", "-")) for number in pair), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        for pair in pairs
        if "." in "".join(pair)
    )


def _without_numbers(text):
    """Return the lines of an output with # for each number, and one blank for several."""
    return [re.sub(r"\s+", " ", NUMBER.sub("#", line)).strip() for line in text.splitlines()]


def _outputs_of(block):
    """Return what follows each command of a console block, or None for each command of another block."""
    if block.language != "console":
        return itertools.repeat(None)
    return [part.partition("\n")[2] for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]]


def _run_shell(command, folder, environment, shared):
    """Run a shell command that must succeed, or copy the result of an earlier run, and return what it prints."""
    match = SHARED.fullmatch(command)
    kept = shared / re.sub(r"\W+", "-", command)
    product = Path((match["model"] or "data/toy") if match else ".")
    if match and kept.exists() and not (folder / product).exists():
        shutil.copytree(kept / "product", folder / product)
        return (kept / "printed").read_text(encoding="utf-8")
    if PLAIN.fullmatch(command):
        status, printed = _run_within(command, folder, environment)
    else:
        status, printed = _run_process(command, folder, environment)
    assert status in (0, PIPE_CLOSED), f"{command}\n{printed}"
    if match and not kept.exists():
        shutil.copytree(folder / product, kept / "product")
        (kept / "printed").write_text(printed, encoding="utf-8")
    return printed


def _run_within(command, folder, environment):
    """Run `xmlgp` in this process, which is faster than a process for each of some fifty commands."""
    with _working_in(folder):
        result = CliRunner().invoke(main, shlex.split(command)[1:], env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def _run_process(command, folder, environment):
    """Run a shell command and return its status and what it prints, as a terminal would show it."""
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout


def _run_python(block, folder, environment):
    """Run a block in a namespace of its own, within this process; it may start `xmlgp`."""
    with _working_in(folder), contextlib.redirect_stdout(io.StringIO()), mock.patch.dict(os.environ, environment):
        exec(compile(block.code, f"line {block.line}", "exec"), {"__name__": "__main__"})


@contextlib.contextmanager
def _working_in(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
