"""The command group: help, version and error messages."""

import errno
import gc
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from tests.cli.command import run, said, spawn
from xmlgp import __main__ as program
from xmlgp import __version__
from xmlgp.cli import COMMANDS, main
from xmlgp.cli.options import show_note
from xmlgp.runtime.errors import XmlgpError


def test_threads_limit_every_command_that_computes(workdir, monkeypatch):
    def no_other_limit():
        raise AssertionError("a command asked for all cores")

    monkeypatch.setattr("xmlgp.runtime.threads._all_cores", no_other_limit)
    for command in (
        "preprocess data model -M 5 --inducing free",
        "train data model -M 5 --inducing free --epochs 1",
        "learn model data/test.txt",
        "predict model data -k 2 -o scores",
        "report model data",
    ):
        result = run(*command.split(), "--threads", "2")
        assert result.exit_code == 0, result.stderr


def test_version_option_prints_the_version():
    assert run("--version").stdout.split() == ["xmlgp,", "version", __version__]


def test_wrong_usage_that_the_library_finds_shows_the_usage_of_the_command():
    assert "Usage: main learn " in run("learn", "model").stderr


@pytest.mark.parametrize("name", ["options", "__init__", "../data/fetch", "FETCH", ""])
def test_only_subcommands_can_be_called(name):
    assert said(run(name), 2).startswith(f"No such command '{name}'.")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (XmlgpError("a sentence"), "a sentence"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a.txt"), "a.txt: No such file or directory"),
        (OSError(errno.ENOSPC, "No space left on device", "a.txt"), "no space left on the disk of a.txt"),
        (OSError(errno.ENOSPC, "No space left on device"), "no space left on the disk of the output"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError("something else"), "something else"),
        (MemoryError(), "there is not enough memory"),
    ],
    ids=repr,
)
def test_errors_are_reported_in_one_line(monkeypatch, error, message):
    def fail(path):
        raise error

    monkeypatch.setattr("xmlgp.cli.show._run", fail)
    assert said(run("show", "model")) == message


def test_what_is_no_error_is_a_note_or_a_warning(capsys):
    for text in "model: trained", "Warning: words.nt: no concept", "[low, high] are `out=FILE`":
        show_note(text)
    assert capsys.readouterr().err.splitlines() == [
        "Note: model: trained", "Warning: words.nt: no concept", "Note: [low, high] are --out FILE"
    ]  # fmt: skip


def test_file_names_that_are_not_utf8_cause_no_traceback(tmp_path):
    name = os.fsdecode(b"\xff\xfe")
    result = spawn("show", os.path.join(str(tmp_path), name))
    assert result.returncode == 1
    assert b"there is no such folder" in result.stderr
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_at_most_forty_lines_of_80_columns(name):
    assert len(CliRunner().invoke(main, [name, "--help"], terminal_width=80).stdout.splitlines()) <= 40


def test_help_all_has_the_notes_that_help_leaves_out():
    for arguments, is_there in (["--help"], False), (["--help-all"], True):
        assert ("More examples:" in run("predict", *arguments).stdout) == is_there
    assert "--with-std" in run("predict", "--help-all").stdout


def test_help_does_not_import_numpy():
    result = spawn("--help", environment={"PYTHONPROFILEIMPORTTIME": "1"})
    assert b"xmlgp.cli" in result.stderr
    assert b"numpy" not in result.stderr


def test_a_signal_while_the_program_starts_prints_no_traceback():
    code = """if True:
        import os, signal, sys

        class Interrupting:
            def find_spec(name, path=None, target=None):
                if name == "xmlgp.cli":
                    os.kill(os.getpid(), signal.SIGINT)

        sys.meta_path.insert(0, Interrupting)
        from xmlgp.__main__ import run

        run()
    """
    result = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, check=False, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGINT, b"", b"")


def test_a_signal_after_the_command_prints_no_traceback():
    code = """if True:
        import os, signal, threading
        from xmlgp.__main__ import run

        def interrupt():
            threading.main_thread().join()
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(60)

        threading.Thread(target=interrupt).start()
        run()
    """
    result = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (-signal.SIGINT, b"")
    assert result.stdout.startswith(b"xmlgp")


def test_signals_end_a_command_with_one_line_and_status_128_plus_number(tmp_path):
    number = signal.SIGTERM
    command = [sys.executable, "-m", "xmlgp", "train", "-", str(tmp_path / "model"), "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        # This is more than a pipe holds, so the command is reading when the write returns.
        process.stdin.write(b"1000000 3 4\n" + b"0 1:1\n" * 100_000)
        process.stdin.flush()
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (128 + number, b"", b"Note: interrupted\n")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["show", "a\nb"], r"a\nb: there is no model here (no model.json)"),
        (["train", "a\x1b[31m\n\u202e", "m"], r"a\u001b[31m\n\u202e: No such file or directory"),
        (["train", "a\nb.txt", "m"], r"a\nb.txt:2: '1:x' is not a feature:value pair"),
        (["train", "a", "m", "--model", "a\nb"], r"Invalid value for '--model': 'a\nb' is not one of"),
    ],
)
def test_messages_are_one_line_whatever_paths_are(command, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a\nb.txt").write_text("1 5 3\n0 1:x\n")
    (tmp_path / "a\nb").mkdir()
    result = run(*command)
    assert said(result, result.exit_code).startswith(message)


def test_garbage_is_collected_once_a_command_is_imported():
    assert isinstance(main.get_command(None, "show"), click.Command)
    assert gc.isenabled()


@pytest.mark.parametrize("library", [SimpleNamespace(mallopt=lambda *_: 1), SimpleNamespace()])
def test_memory_that_was_freed_is_kept_where_malloc_can(monkeypatch, library):
    calls = []
    if hasattr(library, "mallopt"):
        monkeypatch.setattr(library, "mallopt", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(program.ctypes, "CDLL", lambda name: library)
    program._keep_freed_memory()
    # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
    assert calls == ([(-1, 2**26), (-3, 2**23)] if hasattr(library, "mallopt") else [])
