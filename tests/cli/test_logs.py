"""`--log json`: all that a command writes to standard error is an object a line, whatever ends it."""

import json
import signal
from unittest import mock

import pytest

from tests.cli.command import SMALL, run
from tests.cli.test_interruption import STEP, TRAIN, data, signals_at  # noqa: F401, a fixture
from tests.cli.texts import as_json, documents

LOG = ["--log", "json"]


def lines_of(result):
    """Return the objects on standard error; each has a time in UTC and a level."""
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert all(line["time"].endswith("Z") and line["level"] in ("info", "warning", "error") for line in lines)
    return lines


def error_of(result, status):
    """Return the message of the last line, which is the only error, and its status that of the command."""
    *others, error = lines_of(result)
    assert all(line["level"] != "error" for line in others)
    assert error.keys() == {"time", "level", "message", "status"}
    assert (error["level"], error["status"], result.exit_code) == ("error", status, status)
    return error["message"]


def test_training_reports_notes_and_each_piece_of_work_as_objects(workdir):
    (workdir / "train.jsonl").write_text(as_json(documents(60, 0)))
    result = run("train", "train.jsonl", "model", *SMALL, *LOG)
    assert (result.exit_code, result.stdout) == (0, "")
    lines = lines_of(result)
    events = [(line["event"], line["label"]) for line in lines if "event" in line]
    assert events[0] == ("begin", "reading train.jsonl")
    begun = [label for event, label in events if event == "begin"]
    assert {"reading train.jsonl", "train"} <= set(begun)
    assert sorted(begun) == sorted(label for event, label in events if event == "end")
    (end,) = [line for line in lines if line.get("event") == "end" and line["label"] == "train"]
    assert end["done"] == end["total"]
    assert end["facts"]["epoch"] == "2/2"
    assert isinstance(end["facts"]["bound"], float)
    # The messages are those of text.
    (workdir / "model").rename(workdir / "first")
    texts = run("train", "train.jsonl", "model", *SMALL).stderr.splitlines()
    messages = [line["message"] for line in lines if "message" in line]
    assert len(messages) == len(texts)
    assert messages[0] == texts[0] == "train.jsonl: 60 documents, 14 features, 5 labels"


def test_a_quiet_command_logs_only_what_is_wrong(workdir):
    result = run("train", "data", "model", *SMALL, *LOG, "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert error_of(run("train", "none", "model", *LOG, "-q"), 1) == "none: No such file or directory"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("train data --log json", 2, "Missing argument 'MODEL'."),
        ("train data model --log=json --kernel rbf", 2, "kernel is 'rbf', but must be one of linear, se, se+linear"),
        ("trian --log json data", 2, "No such command 'trian'. Did you mean train?"),
        ("vectorize ragged.csv out --log json", 1, "ragged.csv:2: this row has 1 field, but the header has 2"),
        ("fetch unknown --log json", 1, None),
    ],
)
def test_an_error_is_one_object_with_the_status(workdir, arguments, status, message):
    (workdir / "ragged.csv").write_text("text,labels\nfirst\n")
    said = error_of(run(*arguments.split()), status)
    assert message in (said, None)


def test_the_form_is_that_of_each_command_alone(workdir):
    error_of(run("train", "none", "model", *LOG), 1)
    assert run("train", "none", "model").stderr == "Error: none: No such file or directory\n"
    assert run("train", "none", "model", "--log", "text").stderr.startswith("Error: ")
    # After two hyphens there are no options.
    assert run("train", "none", "model", "--", "--log", "json").stderr.startswith("Usage: ")


def test_an_interrupted_run_says_how_to_resume_it(data):  # noqa: F811, the fixture
    with signals_at(STEP, 16, signal.SIGTERM):
        result = run(*TRAIN, *LOG)
    message = error_of(result, 128 + signal.SIGTERM)
    assert message.startswith("interrupted; stopped after 16 of 55 steps of training; resume with `xmlgp train data ")
    assert message.endswith(" --log json`")
    stopped = [line["label"] for line in lines_of(result) if line.get("event") == "stop"]
    assert stopped == ["train"]


def test_what_no_sentence_describes_is_an_object_too(workdir):
    with mock.patch("xmlgp.api.train", side_effect=ZeroDivisionError("a bug")):
        result = run("train", "data", "model", *LOG)
    assert "ZeroDivisionError: a bug" in error_of(result, 1)


def test_a_server_logs_why_it_does_not_start_by_the_same_keys(workdir):
    assert error_of(run("serve", "none", *LOG), 1) == "none: No such file or directory"
