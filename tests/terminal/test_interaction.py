"""What people do meanwhile: Ctrl-C, another size of the window, text that is typed; and terminals of other kinds."""

import re
import signal

import pytest

from tests.cli.command import SMALL

#: Commands that take long enough to be interrupted, what is on the terminal then, and what they say in the end.
LONG = {
    "training": (
        f"train data new {' '.join(SMALL)} --label-weights --epochs 9999",
        r"train: +\d",
        r"interrupted; stopped after \d+ of \d+ steps of training; resume with `xmlgp train data new .*`",
    ),
    "training in a narrow terminal": (
        f"train data new {' '.join(SMALL)} --epochs 9999",
        r"\b30/",
        r"interrupted; stopped after \d+ of \d+ steps of training; resume with `xmlgp train data new .*`",
    ),
    "Gibbs sampling": (
        "train data new --model bmlpl --topics 4 --inference gibbs --iterations 9999",
        r"train: +\d",
        r"interrupted; stopped after \d+ of \d+ steps of training; resume with `xmlgp train data new .*`",
    ),
    "reading": ("train - new", "end with Ctrl-D\r\n", "interrupted"),
    "predicting": ("predict text -", "end with Ctrl-D\r\n", "interrupted"),
}


@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_leaves_one_line(start, name):
    words, shown, line = LONG[name]
    session = start(words, columns=60 if "narrow" in name else 100)
    session.read_until(shown)
    session.type("\x03")
    assert session.end() == 128 + signal.SIGINT, session.text
    assert "^C" in session.text
    assert re.fullmatch(line, session.on_screen()[-1]), session.on_screen()
    assert session.on_screen()[:-1] == ["reading from the terminal; end with Ctrl-D"] * words.split().count("-")


@pytest.mark.parametrize("drawn", [1, 3, 20, 30, 32, 34])
def test_ctrl_c_at_any_bar_leaves_none(start, drawn):
    session = start(f"train data new {' '.join(SMALL)} --label-weights")
    session.read_until_drawn(drawn)
    session.type("\x03")
    # It may have ended before.
    assert session.end() in (0, 128 + signal.SIGINT), session.text
    lines = session.on_screen()
    if session.status == 0:
        lines = [line for line in lines if line != "^C"]
    assert lines
    left = [line for line in lines if not line.startswith(("new: ", "interrupted"))]
    assert not left, f"{left}, status {session.status}, after {session.text[-1000:]!r}"


def test_an_interrupted_training_is_resumed_on_the_terminal(start):
    first = start(f"train data new {' '.join(SMALL)} --epochs 60 --checkpoint-every 1e-9")
    first.read_until(r"epoch=2/")
    first.type("\x03")
    assert first.end() == 128 + signal.SIGINT
    second = start("train data new --resume", folder=first.folder)
    assert second.end() == 0, second.text
    second.check()
    assert re.fullmatch(r"new: resuming after \d+ of \d+ steps of training", second.messages[0])
    assert second.messages[1].startswith("new: trained in ")


def test_bars_follow_the_width_of_the_window(start):
    session = start(f"train data new {' '.join(SMALL)} --epochs 9999")
    session.read_until("epoch=2/")
    for columns in (30, 150, 20):
        session.resize(columns)
        before = len(session.bars)
        session.read_until_drawn(before + 10)
        # One may have been drawn meanwhile.
        widths = {len(bar) for bar in session.bars[before + 2 :]}
        assert max(widths) < columns
        assert columns == 20 or max(widths) == columns - 3
    session.type("\x03")
    assert session.end() == 128 + signal.SIGINT


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=str)
def test_terminals_without_control_sequences_or_colours(start, environment):
    session = start(f"train data new {' '.join(SMALL)}", environment)
    assert session.end() == 0, session.text
    session.check()
    assert not re.search(r"\x1b\[[\d;]*m", session.text)
    assert bool(session.bars) == ("TERM" not in environment)
    if "TERM" in environment:
        assert re.fullmatch(r"(new: .*\r\n)+", session.text)


def test_ctrl_c_on_a_terminal_without_control_sequences_begins_a_line(start):
    session = start(f"train data new {' '.join(SMALL)} --epochs 9999 --checkpoint-every 1e-9", {"TERM": "dumb"})
    session.wait_for_file("new/checkpoint.npz")
    session.type("\x03")
    assert session.end() == 128 + signal.SIGINT, session.text
    assert session.text.startswith("^C\r\ninterrupted; stopped ")


def test_a_text_that_is_typed_is_answered_at_once(start):
    session = start("predict text -")
    assert session.read_until("\r\n")[0]
    session.type("red word1\n")
    answer = session.read_until(r'\{"id": 1, "labels": .*\}\r\n')
    session.type("\x04")
    assert session.end() == 0, session.text
    assert session.on_screen()[:2] == ["reading from the terminal; end with Ctrl-D", "red word1"]
    assert answer[0].strip().startswith(session.on_screen()[2])


def test_no_bar_is_drawn_over_what_is_typed(start):
    session = start("predict text - -o new")
    session.read_until("\r\n")
    session.type("red word1\ngreen word2\n")
    session.read_until("word2\r\n")
    session.type("\x04")
    assert session.end() == 0, session.text
    assert session.on_screen() == ["reading from the terminal; end with Ctrl-D", "red word1", "green word2"]
    assert len((session.folder / "new").read_text().splitlines()) == 2


@pytest.mark.parametrize("words", ["predict -q text -", "predict text - -q"])
def test_a_quiet_command_reads_the_terminal_without_a_word(start, words):
    session = start(words)
    session.type("red\n\x04")
    assert session.end() == 0, session.text
    assert "reading" not in session.text


def test_names_that_reverse_text_are_visible_on_a_terminal(start, new_folder):
    folder = new_folder()
    (folder / "reversing.jsonl").write_text('{"text": "printer", "labels": ["x\u202egnp"]}\n' * 3)
    for words in ("train reversing.jsonl new --epochs 1 --factors 2 -q", "predict new reversing.jsonl -k 1 -q"):
        session = start(words, folder=folder)
        assert session.end() == 0, session.text
    assert r'[{"label": "x\u202egnp", ' in session.text
    assert "\u202e" not in session.text
