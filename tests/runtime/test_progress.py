"""Progress bars: drawn on standard error, only if it is a terminal."""

import io
import sys
import time
from types import SimpleNamespace

import pytest

from xmlgp.runtime import progress as module
from xmlgp.runtime.progress import silent, tell_if_slow, terminal_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def work(progress):
    with progress("work", total=3, unit="step") as bar:
        bar.update()
        time.sleep(0.15)  # tqdm draws every tenth of a second
        bar.update(2, bound="-7.5")


@pytest.mark.parametrize("progress", [lambda: silent, terminal_progress])
def test_nothing_is_drawn_if_standard_error_is_not_a_terminal(capsys, progress):
    work(progress())
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_label_count_and_facts(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    work(terminal_progress(quiet=True))
    assert sys.stderr.getvalue() == ""
    work(terminal_progress())
    assert capsys.readouterr().out == ""
    drawn = sys.stderr.getvalue()
    assert "work" in drawn
    assert "3/3" in drawn
    assert "bound=-7.5" in drawn
    assert drawn.split("\r")[-2].isspace(), "the bar is cleared at the end"


def test_counts_without_a_unit_are_not_shown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with terminal_progress()("work", total=12.5, unit=None) as bar:
        time.sleep(0.15)
        bar.update(2.5, bound="-7.5")
        drawn = sys.stderr.getvalue()
    assert " 20%|" in drawn
    assert "bound=-7.5" in drawn
    assert "2.5/" not in drawn


@pytest.mark.parametrize(("total", "told"), [(100, [192.0]), (90, [])])
def test_a_slow_rest_is_told_once_and_by_the_speed_after_the_first_step(monkeypatch, total, told):
    clock, found = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    progress = tell_if_slow(silent, "train", found.append)
    for label in "preprocess", "train":
        with progress(label, total=total) as bar:
            for seconds in (1000, 2, 2, 2, 2):
                clock.now += seconds
                bar.update()
    assert found == told
