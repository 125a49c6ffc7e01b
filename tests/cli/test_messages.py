"""Every message of wrong usage and of wrong files that needs no long story: one table, where a sentence is improved.

`messages.txt` has commands, and below each its exit status and its whole sentence. The commands run in a folder that
they must not change.
"""

import shlex
from pathlib import Path

import pytest

from tests.cli.command import CATALOGUE, SMALL, run, said
from tests.cli.disk import everything
from tests.cli.texts import as_json, documents
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset

#: What the commands read, beside data and models.
FILES = {
    "a.scores": "9 7\n" + "0:0.5\n" * 9,
    "few.scores": "2 7\n0:1\n0:1\n",
    "nan.scores": "9 7\n0:1\n0:nan\n" + "\n" * 7,
    "utilities.scores": "9 7\n0:-1.5\n" + "\n" * 8,
    "empty.scores": "9 7\n" + "\n" * 9,
    "malformed.txt": "2 25 7\n1 0:1\n1 0:x\n",
    "short.txt": "3 25 7\n 0:1\n",
    "narrow.txt": "1 24 7\n 0:1\n",
    "none.txt": "0 25 7\n",
    "unlabelled.txt": "9 25 7\n" + " 0:1\n" * 9,
    "wide.txt": "1 1 9\n6 0:1\n",
    "one.txt": "2 25 1\n0 0:1\n 1:1\n",
    "one-field.csv": "text,labels\na\n",
    "train.jsonl": as_json(documents(60, 0)),
}


def cases():
    lines = Path(__file__).with_name("messages.txt").read_text().splitlines()
    commands = [line.removeprefix("$ xmlgp ") for line in lines[::2]]
    answers = [line.split(" ", 1) for line in lines[1::2]]
    return [(command, int(status), text) for command, (status, text) in zip(commands, answers, strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with data, models and wrong files."""
    path = tmp_path_factory.mktemp("messages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setenv("XMLGP_CACHE_DIR", str(path.parent / "messages-cache"))
        patch.setenv("XMLGP_CATALOGUE", "catalogue.yaml")
        Path("catalogue.yaml").write_text(CATALOGUE)
        for name in "data", "empty":
            Path(name).mkdir()
        write_dataset("data/train.txt", small_dataset())
        write_dataset("data/test.txt", small_dataset(seed=7).rows(slice(0, 9)))
        for name, content in FILES.items():
            Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        for command in (
            ["train", "data", "model", *SMALL],
            ["train", "train.jsonl", "text", *SMALL],
            ["preprocess", "data", "half"],
            ["preprocess", "data", "half-topics", "--model", "bmlpl"],
        ):
            assert run(*command, "-q").exit_code == 0
        before = everything(path)
        yield path
        assert everything(path) == before


@pytest.mark.parametrize(("command", "status", "text"), cases(), ids=[command for command, *_ in cases()])
def test_a_message_is_one_sentence(folder, monkeypatch, command, status, text):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(folder.parent / "messages-cache"))
    monkeypatch.setenv("XMLGP_CATALOGUE", "catalogue.yaml")
    assert said(run(*shlex.split(command)), status) == text
