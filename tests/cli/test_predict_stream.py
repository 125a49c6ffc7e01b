"""`xmlgp predict` and `xmlgp.predict` on lines that come one by one: each is answered before the next comes."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import xmlgp
from tests.cli.command import run, said
from tests.cli.texts import TEST

#: Seconds after which a missing answer is a failure.
LIMIT = 60


def one_by_one(name, pieces, **options):
    """Return the answers of the library to pieces of input, each of which is written after the answer to the last."""
    os.mkfifo("stream")
    pipe = os.open("stream", os.O_RDWR)
    # The end of the stream wakes up a reader that waits for more, whose answers are then too late.
    late = threading.Event()

    def end():
        late.set()
        os.close(pipe)

    found = []
    timer = threading.Timer(LIMIT, end)
    timer.start()
    try:
        with contextlib.closing(iter(xmlgp.predict(name, "stream", **options))) as answers:
            for piece in pieces:
                os.write(pipe, piece.encode())
                found.append(next(answers))
                assert not late.is_set(), piece
    finally:
        timer.cancel()
        if not late.is_set():
            os.close(pipe)
    return found


HEADER = "id,text\n"
TEXTS = [document["text"] for document in TEST]
FORMATS = {
    "jsonl": [json.dumps(document) + "\n" for document in TEST],
    "lines": [text + "\n" for text in TEXTS],
    "csv": [f'{"" if place else HEADER}{place},"{text}\nmore"\n' for place, text in enumerate(TEXTS)],
    "tsv": [f"{'' if place else HEADER}{place}\t{text}\r\n".replace(",", "\t") for place, text in enumerate(TEXTS)],
    "annif": [f"{text}\tlabel\n" for text in TEXTS],
    "fasttext": [f"__label__a {text}\n" for text in TEXTS],
    "pecos": [f"1,2\t{text}\n" for text in TEXTS],
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_document_of_a_pipe_is_answered_as_it_comes(text_model, name):
    pieces = FORMATS[name]
    # The last document comes with half of another one.
    pieces = [*pieces[:-1], pieces[-1] + "half"]
    found = one_by_one("model", pieces)
    Path("whole").write_text("".join(FORMATS[name]))
    assert found == list(xmlgp.predict("model", "whole"))


def test_each_row_of_a_pipe_is_answered_as_it_comes(model):
    header, *rows = Path("data/test.txt").read_text().splitlines(keepends=True)
    assert one_by_one("model", [header + rows[0], *rows[1:]]) == list(xmlgp.predict("model", "data/test.txt"))


@contextlib.contextmanager
def process(*arguments):
    """Run `xmlgp predict` in a process; yield it and a function that returns its next line."""
    command = [sys.executable, "-m", "xmlgp", "predict", "model", "-", *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, bufsize=0, **pipes) as found:
        try:
            text = b""

            def next_line():
                nonlocal text
                while b"\n" not in text:
                    assert select.select([found.stdout], [], [], LIMIT)[0], "no answer"
                    piece = os.read(found.stdout.fileno(), 1 << 16)
                    assert piece, "the process ended"
                    text += piece
                line, text = text.split(b"\n", 1)
                return line.decode()

            yield found, next_line
        finally:
            found.kill()


def test_a_coprocess_answers_each_line_and_ends_with_its_input(text_model):
    expected = run("predict", "model", "new.jsonl").stdout.splitlines()
    with process() as (found, next_line):
        for document, answer in zip(TEST, expected, strict=True):
            found.stdin.write(json.dumps(document).encode() + b"\n")
            assert next_line() == answer
        found.stdin.close()
        assert found.wait(LIMIT) == 0
        assert found.stdout.read() == b""
        assert found.stderr.read() == b"Note: -: 1 document has no word that the model knows\n"


def test_a_coprocess_answers_rows_in_the_scores_file(model):
    head, *expected = run("predict", "model", "data/test.txt").stdout.splitlines()
    header, *rows = Path("data/test.txt").read_bytes().splitlines(keepends=True)
    with process() as (found, next_line):
        found.stdin.write(header + rows[0])
        assert [next_line(), next_line()] == [head, expected[0]]
        for row, answer in zip(rows[1:], expected[1:], strict=True):
            found.stdin.write(row)
            assert next_line() == answer


def test_a_bad_line_leaves_a_file_as_it_was_and_ends_a_coprocess_with_its_error(text_model):
    Path("out.jsonl").write_text("old\n")
    Path("bad.jsonl").write_text(json.dumps(TEST[1]) + "\n[]\n" + json.dumps(TEST[2]) + "\n")
    assert said(run("predict", "-q", "model", "bad.jsonl", "-o", "out.jsonl")).startswith("bad.jsonl:2: ")
    assert Path("out.jsonl").read_text() == "old\n"
    with process("-q") as (found, next_line):
        found.stdin.write(json.dumps(TEST[1]).encode() + b"\n")
        assert next_line()
        found.stdin.write(b"[]\n")
        assert found.wait(LIMIT) == 1
        assert found.stderr.read().startswith(b"Error: -:2: ")
