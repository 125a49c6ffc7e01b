"""Progress: a bar on standard error if it is a terminal, and lines otherwise; tests/terminal has real terminals."""

import io
import os
from types import SimpleNamespace

import pytest

from xmlgp.runtime import progress as module
from xmlgp.runtime.progress import Progress, between_bars, end_bars, silent


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal
        self.fileno = lambda: 2


def show(monkeypatch, is_terminal):
    """Let standard error be a terminal or not, and be written often; return what is written, and a way to wait."""
    stream = Stream(is_terminal)
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(module.os, "get_terminal_size", lambda number: os.terminal_size((80, 30)))
    monkeypatch.setattr(module, "DRAW_SECONDS", 0.001)
    monkeypatch.setattr(module, "LINE_SECONDS", 0.001)
    monkeypatch.setenv("TERM", "xterm")

    def wait_for(text):
        for _ in range(10_000):
            if text in stream.getvalue():
                return
            module.threading.Event().wait(0.001)
        raise AssertionError(f"{text!r} does not come: {stream.getvalue()[-300:]!r}")

    return stream, wait_for


def test_quiet_work_shows_nothing(monkeypatch):
    stream, _ = show(monkeypatch, True)
    for progress in silent, Progress(is_shown=False):
        with progress("work"):
            progress.plan(lambda phase, share: (1.0, 4.0))
            progress.at("a phase", 0.5)
            module.threading.Event().wait(0.02)
    assert stream.getvalue() == ""


def test_short_work_shows_nothing(capsys):
    with Progress(is_shown=True)("work"):
        pass
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_long_work_without_reports_shows_what_is_done_and_what_is_left(monkeypatch, is_terminal):
    stream, wait_for = show(monkeypatch, is_terminal)
    progress = Progress(is_shown=True)
    with progress("training"):
        wait_for("training 00:00")
        with progress("reading a\nfile"):
            wait_for(r"training: reading a\nfile 00:00")
        places = []
        progress.plan(lambda *place: places.append(place) or (25.0, 100.0))
        progress.at("steps", 0.25)
        wait_for("training: steps  25 %|" if is_terminal else "training: steps, 25 %, about 01:15 left\n")
        wait_for("about 01:15 left")
    assert ("steps", 0.25) in places
    text = stream.getvalue()
    assert is_terminal == ("\n" not in text)
    assert text.endswith(module.ERASE if is_terminal else " left\n")
    assert max(map(len, text.replace("\n", module.ERASE).split(module.ERASE))) <= 78


@pytest.mark.parametrize("term", ["dumb", None])
def test_a_terminal_that_cannot_overwrite_has_lines(monkeypatch, term):
    stream, wait_for = show(monkeypatch, True)
    if term:
        monkeypatch.setenv("TERM", term)
    else:
        monkeypatch.delenv("TERM")
    with Progress(is_shown=True)("work"):
        wait_for("work 00:00\n")
    assert set(stream.getvalue().split("\n")) == {"work 00:00", ""}


def test_lines_between_bars_stand_alone_and_bars_that_an_error_leaves_are_removed(monkeypatch):
    stream, wait_for = show(monkeypatch, True)
    work = Progress(is_shown=True)("work")
    work.__enter__()
    wait_for("work 00:00")
    with between_bars():
        print("a note", file=stream)
    assert f"{module.ERASE}a note\n" in stream.getvalue()
    end_bars()
    ended = stream.getvalue()
    assert ended.endswith(module.ERASE)
    module.threading.Event().wait(0.02)
    assert stream.getvalue() == ended


def test_a_log_that_is_closed_is_no_error(monkeypatch):
    stream, wait_for = show(monkeypatch, False)
    with Progress(is_shown=True)("work"):
        wait_for("work")
        stream.close()
        module.threading.Event().wait(0.02)
    assert stream.closed
