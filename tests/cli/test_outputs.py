"""No command writes over a file that it reads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import xmlgp
from tests.cli.command import run, said
from xmlgp.runtime.errors import UsageError


def content(folder):
    return {file: file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}


def refused(output, read):
    return f"The output {output} is the same file as the input {read}; choose another output."


@pytest.mark.parametrize(
    ("command", "output", "read"),
    [
        ("predict model data/test.txt", "data/test.txt", "data/test.txt"),
        ("predict model data", "data/train.txt", "data/train.txt"),
        ("predict model data", "model/model.json", "model/model.json"),
        ("report model data/test.txt", "link", "data/test.txt"),
    ],
)
def test_no_command_writes_over_its_input(model, command, output, read):
    os.symlink("data/test.txt", "link")
    assert run("predict", "model", "data", "-o", "scores", "-q").exit_code == 0
    before = content(".")
    assert said(run(*command.split(), "-o", output), status=2) == refused(output, read)
    assert content(".") == before


def test_a_corpus_is_not_replaced_by_its_predictions(text_model):
    before = Path("new.jsonl").read_bytes()
    assert said(run("predict", "model", "new.jsonl", "-o", "new.jsonl"), 2) == refused("new.jsonl", "new.jsonl")
    with open("new.jsonl", "ab") as appended:
        command = [sys.executable, "-m", "xmlgp", "predict", "model", "new.jsonl"]
        result = subprocess.run(command, stdout=appended, stderr=subprocess.PIPE, check=False)
    assert result.returncode == 2
    assert "The output /dev/stdout is the same file as the input new.jsonl" in result.stderr.decode()
    assert Path("new.jsonl").read_bytes() == before


def test_functions_do_not_write_over_their_inputs(model):
    data, before = Path("data/test.txt"), content(".")
    for write in (
        lambda out: xmlgp.write(xmlgp.predict("model", data), out),
        lambda out: xmlgp.write(xmlgp.predict(xmlgp.load("model"), data), out),
        lambda out: xmlgp.report("model", data, out),
    ):
        for output in (data, "model/model.json"):
            with pytest.raises(UsageError) as caught:
                write(output)
            assert str(caught.value) == refused(output, output)
    assert content(".") == before
