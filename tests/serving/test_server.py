"""The server as a service: processes that share a socket, models that are replaced, slow clients, signals."""

import contextlib
import functools
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from click.testing import CliRunner

import xmlgp
from tests.serving.toy import PATIENCE, Server, make_model, texts_and_labels
from xmlgp.cli import main

TEXTS, NAMES = texts_and_labels(20, seed=5)


def predicted(model, texts=TEXTS):
    found = xmlgp.predict(model, texts, k=10, output="probability", with_std=True)
    return [[own["probability"] for own in point["labels"]] for point in found]


def probabilities(results):
    return [own["probability"] for own in results]


def workers(server):
    """Return the processes of a server that answer requests."""
    with open(f"/proc/{server.pid}/task/{server.pid}/children") as file:
        children = [int(child) for child in file.read().split()]
    # Until a child has begun its own program, it has the command of its parent: also one that looks after resources.
    return [child for child in children if "spawn_main" in _command(child)]


def _command(process):
    with contextlib.suppress(OSError), open(f"/proc/{process}/cmdline") as file:
        return file.read()
    return ""


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    return shutil.copytree(model, tmp_path_factory.mktemp("server") / "tickets")


@pytest.fixture(scope="module")
def server(path):
    yield from _serve(path, "--workers", 2, "--max-body", 1, "--learn", "--log", "json")


@pytest.fixture(scope="module")
def impatient(path):
    """Return a server that soon gives up waiting. On a busy machine it may answer nothing else in its time."""
    yield from _serve(path, "--workers", 1, "--timeout", 5)


def _serve(*arguments):
    server = Server(*arguments)
    try:
        yield server
        assert server.end(signal.SIGINT) == 0
    finally:
        server.kill()


