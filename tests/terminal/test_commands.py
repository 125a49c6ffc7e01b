"""Every command on terminals of three widths: bars fit, nothing of them stays, and messages are those of a pipe."""

import functools
import re

import pytest

from tests.cli.command import SMALL

TRAIN = f"train data new {' '.join(SMALL)}"
TOPICS = "train data new --model bmlpl --topics 4 --iterations 4"
TWO = "train two.svm new --model gpc -M 9 --iterations 4"

#: What people do, with the labels of the bars that they see.
COMMANDS = {
    "train": (f"{TRAIN} --label-weights", ["train", "covariances", "regression"]),
    "train without label weights": (TRAIN, ["train", "covariances"]),
    "train, free inducing inputs": (f"{TRAIN} --inducing free -M 5", ["train"]),
    "train in a subspace": (f"{TRAIN} --inducing subspace -M 5 --set basis_size=9", ["train"]),
    "train full posteriors": (f"{TRAIN} --inducing free -M 5 --set posterior=cholesky", ["train"]),
    "train with dense features": (f"{TRAIN} --label-weights --dense train.npy", ["train"]),
    "train on text": (f"train train.jsonl new {' '.join(SMALL)}", ["reading train.jsonl", "train"]),
    "train bmlpl": (TOPICS, ["train"]),
    "train bmlpl, exact": (f"{TOPICS} --inference em", ["train"]),
    "train bmlpl, online": (f"{TOPICS} --inference online-em", ["train"]),
    "train bmlpl, Gibbs": (f"{TOPICS} --inference gibbs --set burn_in=2", ["train"]),
    "train gpc": (TWO, ["reading two.svm", "k-means", "train"]),
    "train gpc, JJ": (f"{TWO} --inference vi-jj", ["train"]),
    "train gpc, all parameters": (f"{TWO} --inference vi-jj-full", ["train"]),
    "train gpc, hybrid": (f"{TWO} --inference vi-jj-hybrid", ["train"]),
    "train gpc, AdaDelta": (f"{TWO} --inference svi-adadelta", ["train"]),
    "preprocess": ("preprocess data new --inducing subspace -M 5 --set basis_size=9", ["reading data/train.txt"]),
    "learn": ("learn rows data/test.txt", ["train"]),
    "learn text": ("learn text test.jsonl", ["reading test.jsonl"]),
    "learn topics": ("learn topics data/test.txt", []),
    "predict": ("predict rows data/test.txt -o new", ["predict"]),
    "predict on the terminal": ("predict rows data/test.txt", []),
    "predict text": ("predict text test.jsonl -o new", ["predict"]),
    "report": ("report text test.jsonl -o new", ["report"]),
    "evaluate": ("evaluate rows.scores data --train data/train.txt --calibration", ["reading rows.scores"]),
    "vectorize": ("vectorize train.jsonl new --test test.jsonl", ["reading train.jsonl", "writing new/train.txt"]),
    "split": ("split train.jsonl new", ["reading train.jsonl"]),
    "fetch": ("fetch known --mirror mirror --into new", ["unpacking train.txt"]),
    "fetch what is there": ("fetch known --mirror mirror --into mirror", []),
    "show": ("show rows", []),
    "show topics": ("show topics --topics", []),
    "a malformed file": ("train malformed.txt new", ["reading malformed.txt"]),
    "wrong usage": ("train data", []),
}


#: Exit statuses other than 0.
STATUS = {"a malformed file": 1, "wrong usage": 2}


def without_figures(lines):
    """Return lines in order of the alphabet, without numbers: times differ, and a pipe is written at other times."""
    return sorted(re.sub(r"\d+(\.\d+)?", "0", line) for line in lines)


@pytest.fixture(scope="module")
def piped(run_piped):
    """Return a function that returns the lines that a command writes into files."""
    return functools.cache(lambda words, columns: without_figures(run_piped(words, columns)))


#: Widths of terminals, and commands that are tried at all of them: each shows bars or messages of another kind.
WIDTHS = (100, 40, 20)
AT_ALL_WIDTHS = ("train", "train on text", "predict on the terminal", "vectorize", "a malformed file")


def terminals():
    """Yield each command at each width; `make test` takes one width for most commands, each width as often."""
    for number, name in enumerate(COMMANDS):
        for place, columns in enumerate(WIDTHS):
            every_time = name in AT_ALL_WIDTHS or number % len(WIDTHS) == place
            yield pytest.param(name, columns, marks=[] if every_time else [pytest.mark.exhaustive])


@pytest.mark.parametrize(("name", "columns"), list(terminals()))
def test_a_terminal_shows_bars_and_in_the_end_what_a_pipe_gets(start, piped, name, columns):
    words, labels = COMMANDS[name]
    session = start(words, columns=columns)
    assert session.end() == STATUS.get(name, 0), session.text
    session.check()
    assert without_figures(session.messages) == piped(words, columns)
    shown = " ".join(session.bars)
    # On narrow terminals labels are cut off.
    missing = [label for label in labels if label[: columns - 15] not in shown]
    assert missing == [], shown
