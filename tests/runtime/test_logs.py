"""The log as lines of JSON: each line parses, however odd what it reports, and few lines report long work."""

import io
import itertools
import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from xmlgp.runtime import logs as module
from xmlgp.runtime.logs import JsonProgress, end_work, level_and_message, log_libraries, write_json


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def parsed(text):
    """Return the objects in the lines of a log."""
    assert text == "" or text.endswith("\n")
    return [json.loads(line, parse_constant=no_constant) for line in text.splitlines()]


@pytest.fixture
def clock(monkeypatch):
    """Let the clock stand still until `now` is changed."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    return clock


def test_work_has_a_beginning_lines_between_and_an_end(capsys, clock):
    with JsonProgress("train", total=8, unit=" steps") as work:
        for _ in range(4):
            clock.now += 0.75
            work.update(2, epoch="1/3", bound="-7.5", fold=np.float32(0.5))
    begin, *between, end = parsed(capsys.readouterr().err)
    assert [line["event"] for line in (begin, *between, end)] == ["begin", "progress", "progress", "end"]
    assert begin.keys() == end.keys()
    assert all((line["level"], line["label"], line["unit"]) == ("info", "train", "steps") for line in (begin, end))
    assert (begin["done"], begin["total"], begin["seconds"], begin["remaining"]) == (0, 8, 0, None)
    # By the speed after the first update, which may stand for the steps of an earlier run.
    assert [(line["done"], line["seconds"], line["remaining"]) for line in between] == [(4, 1.5, 1.5), (8, 3, 0)]
    assert (end["done"], end["facts"]) == (8, {"epoch": "1/3", "bound": -7.5, "fold": 0.5})


def test_counts_without_a_unit_are_shares(capsys):
    with JsonProgress("train", total=4e9, unit=None) as work:
        work.update(1e9)
    assert [(line["done"], line["total"]) for line in parsed(capsys.readouterr().err)] == [(0, 1), (0.25, 1)]


def test_the_log_of_a_day_is_small(capsys, clock):
    with JsonProgress("train", total=864_000) as work:
        for _ in range(864_000):
            clock.now += 0.1
            work.update()
    lines = parsed(capsys.readouterr().err)
    assert 1000 < len(lines) < 2500
    seconds = [line["seconds"] for line in lines]
    pauses = [after - before for before, after in itertools.pairwise(seconds[:-1])]
    assert min(pauses) >= 0.99
    assert max(pauses) <= 60.2


@pytest.mark.parametrize("number", [np.nan, np.float32(np.inf), -np.inf, np.int64(3), np.array(0.4, np.float16), 1])
@pytest.mark.parametrize("total", [None, np.inf, np.nan, 0, np.int64(3)])
@pytest.mark.parametrize("unit", [None, "B"])
def test_counts_and_totals_may_be_any_numbers(capsys, number, total, unit):
    with JsonProgress("work", total, unit) as work:
        work.update(number, loss=number, text="nan")
    assert len(parsed(capsys.readouterr().err)) == 2


def test_a_label_of_any_characters_is_one_line_and_comes_back(capsys):
    label = 'reading "a\nb" \x1b[31m \u202e \U0001f600'
    with JsonProgress(label, total=1):
        pass
    begin, end = parsed(capsys.readouterr().err)
    assert begin["label"] == end["label"] == label


def test_bytes_that_are_not_utf_8_are_written_as_text_which_strict_readers_take(capsys):
    write_json(message="caf\udce9 \ud800", paths=[Path("a\udcff")], counts={"b\udcff": {"c": "\udc80"}})
    (facts,) = parsed(capsys.readouterr().err)
    # Characters that UTF-8 does not have raise an error.
    assert json.dumps(facts, ensure_ascii=False).encode()
    assert facts["message"] == r"caf\xe9 \ud800"
    assert (facts["paths"], facts["counts"]) == ([r"a\xff"], {r"b\xff": {"c": r"\x80"}})


def test_work_that_an_error_ends_stops_and_the_inner_first(capsys):
    outer = JsonProgress("outer")
    inner = JsonProgress("inner")
    outer.__enter__()
    inner.__enter__()
    end_work()
    # What held the work is left later.
    inner.__exit__(None, None, None)
    lines = parsed(capsys.readouterr().err)
    assert [(line["event"], line["label"]) for line in lines[2:]] == [("stop", "inner"), ("stop", "outer")]
    with pytest.raises(KeyError), JsonProgress("failing"):
        raise KeyError
    assert parsed(capsys.readouterr().err)[-1]["event"] == "stop"


class FullDisk(io.StringIO):
    def flush(self):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("closed", [False, True])
def test_lines_that_cannot_be_written_are_lost_and_nothing_fails(monkeypatch, closed):
    stream = FullDisk()
    if closed:
        io.StringIO.close(stream)
    monkeypatch.setattr(module.sys, "stderr", stream)
    with JsonProgress("work") as work:
        work.update()
    write_json(level="info", message="lost")


def test_warnings_of_libraries_are_lines(capsys):
    with log_libraries(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("an odd\nthing", stacklevel=1)
    (line,) = parsed(capsys.readouterr().err)
    assert line["level"] == "warning"
    assert "an odd\nthing" in line["message"]


def test_the_word_that_begins_a_warning_is_its_level():
    assert level_and_message("warning: mind the gap") == {"level": "warning", "message": "mind the gap"}
    assert level_and_message("a warning: no") == {"level": "info", "message": "a warning: no"}