def raw(server, sent, patience=PATIENCE):
    """Send bytes; return all that the server sends until it ends the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=patience) as connection:
        # The server may have ended the connection already.
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        found = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                found += part
        return found


def test_many_clients_get_the_scores_of_predict(server, path):
    expected = predicted(path)
    with ThreadPoolExecutor(16) as pool:
        for _ in range(3):
            found = list(pool.map(lambda text: probabilities(server.suggest("tickets", text)), TEXTS))
            assert found == expected
    documents = {"documents": [{"text": text} for text in TEXTS]}
    status, found = server.json("POST", "/v1/projects/tickets/suggest-batch", documents)
    assert (status, [probabilities(own["results"]) for own in found]) == (200, expected)


def test_metrics_are_those_of_all_workers(server):
    before = _documents(server)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: server.suggest("tickets", text), TEXTS))
    assert _documents(server) == before + len(TEXTS)


def _documents(server):
    lines = server.request("GET", "/metrics")[2].decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("xmlgp_documents_total"))


def test_a_model_that_is_replaced_is_taken_up_and_no_request_is_lost(server, path, tmp_path):
    other = make_model(tmp_path / "other", seed=8)
    models = [xmlgp.load(path), other]
    expected = [predicted(model) for model in models]
    end, wrong, answered = threading.Event(), [], [0, 0]

    def ask(place):
        while not end.is_set():
            found = probabilities(server.suggest("tickets", TEXTS[place]))
            which = [place_of for place_of in range(2) if found == expected[place_of][place]]
            if which:
                answered[which[0]] += 1
            else:
                wrong.append(found)

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask, place) for place in range(4)]
        try:
            for turn in (1, 0, 1, 0):
                models[turn].save(path)
                _until(lambda turn=turn: _all_answer(server, expected[turn]))
        finally:
            end.set()
        for asked in asking:
            asked.result(PATIENCE)
    assert not wrong
    assert min(answered) > 0


@pytest.fixture
def packed(path, tmp_path):
    """Return a packed model, and a server of it."""
    file = tmp_path / "tickets.zip"
    xmlgp.pack(path, file)
    for server in _serve(file, "--workers", 2):
        yield file, server


def test_a_packed_model_that_is_replaced_is_taken_up(packed, tmp_path):
    file, server = packed
    expected = predicted(file)
    assert [project["project_id"] for project in server.json("GET", "/v1/projects")[1]["projects"]] == ["tickets"]
    assert _all_answer(server, expected)
    # What is missing or damaged leaves the model before in use.
    (tmp_path / "new.zip").write_bytes(file.read_bytes()[:-100])
    file.unlink()
    assert _all_answer(server, expected)
    os.replace(tmp_path / "new.zip", file)
    _until(lambda: any(f"{file}: the packed model is damaged" in line for line in server.lines))
    assert _all_answer(server, expected)
    xmlgp.pack(make_model(tmp_path / "other", seed=8), file, overwrite=True)
    other = predicted(file)
    assert other != expected
    _until(lambda: _all_answer(server, other))


def test_a_packed_model_is_not_taught(tmp_path):
    xmlgp.pack(make_model(tmp_path / "tickets"), tmp_path / "tickets.zip")
    result = CliRunner().invoke(main, ["serve", "--learn", str(tmp_path / "tickets.zip")])
    assert result.exit_code == 1
    assert "a packed model is not changed; unpack it with" in result.stderr


def _all_answer(server, expected):
    """Return whether several requests in a row, to whichever workers, get these answers."""
    return all(probabilities(server.suggest("tickets", TEXTS[0])) == expected[0] for _ in range(20))


def _until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def lone(path):
    """Return a server whose only worker has opened the model once it answers."""
    yield from _serve(path, "--workers", 1)


def test_a_damaged_or_missing_model_leaves_the_one_before_in_use(lone, path):
    server = lone
    expected = predicted(path)
    assert probabilities(server.suggest("tickets", TEXTS[0])) == expected[0]
    before = (path / "model.json").read_bytes()
    try:
        (path / "new.json").write_text("{")
        os.replace(path / "new.json", path / "model.json")
        for _ in range(10):
            assert probabilities(server.suggest("tickets", TEXTS[0])) == expected[0]
        (path / "model.json").unlink()
        for _ in range(10):
            assert probabilities(server.suggest("tickets", TEXTS[0])) == expected[0]
    finally:
        (path / "model.json").write_bytes(before)
    assert any("the model before stays in use" in line for line in server.lines)


def test_what_is_learned_is_known_to_all_workers(server, path):
    document = {"text": "zebra giraffe", "subjects": [{"uri": "animals"}]}
    assert server.json("POST", "/v1/projects/tickets/learn", [document]) == (204, None)
    expected = predicted(path)
    assert len(expected[0]) == 6
    _until(lambda: _all_answer(server, expected))


def test_slow_clients_are_told_and_others_are_answered(impatient):
    beginnings = [
        b"",
        b"POST /v1/projects/tickets/suggest HTTP/1.1\r\nHost: localhost\r\n",
        b"POST /v1/projects/tickets/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\ntext=x",
    ]
    connections = []
    try:
        for place in range(900):
            connections.append(socket.create_connection(("127.0.0.1", impatient.port), timeout=PATIENCE))
            connections[-1].sendall(beginnings[place % 3])
        # Others are answered meanwhile.
        assert impatient.json("GET", "/healthz") == (200, {"status": "ok"})
        for place, connection in enumerate(connections):
            found = b""
            while part := connection.recv(65536):
                found += part
            assert found.startswith(b"HTTP/1.1 408 "), (place, found)
            assert json.loads(found.partition(b"\r\n\r\n")[2])["status"] == 408
    finally:
        for connection in connections:
            connection.close()


def test_a_beginning_of_a_second_request_is_not_waited_for_without_end(impatient):
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while b'{"status":"ok"}' not in answer:
            answer += connection.recv(65536)
        connection.sendall(b"GET /heal")
        answer = b""
        while part := connection.recv(65536):
            answer += part
        assert answer.startswith(b"HTTP/1.1 408 ")
    # What comes with the first request ends by itself, too.
    found = raw(impatient, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /heal")
    assert found.startswith(b"HTTP/1.1 200 ")


def received(connection, until=None):
    """Return all that the server sends until it ends the connection, or until these bytes."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while (until is None or until not in found) and (part := connection.recv(65536)):
            found += part
    return found


