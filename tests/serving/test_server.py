"""The server as processes that share a socket; and what it refuses before it starts."""

import contextlib
import os
import shutil
import signal
import socket
import time

import pytest
from click.testing import CliRunner

import xmlgp
from tests.serving.toy import PATIENCE, Server, texts_and_labels
from xmlgp.cli import main

pytest.importorskip("uvicorn", reason="Uvicorn is not installed: pip install '.[serve]'")

TEXTS, _ = texts_and_labels(20, seed=5)


def workers(server):
    """Return the processes of a server that answer requests."""
    with open(f"/proc/{server.pid}/task/{server.pid}/children") as file:
        children = [int(child) for child in file.read().split()]
    # Python's own tracker of resources is a child as well; a child may end meanwhile.
    return [child for child in children if "spawn_main" in command_of(child)]


def command_of(process):
    with contextlib.suppress(OSError), open(f"/proc/{process}/cmdline") as file:
        return file.read()
    return ""


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    return shutil.copytree(model, tmp_path_factory.mktemp("server") / "tickets")


@pytest.fixture(scope="module")
def server(path, tmp_path_factory):
    server = Server(path, "--workers", 2, "--max-body", 1)
    try:
        yield server
        assert server.end() == 0
        assert server.lines[-1] == "Note: stopped"
        assert not any("Traceback" in line for line in server.lines)
    finally:
        server.kill()


def test_all_workers_answer_with_the_scores_of_predict_also_after_the_model_is_replaced(server, path, other_model):
    def expected(model):
        found = xmlgp.predict(model, TEXTS, k=10, output="probability", with_std=True)
        return [[own["probability"] for own in point["labels"]] for point in found]

    def answers():
        return [[own["probability"] for own in server.suggest("tickets", text)] for text in TEXTS]

    assert answers() == expected(path)
    xmlgp.load(other_model).save(path)
    until(lambda: answers() == expected(other_model))
    assert any(": opened the model of " in line for line in server.lines)


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\1\2\r\n\r\n",
        b"POST /v1/projects/tickets/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"GET /%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(server, sent):
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(sent)
        assert connection.recv(12).startswith(b"HTTP/1.1 4")
    assert server.suggest("tickets", TEXTS[0])


def test_a_hundred_megabytes_are_refused_and_not_kept(server):
    body = b"text=" + b"x" * 100_000_000
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for headers in (kind, kind | {"Transfer-Encoding": "chunked"}):
        sent = iter([b"%x\r\n" % len(body), body, b"\r\n0\r\n\r\n"]) if "Transfer-Encoding" in headers else body
        status, _, found = server.request("POST", "/v1/projects/tickets/suggest", sent, headers)
        assert (status, b"the body has more than 1000000 bytes" in found) == (413, True)
    for worker in workers(server):
        with open(f"/proc/{worker}/status") as file:
            peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        assert peak < 1_000_000


def test_a_worker_that_dies_is_replaced(server):
    until(lambda: len(workers(server)) == 2)
    before = workers(server)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: len(workers(server)) == 2 and set(workers(server)) != set(before))
    assert server.suggest("tickets", TEXTS[0])


def test_workers_end_with_the_process_that_started_them(path):
    server = Server(path, "--workers", 1)
    try:
        assert server.suggest("tickets", TEXTS[0])
        (worker,) = workers(server)
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: not command_of(worker))
    finally:
        server.kill()


def refusal(*arguments):
    result = CliRunner().invoke(main, ["serve", *map(str, arguments)])
    return result.exit_code, result.stderr.splitlines()[-1]


def test_what_cannot_be_served_is_one_sentence(model, tmp_path):
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    (tmp_path / "token").write_text("two words\n")
    (tmp_path / "empty").write_text("\n")
    shutil.copytree(model, tmp_path / "tickets")
    assert refusal(model, "--port", port) == (
        1,
        f"Error: cannot listen on 127.0.0.1, port {port}: Address already in use",
    )
    taken.close()
    status, line = refusal(model, "--host", "no.such.host.invalid")
    assert (status, line.startswith("Error: cannot listen on no.such.host.invalid, port 8080: ")) == (1, True)
    assert refusal(tmp_path / "none")[0] == 1
    assert refusal(model, tmp_path / "tickets")[0] == 2
    assert "Two models are in folders of the same name" in refusal(model, tmp_path / "tickets")[1]
    assert refusal(model, "--learn") == (
        2,
        "Error: --learn needs a token: whoever reaches the server could change the models.",
    )
    for name in ("token", "empty"):
        status, line = refusal(model, "--token", tmp_path / name)
        assert (status, "the file must have a token" in line) == (1, True)
