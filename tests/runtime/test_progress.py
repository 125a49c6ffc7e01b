"""Progress bars: drawn on standard error, only if it is a terminal."""

import fcntl
import itertools
import os
import re
import select
import struct
import termios
from types import SimpleNamespace

import numpy as np
import pytest

from xmlgp.runtime import progress as module
from xmlgp.runtime.progress import between_bars, end_bars, silent, tell_if_slow, terminal_progress


class EveryUpdate(module._Bar):
    """A bar that is drawn at every update, not ten times a second."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.mininterval = 0


class Terminal:
    """A pseudo-terminal: `stream` writes to it, and `text` is what was written."""

    def __init__(self):
        self._reader, writer = os.openpty()
        self.stream = os.fdopen(writer, "w", encoding="utf-8")
        self._read = b""
        self.resize(100)

    def resize(self, columns):
        fcntl.ioctl(self._reader, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    @property
    def text(self):
        self.stream.flush()
        while select.select([self._reader], [], [], 0)[0]:
            self._read += os.read(self._reader, 1 << 16)
        return self._read.decode()

    @property
    def bars(self):
        """What was drawn."""
        return re.findall(r"\r([^\r\n]*?)\x1b\[J", self.text)

    def close(self):
        self.stream.close()
        os.close(self._reader)


@pytest.fixture
def terminal(monkeypatch):
    """Let standard error be a terminal, on which every update is drawn; return it."""
    terminal = Terminal()
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=terminal.stream))
    monkeypatch.setattr(module, "_Bar", EveryUpdate)
    monkeypatch.setenv("TERM", "xterm")
    yield terminal
    terminal.close()


def work(progress):
    with progress("work", total=3, unit=" steps") as bar:
        bar.update()
        bar.update(2, bound="-7.5")


@pytest.mark.parametrize("progress", [lambda: silent, terminal_progress])
def test_nothing_is_drawn_if_standard_error_is_not_a_terminal(capsys, progress):
    work(progress())
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_label_count_and_facts(capsys, terminal):
    work(terminal_progress(quiet=True))
    assert terminal.text == ""
    work(terminal_progress())
    assert capsys.readouterr().out == ""
    first, one, three, end = terminal.bars
    assert first.startswith("work:   0%|")
    assert "1/3" in one
    assert "3/3" in three
    assert three.endswith("bound=-7.5]")
    assert end == ""


def test_counts_without_a_unit_are_not_shown(terminal):
    with terminal_progress()("work", total=12.5, unit=None) as bar:
        bar.update(2.5, bound="-7.5")
    _, text, _ = terminal.bars
    assert text.startswith("work:  20%|")
    assert text.endswith("bound=-7.5")
    assert "2.5/" not in text


NUMBERS = [
    np.float32(0.4),
    np.float64(0.4),
    np.int64(0),
    np.array(0.4, np.float16),
    np.nan,
    np.float32(np.inf),
    -np.inf,
]


@pytest.mark.parametrize("unit", [None, " steps"])
@pytest.mark.parametrize("total", [1, np.float32(1), np.int64(3), None, np.inf, np.nan, 0])
@pytest.mark.parametrize("count", NUMBERS, ids=repr)
def test_counts_and_totals_may_be_any_numbers(terminal, count, total, unit):
    with terminal_progress()("work", total=total, unit=unit) as bar:
        # Its later updates draw how much time is left.
        for _ in range(3):
            bar.update(count)
    assert len(terminal.bars) == 5


@pytest.mark.filterwarnings("error")
def test_a_sum_of_shares_ends_at_the_total(terminal):
    with terminal_progress()("work", total=1, unit=None) as bar:
        bar.update(np.float32(0.7))
        bar.update(np.float32(0.3) + np.float32(1e-6))
    assert terminal.bars[-2].startswith("work: 100%|")


def test_a_clock_that_is_set_back_does_not_stop_a_bar(terminal, monkeypatch):
    clock = itertools.count(1e9, -1000)
    monkeypatch.setattr("tqdm.std.time", lambda: next(clock))
    work(terminal_progress())
    assert terminal.bars[-2].startswith("work: 100%|")
    assert "[00:00<00:00" in terminal.bars[-2]


@pytest.mark.parametrize("columns", [0, 2, 20, 30, 40, 60, 100, 300])
@pytest.mark.parametrize("total", [None, 100])
@pytest.mark.parametrize("unit", [None, " documents"])
def test_a_bar_fits_its_terminal_and_shows_how_far_it_is(terminal, columns, total, unit):
    terminal.resize(columns)
    with terminal_progress()("reading a/long/path/of/documents.jsonl", total=total, unit=unit) as bar:
        bar.update(40, bound="-7.5")
    text = terminal.bars[1]
    # A terminal of no columns does not know its width. A ^C that is echoed in the midst of a bar must not let it wrap.
    assert len(text) + len("^C") < (columns or 82) or columns == 2
    if columns == 2:
        assert text in "0123456789 r"
    else:
        assert "read" in text
        assert ("40" in text) == (total is not None or unit is not None)


def test_lines_between_bars_stand_alone_and_the_bar_is_drawn_again(terminal):
    with terminal_progress()("work", total=3, unit=" steps") as bar:
        bar.update()
        before = len(terminal.bars)
        with between_bars():
            terminal.stream.write("a message\n")
        after = terminal.text.partition("a message\r\n")
        assert after[0].endswith("\r\x1b[J")
        assert terminal.bars[before:] == ["", "", terminal.bars[1]]


def test_bars_that_an_error_leaves_are_removed(terminal):
    manager = terminal_progress()("work", total=3, unit=" steps")
    manager.__enter__().update()
    end_bars()
    assert terminal.bars[-1] == ""
    length = len(terminal.text)
    manager.__exit__(None, None, None)
    end_bars()
    assert len(terminal.text) == length


@pytest.mark.parametrize("term", ["dumb", None])
def test_a_terminal_that_cannot_overwrite_has_no_bars_but_lines(terminal, monkeypatch, term):
    if term:
        monkeypatch.setenv("TERM", term)
    else:
        monkeypatch.delenv("TERM")
    work(terminal_progress())
    with between_bars():
        terminal.stream.write("a message\n")
    assert terminal.text == "a message\r\n"
    # The terminal has echoed ^C.
    end_bars(echoed=True)
    assert terminal.text == "a message\r\n\r\n"


def test_a_label_is_one_line(terminal):
    with terminal_progress()("reading \x1b[31m a\nb \u202e", total=3):
        pass
    assert terminal.bars[0].startswith(r"reading \x1b[31m a\nb \u202e:   0%")


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
