"""Each command on a terminal: it ends well, nothing of a bar stays on the screen, and Ctrl-C leaves one line."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyte
import pytest

from tests.cli.command import CATALOGUE, SMALL
from tests.cli.texts import as_json, documents
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset

ROOT = str(Path(__file__).parents[2])

#: A training that does not end by itself.
LONG = ["train", *SMALL[:-2], "--batch-size", "16", "--epochs", "9999", "data"]

#: By command: its words.
COMMANDS = {
    "fetch": ["fetch", "--list"],
    "split": ["split", "train.jsonl", "parts"],
    "vectorize": ["vectorize", "train.jsonl", "counted"],
    "preprocess": ["preprocess", "data", "half", "--inducing", "free", "-M", "5"],
    "train": ["train", "data", "weights", *SMALL, "--label-weights"],
    "learn": ["learn", "text", "more.jsonl"],
    "learn --retrain": ["learn", "text", "--retrain"],
    "predict": ["predict", "rows", "data", "-o", "again.scores"],
    "evaluate": ["evaluate", "rows.scores", "data"],
    "show": ["show", "rows"],
    "report": ["report", "text", "more.jsonl", "-o", "page.html"],
}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    """Return a function that runs a command on a terminal; it returns the exit status, the text and the last screen."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    (folder / "data").mkdir()
    write_dataset(folder / "data/train.txt", small_dataset(200))
    write_dataset(folder / "data/test.txt", small_dataset(9, seed=7))
    (folder / "train.jsonl").write_text(as_json(documents(200, 0)))
    (folder / "more.jsonl").write_text(as_json(documents(30, 1)))
    environment = os.environ | {
        "PYTHONPATH": ROOT,
        "TERM": "xterm",
        "XMLGP_CACHE_DIR": str(folder / "cache"),
        "XMLGP_CATALOGUE": str(folder / "catalogue.yaml"),
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.terminal.server"],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(words, columns=100, typed=()):
        print(json.dumps([words, columns, typed]), file=server.stdin, flush=True)
        status, text = json.loads(server.stdout.readline())
        screen = pyte.Screen(columns, 200)
        pyte.Stream(screen).feed(text)
        assert "Traceback" not in text
        return status, text, "\n".join(line.rstrip() for line in screen.display).rstrip()

    yield run
    server.stdin.close()
    server.wait()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_and_leaves_no_bar(terminal, name):
    status, text, screen = terminal(COMMANDS[name])
    assert status == 0, text
    assert not re.search(r"\d+%\||it/s|\^C", screen), screen


def test_a_bar_fits_a_narrow_terminal(terminal):
    typed = [(r"training: steps +\d+ %\|[^\r]*\r", "\x03")]
    status, text, screen = terminal([*LONG, "narrow"], columns=40, typed=typed)
    assert status == 128 + signal.SIGINT
    drawn = [line for line in re.split(r"[\r\n]|\x1b\[\w", text) if "%|" in line]
    assert drawn
    assert max(map(len, drawn)) <= 40


def test_ctrl_c_leaves_one_line_and_the_same_command_resumes(terminal):
    words = [*LONG, "long"]
    status, text, screen = terminal(words, typed=[(r"training: steps +\d+ %.*about .* left", "\x03")])
    assert status == 128 + signal.SIGINT
    assert screen == "Note: interrupted; run the same command again to resume"
    status, text, screen = terminal(words, typed=[(r"resuming after \d+ of \d+ steps(.|\n)*training: steps", "\x03")])
    assert status == 128 + signal.SIGINT, text


def test_a_text_that_is_typed_is_answered_at_once(terminal):
    typed = [("", "red word1\n"), (r"\d %", "\x04")]
    status, text, screen = terminal(["predict", "text", "-"], typed=typed)
    assert status == 0, text
    assert screen.startswith("red word1\n1\n")


def test_text_gets_a_table_within_the_width(terminal):
    for words, has_words in (["text", "more.jsonl", "-k", "3"], True), (["rows", "data"], False):
        status, text, screen = terminal(["predict", *words], columns=60)
        assert status == 0, text
        assert bool(re.search(r"(?m)^  the \w+ +[█-▏]* +\d+\.\d % ± [ \d]\d\.\d  \w+", screen)) == has_words
        assert max(map(len, re.split(r"[\r\n]+", text))) <= 60 or not has_words
    status, text, screen = terminal(["predict", "text", "more.jsonl", "-k", "1", "--format", "jsonl"], columns=1000)
    assert all(json.loads(line)["labels"] for line in screen.splitlines())


def test_predict_without_data_says_what_to_type(terminal):
    status, text, screen = terminal(["predict", "text"], columns=200)
    assert (status, screen) == (
        1,
        'Error: there are no data: type xmlgp predict text FILE, or echo "a text" | xmlgp predict text -',
    )
