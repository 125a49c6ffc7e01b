"""Running the examples of a page in order, and comparing the words that they print with those that the page shows."""

import contextlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from tests.docs.pages import ROOT, blocks_of, commands_of
from xmlgp.cli import main

#: Numbers differ from machine to machine in their last digits.
NUMBER = re.compile(r"[-−]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")

#: Nothing listens here, so an example that needs a network fails.
NOWHERE = "http://127.0.0.1:9"

#: A command that needs no shell.
PLAIN = re.compile(r"xmlgp [^|&;<>$*`]*")

#: The status of a command whose reader, such as `head`, has seen enough.
PIPE_CLOSED = 141


def make_environment(folder):
    """Return the variables of examples: `xmlgp` is this checkout, the cache is empty, and there is no network."""
    command = folder / "xmlgp"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m xmlgp "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(folder), os.path.dirname(sys.executable), os.environ["PATH"]])
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
    return proxies | {"PATH": path, "PYTHONPATH": str(ROOT), "XMLGP_CACHE_DIR": str(folder / "cache")}


def run_page(text, folder, environment):
    """Run the examples of a page in an empty folder, and fail where one fails or prints other words than are shown."""
    # Files of examples, by the names that they have in a checkout.
    (folder / "docs").symlink_to(ROOT / "docs")
    for block in blocks_of(text):
        if block.reason:
            continue
        if block.language == "python":
            _run_python(block, folder, environment)
            continue
        shown = _outputs_of(block)
        for command, expected in zip(commands_of(block), shown, strict=True):
            if command.strip() and not command.startswith("#"):
                status, printed = _run(command, folder, environment)
                assert status in (0, PIPE_CLOSED), f"line {block.line}: {command}\n{printed}"
                if expected is not None:
                    assert words_of(printed) == words_of(expected), f"line {block.line}: {command}\n{printed}"


def words_of(output):
    """Return the lines of an output without bars and blanks at their ends, each number replaced by a sign."""
    lines = (re.sub(r"[ \t█-▏]+", " ", NUMBER.sub("#", line)).rstrip() for line in output.splitlines())
    return [line for line in lines if line]


def _outputs_of(block):
    """Return what a block shows below each of its commands; None in blocks that show none."""
    if block.language != "console":
        return [None] * len(commands_of(block))
    parts = re.split(r"^\$ .*(?:\\\n.*)*\n?", block.code, flags=re.MULTILINE)
    return parts[1:]


def _run(command, folder, environment):
    """Return the status of a shell command, and what it prints."""
    if PLAIN.fullmatch(command):
        with _chdir(folder):
            result = CliRunner().invoke(main, shlex.split(command, comments=True)[1:], env=environment)
        return result.exit_code, result.output
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=os.environ | environment, timeout=100,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


@contextlib.contextmanager
def _chdir(folder):
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_python(block, folder, environment):
    """Run an example of Python as a file of its own, in this process."""
    file = folder / f"example_{block.line}.py"
    file.write_text(block.code)
    spec = importlib.util.spec_from_file_location("__main__", file)
    module = importlib.util.module_from_spec(spec)
    with _chdir(folder), contextlib.redirect_stdout(None):
        before = dict(os.environ)
        os.environ.update(environment)
        try:
            spec.loader.exec_module(module)
        finally:
            os.environ.clear()
            os.environ.update(before)
