"""Progress bars: drawn on standard error, only if it is a terminal; tests/terminal has them on real ones."""

import io
from types import SimpleNamespace

import numpy as np
import pytest

from xmlgp.runtime import progress as module
from xmlgp.runtime.progress import between_bars, end_bars, silent, terminal_progress


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def screen(monkeypatch):
    """Let standard error be a terminal, on which every update is drawn; return what is written to it."""
    screen = Screen()
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=screen))
    monkeypatch.setattr(module._Bar, "mininterval", 0, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return screen


@pytest.mark.parametrize("progress", [lambda: silent, terminal_progress, lambda: terminal_progress(quiet=True)])
def test_nothing_is_drawn_if_standard_error_is_not_a_terminal(capsys, progress):
    with progress()("work", total=3, unit=" steps") as bar:
        bar.update(2, bound="-7.5")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("term", ["dumb", None])
def test_a_terminal_that_cannot_overwrite_has_no_bars(screen, monkeypatch, term):
    if term:
        monkeypatch.setenv("TERM", term)
    else:
        monkeypatch.delenv("TERM")
    assert terminal_progress() is silent
    end_bars()
    assert screen.getvalue() == ""


@pytest.mark.parametrize(("total", "unit"), [(np.float32(3), " steps"), (np.int64(3), "B"), (None, None), (3.0, None)])
def test_counts_and_totals_may_be_of_numpy_and_a_label_is_one_line(screen, total, unit):
    with terminal_progress()("a\nlabel", total, unit) as bar:
        bar.update(np.float32(1.5), bound="-7.5")
        bar.update(np.float64(1.6))
    assert r"a\nlabel" in screen.getvalue()
    assert "\n" not in screen.getvalue()


def test_facts_fit_in_80_columns(screen):
    with terminal_progress()("train", 601, " steps") as bar:
        bar.update(468, epoch="47/60", bound="-58280.1")
        bar.refresh()
    assert "epoch=47/60, bound=-58280.1]" in screen.getvalue()


def test_lines_between_bars_stand_alone_and_bars_that_an_error_leaves_are_removed(screen):
    bar = terminal_progress()("work", 3, " steps")
    with between_bars():
        print("a note", file=screen)
    assert "\ra note\n" in screen.getvalue()
    bar.update()
    end_bars()
    assert screen.getvalue().endswith("\r\x1b[K")