@pytest.mark.parametrize("rest", [b"", b"x", b"x" * 9])
def test_the_rest_of_an_answered_request_is_not_waited_for_without_end(impatient, rest):
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=PATIENCE) as connection:
        connection.sendall(
            b"POST /v1/projects/tickets/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        )
        assert received(connection, b"}").startswith(b"HTTP/1.1 415 ")
        connection.sendall(rest)
        assert received(connection) == b""


def test_a_mistake_in_the_rest_of_an_answered_request_ends_the_connection(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(
            b"POST /v1/projects/tickets/suggest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        assert received(connection, b"}").startswith(b"HTTP/1.1 415 ")
        connection.sendall(b"no size\r\n")
        assert received(connection) == b""
    assert server.suggest("tickets", TEXTS[0])
    assert not any("Traceback" in line for line in server.lines)


@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_nothing_is_read_after_a_request_of_two_lengths(server, before):
    sent = (
        b"POST /v1/projects/tickets/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"8\r\ntext=abc\r\n0\r\n\r\nGET /v1/ HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    found = raw(server, before + sent)
    assert found.count(b"HTTP/1.1 ") == found.count(b"HTTP/1.1 200 ") == 1 + bool(before)
    assert b"version" not in found


def test_a_hundred_megabytes_are_refused(server):
    status, headers, found = server.request(
        "POST",
        "/v1/projects/tickets/suggest",
        b"text=" + b"x" * 100_000_000,
        {"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (status, json.loads(found)["detail"]) == (413, "the body has more than 1000000 bytes")
    # A client that asks first is told first.
    asked = (
        b"POST /v1/projects/tickets/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\n"
    )
    assert raw(server, asked).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\1\2\r\n\r\n",
        b"GET /\r\n\r\n",
        b"POST /v1/projects/tickets/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(server, sent):
    assert raw(server, sent).startswith(b"HTTP/1.1 4")
    assert server.suggest("tickets", TEXTS[0])


def test_a_client_that_goes_disturbs_nobody(server):
    request = (
        b"POST /v1/projects/tickets/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\ntext=abc"
    )
    for end in (20, len(request) - 3, len(request)):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
                connection.sendall(request[:end])
    for text in TEXTS:
        assert server.suggest("tickets", text)


def test_log_lines_are_json_and_no_traceback(server):
    server.suggest("tickets", TEXTS[0])
    _until(lambda: any('"/v1/projects/tickets/suggest"' in line for line in server.lines))
    for line in server.lines:
        assert line.startswith("{"), line
        assert {"time", "level"} <= set(json.loads(line))


# With a server of its own: another test may damage the model before the worker that takes the place has opened it.
def test_a_worker_that_dies_is_replaced(path):
    server = Server(path, "--workers", 2, "--log", "json")
    try:
        # They start after the server says that it listens.
        _until(lambda: len(workers(server)) == 2)
        before = workers(server)
        os.kill(before[0], signal.SIGKILL)
        _until(lambda: len(workers(server)) == 2 and set(workers(server)) != set(before))
        _until(lambda: _documents(server) >= 0)
        assert server.suggest("tickets", TEXTS[0])
        assert server.end() == 0
    finally:
        server.kill()
    (line,) = (line for line in map(json.loads, server.lines) if f"worker {before[0]} " in line.get("message", ""))
    assert line["message"] == f"worker {before[0]} was ended by SIGKILL; another one takes its place in 1 s"


def test_workers_that_end_again_and_again_are_not_started_at_once_and_clients_are_told(path):
    server = Server(path, "--workers", 1)
    try:
        for pause in (1, 2):
            _until(lambda: server.request("GET", "/healthz")[0] == 200)
            (worker,) = workers(server)
            os.kill(worker, signal.SIGKILL)
            _until(lambda pause=pause: any(f"takes its place in {pause} s" in line for line in server.lines))
        status, headers, answer = server.request("GET", "/healthz")
        assert (status, headers["content-type"]) == (503, "application/problem+json")
        assert json.loads(answer)["detail"] == "the server is starting again; try again later"
        _until(lambda: server.request("GET", "/healthz")[0] == 200)
        assert server.end() == 0
    finally:
        server.kill()


def test_a_project_that_cannot_be_opened_leaves_the_others_alone(path, tmp_path):
    other = shutil.copytree(path, tmp_path / "other")
    server = Server(path, other, "--workers", 1, "--learn")
    try:
        server.suggest("other", TEXTS[0])
        (worker,) = workers(server)
        # A worker that runs goes on with the model that it has.
        os.rename(other / "model.json", other / "away")
        server.suggest("other", TEXTS[0])
        os.kill(worker, signal.SIGKILL)
        _until(lambda: server.request("GET", "/healthz")[0] == 200)
        assert server.suggest("tickets", TEXTS[0])
        status, answer = server.json("POST", "/v1/projects/other/suggest-batch", {"documents": [{"text": "x"}]})
        assert (status, answer["detail"]) == (503, "the model of 'other' cannot be opened now; try again later")
        status, answer = server.json("GET", "/v1/projects/other")
        assert (status, answer["is_trained"], answer["vocab"]["size"]) == (200, False, None)
        assert answer["modification_time"] is None
        assert any("no model here (no model.json); requests are answered with 503" in line for line in server.lines)
        # Where the model is, is not for clients.
        documents = [{"text": "x", "subjects": [{"label": NAMES[0][0]}]}]
        status, answer = server.json("POST", "/v1/projects/other/learn", documents)
        assert (status, answer["detail"]) == (503, "learning failed; the log of the server has the details")
        os.rename(other / "away", other / "model.json")
        _until(lambda: server.json("GET", "/v1/projects/other")[1]["is_trained"])
        assert server.suggest("other", TEXTS[0])
    finally:
        server.kill()


def _few_files(count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def test_a_server_that_starts_with_few_open_files_answers(path):
    command = [sys.executable, "-m", "xmlgp", "serve", str(path), "--port", "0"]
    options = {"preexec_fn": functools.partial(_few_files, 60), "capture_output": True, "text": True}
    error = subprocess.run(command, **options, timeout=PATIENCE).stderr
    least = int(re.search(r"raise it to (\d+)", error)[1])
    server = Server(path, "--workers", 1, preexec_fn=functools.partial(_few_files, least))
    try:
        assert server.suggest("tickets", TEXTS[0])
        assert server.end() == 0
    finally:
        server.kill()


def test_idle_connections_make_room_for_others(path):
    server = Server(path, "--workers", 1, preexec_fn=functools.partial(_few_files, 256))
    try:
        server.suggest("tickets", TEXTS[0])
        with contextlib.ExitStack() as idle:
            for _ in range(400):
                connection = idle.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b"GET /healthz")
            assert server.suggest("tickets", TEXTS[0])
        assert server.suggest("tickets", TEXTS[0])
        assert server.end() == 0
    finally:
        server.kill()
    assert sum("the idle ones make room" in line for line in server.lines) == 1
    assert len(server.lines) < 20


def test_a_server_that_may_open_too_few_files_does_not_start(path):
    command = [sys.executable, "-m", "xmlgp", "serve", str(path), "--port", "0"]
    options = {"preexec_fn": functools.partial(_few_files, 60), "capture_output": True, "text": True}
    done = subprocess.run(command, **options, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (1, "")
    expected = (
        r"Error: the limit of open files of this process, 60, is too low for a server of these models; raise it to "
        r"\d+ or more \(`ulimit -n \d+`\)\n"
    )
    assert re.fullmatch(expected, done.stderr)


def test_a_log_that_nobody_reads_stops_nothing(path):
    server = Server(path, "--workers", 1, reads=False)
    try:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
            # Each line has some sixty bytes, and the pipe holds 64 KiB.
            for _ in range(2000):
                connection.request("GET", "/healthz")
                assert connection.getresponse().read()
        assert server.end() == 0
    finally:
        server.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server_after_what_it_answers(path, number):
    server = Server(path, "--workers", 1)
    try:
        server.suggest("tickets", TEXTS[0])
        many = {"documents": [{"text": " ".join(TEXTS) * 50}] * 32}
        body = json.dumps(many).encode()
        request = (
            b"POST /v1/projects/tickets/suggest-batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
            b"Content-Type: application/json\r\n\r\n" % len(body)
        )
        (worker,) = workers(server)
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            connection.sendall(request + body)
            # The request is with the worker when it has read it all.
            _until(lambda: not _unsent(connection))
            # A terminal that is closed sends it to all processes.
            (os.killpg if number == signal.SIGHUP else os.kill)(server.pid, number)
            found = b""
            while part := connection.recv(1 << 20):
                found += part
        assert found.startswith(b"HTTP/1.1 200 ")
        assert len(json.loads(found.partition(b"\r\n\r\n")[2])) == 32
        assert server.wait() == 0
        assert server.lines[-1] == "stopped"
        assert not os.path.exists(f"/proc/{worker}")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    finally:
        server.kill()


def test_a_worker_that_does_not_end_is_ended(path):
    server = Server(path, "--workers", 1, "--timeout", 1)
    try:
        server.suggest("tickets", TEXTS[0])
        (worker,) = workers(server)
        os.kill(worker, signal.SIGSTOP)
        assert server.end(signal.SIGTERM) == 0
        assert not os.path.exists(f"/proc/{worker}")
    finally:
        server.kill()


def test_ctrl_c_while_workers_start_ends_the_server(path):
    server = Server(path, "--workers", 2)
    try:
        # A terminal sends it to all processes.
        os.killpg(server.pid, signal.SIGINT)
        assert server.wait() == 0
        assert server.lines[1:] == ["stopped"]
    finally:
        server.kill()


def _unsent(connection):
    """Return how many bytes the other side has not acknowledged."""
    import array
    import fcntl

    found = array.array("i", [0])
    fcntl.ioctl(connection.fileno(), 0x5411, found)  # SIOCOUTQ
    return found[0]


def test_workers_end_when_the_process_that_started_them_is_killed(path):
    server = Server(path, "--workers", 1)
    try:
        server.suggest("tickets", TEXTS[0])
        (worker,) = workers(server)
        os.kill(server.pid, signal.SIGKILL)
        _until(lambda: not os.path.exists(f"/proc/{worker}") or _command(worker) == "")
    finally:
        server.kill()


def test_the_next_server_removes_what_a_killed_one_left(path, tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    left = []
    for number in (signal.SIGKILL, signal.SIGTERM):
        server = Server(path, "--workers", 1, env=environment)
        try:
            server.suggest("tickets", TEXTS[0])
            (worker,) = workers(server)
            server.end(number)
            left.append(len(list(tmp_path.iterdir())))
            _until(lambda worker=worker: not os.path.exists(f"/proc/{worker}") or _command(worker) == "")
        finally:
            server.kill()
    assert left == [1, 0]


def run(*arguments):
    """Return the exit status and the last line on standard error of `xmlgp serve`, which ends before it serves."""
    done = CliRunner().invoke(main, ["serve", *map(str, arguments)], prog_name="xmlgp")
    assert done.stdout == ""
    return done.exit_code, done.stderr.strip().splitlines()[-1]


def test_any_page_may_not_teach_without_a_token(path):
    status, text = run(path, "--learn", "--allow-origin", "*")
    assert (status, "needs a token" in text) == (2, True)


def test_what_cannot_be_served_is_told_before_the_server_starts(path, tmp_path):
    assert run(tmp_path)[0] == 1
    assert run(tmp_path / "a\nb")[0] == 2
    points = np.random.default_rng(0).random((40, 6))
    xmlgp.train(points, tmp_path / "plain", labels=points[:, :3] > 0.5)
    assert run(tmp_path / "plain") == (
        1,
        f"Error: {tmp_path}/plain: the model was not trained on text, so it has no suggestions for texts",
    )
    shutil.copytree(path, tmp_path / "tickets")
    status, text = run(path, tmp_path / "tickets")
    assert status == 2
    assert "name tickets" in text
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(path, "--port", port) == (
            1,
            f"Error: cannot listen on 127.0.0.1, port {port}: Address already in use",
        )
    assert run(path, "--host", "no.such.host.invalid")[0] == 1
    (tmp_path / "token").write_text("\n")
    assert run(path, "--token", tmp_path / "token")[0] == 1
