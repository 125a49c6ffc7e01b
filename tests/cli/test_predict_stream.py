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
        assert found.stderr.read() == b"-: 1 document has no word that the model knows\n"


def test_a_coprocess_answers_rows_in_the_scores_file(model):
    head, *expected = run("predict", "model", "data/test.txt").stdout.splitlines()
    header, *rows = Path("data/test.txt").read_bytes().splitlines(keepends=True)
    with process() as (found, next_line):
        found.stdin.write(header + rows[0])
        assert [next_line(), next_line()] == [head, expected[0]]
        for row, answer in zip(rows[1:], expected[1:], strict=True):
            found.stdin.write(row)
            assert next_line() == answer


#: Two documents, with malformed lines before, between and after them; and the identifiers and errors in a report.
BAD = {
    "jsonl": (
        b'{"id": 7, "text": {}}\n{"id": "a", "text": "red"}\nnot JSON\n\n{"text": "\xff"}\n{"text": "blue"}\n[]\n',
        [
            (7, "line 1: text is an object"),
            "a",
            (3, "line 3: this line is not JSON"),
            (4, "line 5: byte 0xff at byte 11"),
            5,
        ]
        + [(6, "line 7: this line is a list, not a JSON object")],
    ),
    "lines": (
        b"\xff bad\nred\nword1 \xc3\nblue\n\xa4\n",
        [(1, "line 1: byte 0xff at byte 1"), 2, (3, "line 3: byte 0xc3 at byte 7"), 4, (5, "line 5: byte 0xa4")],
    ),
    "csv": (
        b'id,text\na\nb,"red\nred"\nc,d,e\nf,"g" h\ni,\xff\nj,blue\nk,"open\n',
        [(1, "line 2: this row has 1 field"), "b", (3, "line 5: this row has 3 fields"), (4, "line 6: a quote within")]
        + [("i", "line 7: byte 0xff at byte 3"), "j", (7, "line 9: a quoted field")],
    ),
    "annif": (b"red\ta\n\xff\tb\nblue\tc\n", [1, (2, "line 2: byte 0xff at byte 1"), 3]),
    "fasttext": (b"__label__a red\n__label__\xff b\nblue\n", [1, (2, "line 2: byte 0xff at byte 10"), 3]),
    "pecos": (b"1\tred\nx\tb\nnone\n2\tblue\n", [1, (2, "line 2: the labels"), (3, "line 3: there is no tab"), 4]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_lines_are_reported_or_left_out(text_model, name):
    content, expected = BAD[name]
    Path("bad").write_bytes(content)
    found = [
        json.loads(line) for line in run("predict", "-q", "model", "bad", "--bad-lines", "report").stdout.splitlines()
    ]
    for answer, own in zip(found, expected, strict=True):
        assert answer.keys() == {"id", "error" if isinstance(own, tuple) else "labels"}
        identifier, reason = own if isinstance(own, tuple) else (own, "")
        assert (answer["id"], answer.get("error", "")[: len(reason)]) == (identifier, reason)
    good = [answer for answer in found if "labels" in answer]
    assert list(xmlgp.predict("model", "bad", bad_lines="skip")) == good
    skipped = run("predict", "model", "bad", "--bad-lines", "skip")
    assert [json.loads(line) for line in skipped.stdout.splitlines()] == good
    number, line = len(expected) - 2, expected[0][1] if isinstance(expected[0], tuple) else "line 2:"
    words = "lines were" if number > 1 else "line was"
    assert f"{number} malformed {words} left out; the first: bad:{line[5]}: " in skipped.stderr
    # In the scores file, their lines are empty.
    scores = run("predict", "-q", "model", "bad", "--bad-lines", "skip", "--format", "scores").stdout.splitlines()
    assert [bool(line) for line in scores[1:]] == ["labels" in answer for answer in found]
    # All that comes before the first one is answered.
    stopped = run("predict", "-q", "model", "bad")
    assert stopped.exit_code == 1
    assert stopped.stderr.startswith(f"bad:{line[5]}: ")
    assert [json.loads(line)["id"] for line in stopped.stdout.splitlines()] == ([] if expected[0] != 1 else [1])


def test_bad_rows_are_reported_or_left_out(model):
    header, *rows = Path("data/test.txt").read_text().splitlines(keepends=True)
    rows[2], rows[8] = "0 99:1\n", "0,0 1:1\n"
    Path("bad").write_text("".join([header, *rows]))
    found = list(xmlgp.predict("model", "bad", bad_lines="report"))
    errors = {answer["id"]: answer["error"] for answer in found if "error" in answer}
    assert errors == {
        3: "line 4: feature '99' is not below 25, the number of features in the first line",
        9: "line 10: label 0 occurs twice",
    }
    head, *whole = run("predict", "-q", "model", "data/test.txt").stdout.splitlines()
    whole[2] = whole[8] = ""
    skipped = run("predict", "model", "bad", "--bad-lines", "skip")
    assert skipped.stdout.splitlines() == [head, *whole]
    assert skipped.stderr.startswith("2 malformed lines were left out; the first: bad:4: feature '99'")
    assert xmlgp.predict("model", "bad", bad_lines="skip").matrix()[[2, 8]].nnz == 0
    stopped = run("predict", "-q", "model", "bad")
    assert (stopped.exit_code, stopped.stdout.splitlines()[0], len(stopped.stdout.splitlines())) == (1, head, 3)
    assert stopped.stderr.startswith("bad:4: ")


def test_bad_lines_of_a_pipe_are_reported_as_they_come(text_model):
    pieces = ["{\n", json.dumps(TEST[1]) + "\n", "{\n"]
    found = one_by_one("model", pieces, bad_lines="report")
    assert [answer["id"] for answer in found] == [1, TEST[1]["id"], 3]


def test_a_bad_line_leaves_a_file_as_it_was_and_answers_are_printed_before_its_error(text_model):
    Path("out.jsonl").write_text("old\n")
    Path("bad.jsonl").write_text(json.dumps(TEST[1]) + "\n[]\n" + json.dumps(TEST[2]) + "\n")
    assert said(run("predict", "-q", "model", "bad.jsonl", "-o", "out.jsonl")).startswith("bad.jsonl:2: ")
    assert Path("out.jsonl").read_text() == "old\n"
    with process("-q") as (found, next_line):
        found.stdin.write(Path("bad.jsonl").read_bytes())
        assert json.loads(next_line())["id"] == TEST[1]["id"]
        # It ends though its input does not.
        assert found.wait(LIMIT) == 1
        assert found.stderr.read().startswith(b"-:2: ")


@pytest.mark.parametrize("output_format", ["scores", "tsv"])
def test_a_report_of_bad_lines_needs_json_lines(text_model, output_format):
    result = run("predict", "model", "new.jsonl", "--bad-lines", "report", "--format", output_format)
    assert said(result, 2) == f"a report of bad lines needs the format jsonl, not {output_format}."
    with pytest.raises(xmlgp.errors.UsageError, match="stop, skip, report"):
        xmlgp.predict("model", "new.jsonl", bad_lines="ignore")
