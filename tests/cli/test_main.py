"""The command group: help, version, and how errors of any kind reach the user."""

import errno
import os
import re
import signal
import subprocess
import sys

import click
import pytest

from tests.cli.command import run, said, spawn
from xmlgp import __version__
from xmlgp.cli import COMMANDS, main
from xmlgp.errors import XmlgpError

OPTIONS = [
    pytest.param(name, option, id=f"{name} {option.name}")
    for name in COMMANDS
    for option in main.get_command(None, name).params
    if isinstance(option, click.Option)
]


def understood(line):
    """Parse a command line without running it."""
    program, name, *arguments = line.split()
    assert program == "xmlgp"
    parent = click.Context(main, **main.context_settings)
    return main.get_command(None, name).make_context(name, arguments, parent=parent)


def test_help_lists_every_command_and_a_first_session():
    text = run("--help").stdout
    for name, summary in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", text, re.MULTILINE)
    assert "A first session:" in text
    assert run("-h").stdout == text


def test_every_command_of_the_first_session_is_understood():
    for line in re.findall(r"^ +(xmlgp .*)$", run("--help").stdout, re.MULTILINE):
        understood(line)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_that_is_understood(name):
    result = run(name, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert run(name, "-h").stdout == result.stdout
    _, examples = re.split(r"^ *Examples?:$", result.stdout.partition("Options:")[0], flags=re.MULTILINE)
    commands = [part.strip() for line in examples.splitlines() for part in line.split("|")]
    commands = [command for command in commands if command.startswith("xmlgp ")]
    assert name in [understood(command).info_name for command in commands]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_every_option_has_a_help_text_with_its_default(name, option):
    text, _, default = option.help.partition("  [default: ")
    assert text.endswith(".")
    known = option.get_default(click.Context(main.get_command(None, name)))
    if isinstance(known, str | int | float) and known is not False:
        assert option.show_default or default


def test_version():
    assert run("--version").stdout.split() == ["xmlgp,", "version", __version__]
    assert spawn("-V").stdout.decode().split()[-1] == __version__


def test_wrong_usage():
    assert said(run("brew"), status=2) == "No such command 'brew'."
    assert said(run("--brew"), status=2).startswith("No such option")


@pytest.mark.parametrize("name", ["os", "options", "__init__", "../data/fetch", "fetch.os", "FETCH", ""])
def test_no_module_but_a_subcommand_is_imported(name):
    assert said(run(name), 2).startswith(f"No such command '{name}'.")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (XmlgpError("a sentence"), "a sentence"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a.txt"), "a.txt: No such file or directory"),
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), "a.txt: Permission denied"),
        (OSError(errno.EROFS, "Read-only file system", "a.txt"), "a.txt: Read-only file system"),
        (OSError(errno.ENOSPC, "No space left on device", "a.txt"), "no space left on the disk of a.txt"),
        (OSError(errno.ENOSPC, "No space left on device"), "no space left on the disk of the output"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError("something else"), "something else"),
        (MemoryError(), "there is not enough memory"),
    ],
    ids=repr,
)
def test_errors_are_told_in_one_line(monkeypatch, error, told):
    def fail(path):
        raise error

    monkeypatch.setattr("xmlgp.cli.show.ModelFolder", fail)
    assert said(run("show", "model")) == told


def test_help_is_shown_in_any_locale():
    result = spawn("train", "--help", environment={"PYTHONIOENCODING": "latin-1"})
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"lengthscale ? of" in b" ".join(result.stdout.split())


def test_names_that_are_not_text_are_no_traceback(tmp_path):
    name = os.fsdecode(b"\xff\xfe")
    result = spawn("show", os.path.join(str(tmp_path), name))
    assert result.returncode == 1
    assert b"there is no model here" in result.stderr
    assert b"Traceback" not in result.stderr


def test_help_does_not_wait_for_numpy():
    result = spawn("--help", environment={"PYTHONPROFILEIMPORTTIME": "1"})
    assert b"xmlgp.cli" in result.stderr
    assert b"numpy" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_command_in_one_line_with_the_status_of_shells(tmp_path, number):
    command = [sys.executable, "-m", "xmlgp", "train", "-", str(tmp_path / "model"), "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        # More than a pipe holds: when all is written, reading has begun.
        process.stdin.write(b"1000000 3 4\n" + b"0 1:1\n" * 100_000)
        process.stdin.flush()
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (128 + number, b"", b"interrupted\n")
    assert not (tmp_path / "model").exists()
