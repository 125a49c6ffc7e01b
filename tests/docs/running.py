"""Running the examples of a page in order, and comparing what they print with what the page shows."""

import contextlib
import importlib.util
import io
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
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
SHARED = re.compile(
    r"xmlgp fetch (?:--quiet )?(?P<set>toy|tickets)"
    r"|xmlgp train (?:.* )?data/(?:toy|tickets) (?P<model>models/\S+)(?: .*)?"
)

#: A command that needs no shell.
PLAIN = re.compile(r"xmlgp [^|&;<>$*]*")

#: A server that runs beside the commands after it, until the end of the page. It gets a free port and one worker.
SERVER = re.compile(r"(?P<command>xmlgp serve [^|&;<>$*]*?)(?: --port (?P<port>\d+))? &")

#: What pages use and not every machine has.
PROGRAMS = ("curl", "jq", "openssl")

LISTENING = re.compile(r"^listening on http://127\.0\.0\.1:(?P<port>\d+) .*\n", re.MULTILINE)

#: The port of a server that is given none, and seconds in which one must listen, and end.
PORT, PATIENCE = "8080", 60


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
    proxies |= dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1")
    return proxies | {"PATH": path, "PYTHONPATH": str(ROOT), "XMLGP_CACHE_DIR": str(folder / "cache")}


def missing_for(text):
    """Return a sentence about what the examples of a page need and this machine lacks, or None."""
    commands = [command for block in blocks_of(text) if not block.reason for command in commands_of(block)]
    if any(command.startswith("xmlgp serve ") for command in commands) and not importlib.util.find_spec("uvicorn"):
        return "Uvicorn is not installed: pip install '.[serve]'"
    for program in PROGRAMS:
        if any(re.search(rf"\b{program} ", command) for command in commands) and not shutil.which(program):
            return f"{program} is not installed"
    return None


def run_page(text, folder, environment, shared):
    """Run the examples of a page in an empty folder, and yield each command whose output the page shows (`Shown`).

    The environment is that of `make_environment`; the folder `shared` keeps results that several pages start from.
    """
    # Files of examples, by the names that they have in a checkout.
    (folder / "docs").symlink_to(ROOT / "docs")
    blocks = [block for block in blocks_of(text) if not block.reason]
    with Servers(folder, environment) as servers:
        for block in blocks:
            if block.language == "python":
                _run_python(replace(block, code=servers.with_ports(block.code)), folder, environment)
                continue
            for command, expected in zip(commands_of(block), _outputs_of(block), strict=True):
                printed = servers.start(command) or servers.as_shown(
                    _run_shell(servers.with_ports(command), folder, environment, shared)
                )
                if expected is not None:
                    # A prompt begins on a line of its own.
                    printed += "\n" if printed and not printed.endswith("\n") else ""
                    yield Shown(block.line, command, expected, printed)


class Servers:
    """The servers that a page starts; they end with the block. Each has a free port in place of the one on the page."""

    def __init__(self, folder, environment):
        self._folder, self._environment, self._ports, self._processes = folder, environment, {}, []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE)

    def start(self, command):
        """Return what a server prints until it listens, or None if the command is not one that starts a server."""
        match = SERVER.fullmatch(command)
        if not match:
            return None
        port = match["port"] or PORT
        assert port not in self._ports, f"{command}: the page has a server on this port already"
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {match['command']} --port 0 --workers 1"],
                cwd=self._folder,
                env=os.environ | self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            self._processes.append(process)
            deadline = time.monotonic() + PATIENCE
            while True:
                ended = process.poll() is not None
                printed = os.pread(log.fileno(), 1 << 20, 0).decode()
                if found := LISTENING.search(printed):
                    break
                if ended or time.monotonic() > deadline:
                    raise AssertionError(f"{command}\n{printed}")
                time.sleep(0.05)
        self._ports[port] = found["port"]
        return self.as_shown(printed[: found.end()])

    def with_ports(self, text):
        """Return a text of the page with the ports that its servers have."""
        return _replaced(text, self._ports)

    def as_shown(self, text):
        """Return what something printed, with the ports of the page."""
        return _replaced(text, {port: shown for shown, port in self._ports.items()})


def _replaced(text, ports):
    return re.sub(r"(?<=\b127\.0\.0\.1:)\d+", lambda match: ports.get(match[0], match[0]), text)


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
        return [None] * len(commands_of(block))
    return [part.partition("\n")[2] for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]]


def _run_shell(command, folder, environment, shared):
    """Run a shell command that must succeed, or copy the result of an earlier run, and return what it prints."""
    match = SHARED.fullmatch(command)
    kept = shared / re.sub(r"\W+", "-", command)
    product = Path((match["model"] or f"data/{match['set']}") if match else ".")
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
