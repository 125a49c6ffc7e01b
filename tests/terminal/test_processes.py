"""Commands in processes of their own: on thousands of real documents, on two workers, and a server."""

import json
import re
import signal
import sysconfig
import urllib.request
from pathlib import Path

import pytest

from tests.cli.command import SMALL
from tests.terminal.session import PATIENCE, Process

#: A function, its parameters, and the two lines that follow.
FUNCTION = re.compile(r"def (\w+)\((.*)\):\n(.*)\n(.*)")


def functions_of_python():
    """Return the functions of Python's standard library as documents, each with its module as its label."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return [
        {"text": " ".join(found.groups()), "labels": [file.stem]}
        for file in files
        for found in FUNCTION.finditer(file.read_text("utf-8"))
    ]


@pytest.mark.parametrize("columns", [100, pytest.param(40, marks=pytest.mark.exhaustive)])
def test_training_on_thousands_of_real_documents_shows_bars_for_seconds(start, tmp_path, columns):
    documents = functions_of_python()
    assert len(documents) > 3000
    file = tmp_path / "functions.jsonl"
    file.write_text("".join(json.dumps(document) + "\n" for document in documents))
    session = start(f"train {file} new --epochs 2 -P 20", columns=columns, starter=Process())
    assert session.end() == 0, session.text
    session.check()
    found = [line for line in session.on_screen() if line.startswith("new: trained in ")]
    assert len(found) == 1
    shown = " ".join(session.bars)
    for label in ("reading", "train", "covariances", "regression"):
        assert label in shown
    # The regression makes several steps, and all of them are drawn.
    assert len({bar for bar in session.bars if bar.startswith("regression")}) > 3


def test_ctrl_c_while_two_workers_train(start):
    words = f"train data new {' '.join(SMALL)} --label-weights --epochs 9999 --workers 2"
    session = start(words, starter=Process())
    session.read_until(r"train: +\d")
    session.type("\x03")
    assert session.end() == 128 + signal.SIGINT, session.text
    workers, line = session.on_screen()
    assert workers.startswith("2 workers of a Dask cluster")
    assert line.startswith("interrupted; stopped after ")


def test_a_server_says_where_it_is_and_that_it_stopped(start):
    session = start("serve text --port 0 --workers 1", columns=40, starter=Process())
    url = session.read_until(r"listening on (http://[^ ]+) with text; stop with Ctrl-C\r\n")[1]
    try:
        # `urlopen` keeps the proxies of its first call in the process, such as those of an example of a page.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{url}/v1/projects", timeout=PATIENCE) as answer:
            assert answer.status == 200
    except OSError as error:
        session.end()
        raise AssertionError(f"{error}: {session.text}") from error
    session.read_until("GET /v1/projects")
    session.type("\x03")
    assert session.end() == 0, session.text
    first, request, last = session.on_screen()
    assert first.startswith("listening on ")
    assert "/v1/projects" in request
    assert last == "stopped"
