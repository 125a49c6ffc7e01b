"""Learning over HTTP is that of `xmlgp learn`, and whoever may not does not."""

import asyncio
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

import xmlgp
from tests.serving.toy import PATIENCE, make_model, texts_and_labels
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.runs import learn as runs
from xmlgp.serving import learner, learning, projects
from xmlgp.serving.problems import Problem

PROJECT = "/v1/projects/own"
LEARN = f"{PROJECT}/learn"
TEXTS, NAMES = texts_and_labels(6, seed=9)
DOCUMENTS = [
    {"text": text, "subjects": [{"uri": name, "label": "any"} for name in own], "metadata": {}}
    for text, own in zip(TEXTS, NAMES, strict=True)
]


@pytest.fixture
def path(model, tmp_path):
    return shutil.copytree(model, tmp_path / "own")


@pytest.fixture
def client(client_of, path):
    return client_of(path, learns=True)


def suggested(client, text):
    return client.post(f"{PROJECT}/suggest", data={"text": text}).json()["results"]


def test_documents_are_learned_as_by_the_command(client, path, model, tmp_path):
    other = shutil.copytree(model, tmp_path / "other")
    xmlgp.learn(other, TEXTS, labels=NAMES)
    before = suggested(client, TEXTS[0])
    answer = client.post(LEARN, json=DOCUMENTS)
    assert (answer.status_code, answer.content) == (204, b"")
    after = suggested(client, TEXTS[0])
    assert after != before
    (expected,) = xmlgp.predict(other, [TEXTS[0]], k=10, output="probability")
    # The server learns on all cores, this process on one, which rounds differently.
    probabilities = [own["probability"] for own in after]
    assert probabilities == pytest.approx([own["probability"] for own in expected["labels"]], rel=1e-4)
    assert xmlgp.load(path).data["N"] == 126
    # A client that has lost the answer asks again.
    assert client.post(LEARN, json=DOCUMENTS).status_code == 204
    assert xmlgp.load(path).data["N"] == 126
    assert client.get(f"{PROJECT}").json()["learns"] is True


def test_new_labels_and_words_are_added_and_a_label_may_have_no_uri(client, path):
    subjects = [{"label": "printing"}, {"uri": None, "label": "third floor"}]
    assert client.post(LEARN, json=[{"text": "printer zebra", "subjects": subjects}]).status_code == 204
    model = xmlgp.load(path)
    assert model.names.labels[-1] == "third floor"
    assert "zebra" in model.names.features
    assert "third floor" in [own["label"] for own in suggested(client, "zebra")]


def test_a_model_that_comes_file_by_file_is_taken_up(client, path, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(projects, "RETRY", 0.0)
    other = make_model(tmp_path / "other", seed=8)
    before = suggested(client, TEXTS[0])
    shutil.rmtree(path / "arrays")
    shutil.copy(tmp_path / "other" / "model.json", path)
    for _ in range(5):
        assert suggested(client, TEXTS[0]) == before
    # It is said once.
    assert caplog.text.count("stays in use") == 1
    shutil.copytree(tmp_path / "other" / "arrays", path / "arrays")
    found = suggested(client, TEXTS[0])
    (expected,) = xmlgp.predict(other, [TEXTS[0]], k=10, output="probability")
    assert [own["probability"] for own in found] == [own["probability"] for own in expected["labels"]]


def test_a_server_without_leave_does_not_learn(client_of, path):
    before = (path / "model.json").read_bytes()
    answer = client_of(path).post(LEARN, json=DOCUMENTS)
    assert answer.status_code == 403
    assert "--learn" in answer.json()["detail"]
    assert (path / "model.json").read_bytes() == before


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "the body is not a list"),
        ([], "the body has 0 items, but at least 1 is needed"),
        ([1], r"body\[0\] is not an object"),
        ([{"subjects": []}], r"body\[0\].text is missing"),
        ([{"text": 7, "subjects": []}], r"body\[0\].text is not text"),
        ([{"text": "x"}], r"body\[0\].subjects is missing"),
        ([{"text": "x", "subjects": {"uri": "y"}}], r"body\[0\].subjects is not a list"),
        ([{"text": "x", "subjects": [3]}], r"body\[0\].subjects\[0\] is not an object"),
        ([{"text": "x", "subjects": [{"uri": ["y"]}]}], r"body\[0\].subjects\[0\].uri is not text or null"),
        ([{"text": "x", "subjects": [{}]}], r"body\[0\].subjects\[0\].label is missing"),
        ([{"text": "x", "subjects": [{"uri": "a\u001bb"}]}], "U\\+001B"),
        ([{"text": "x", "subjects": [{"uri": f"new {place}"} for place in range(40)]}], "another model"),
    ],
)
def test_what_cannot_be_learned_is_refused_in_a_sentence(client, path, body, reason):
    before = (path / "model.json").read_bytes()
    answer = client.post(LEARN, json=body)
    assert answer.status_code == 400
    detail = answer.json()["detail"]
    assert re.search(reason, detail), detail
    assert "\n" not in detail
    assert (path / "model.json").read_bytes() == before


def test_a_page_of_another_site_cannot_send_a_form_that_is_learned(client):
    # Browsers send these types without asking.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = client.post(LEARN, content=json.dumps(DOCUMENTS), headers={"Content-Type": kind})
        assert answer.status_code == 415


def test_another_writer_is_waited_for_and_then_reported(client_of, path):
    client = client_of(path, learns=True, seconds=2.0)
    with lock_model_folder(path):
        answer = client.post(LEARN, json=DOCUMENTS)
        assert answer.status_code == 503
        assert "being written by another process" in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) > 0
        # Meanwhile it goes on suggesting.
        assert suggested(client, "screen")
    assert client.post(LEARN, json=DOCUMENTS).status_code == 204


def test_requests_are_answered_while_a_model_learns(client, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def slow(*arguments):
        begun.set()
        assert go_on.wait(60)

    monkeypatch.setattr(learning.Learner, "_run", slow)
    found = []
    asking = threading.Thread(target=lambda: found.append(client.post(LEARN, json=DOCUMENTS).status_code), daemon=True)
    asking.start()
    assert begun.wait(60)
    assert suggested(client, "screen")
    go_on.set()
    asking.join(60)
    assert found == [204]


def test_a_signal_to_all_processes_does_not_end_a_learner(client, monkeypatch):
    monkeypatch.setattr(learning, "learn_what_is_sent", _learn_through_signals)
    assert client.post(LEARN, json=DOCUMENTS).status_code == 204


def _learn_through_signals(*arguments):
    def learn(*own, **options):
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)

    # This is another process, where nothing is patched yet.
    runs.learn = learn
    learner.learn_what_is_sent(*arguments)


#: More than a pipe takes.
LARGE = [{"text": "printer " * 20_000, "subjects": [{"label": "printing"}]}]


@pytest.mark.parametrize("documents", [DOCUMENTS, LARGE], ids=["small", "large"])
def test_a_learner_that_dies_is_reported_and_another_one_learns(client, path, monkeypatch, documents):
    with monkeypatch.context() as patch:
        patch.setattr(learning, "learn_what_is_sent", _die)
        answer = client.post(LEARN, json=documents)
    assert answer.status_code == 503
    assert "log" in answer.json()["detail"]
    assert not alive(process_of(path))
    assert client.post(LEARN, json=documents).status_code == 204


def test_a_learner_that_hangs_is_given_up(client, monkeypatch):
    started, original = [], SpawnProcess.start

    def start(process):
        original(process)
        started.append(process.pid)

    monkeypatch.setattr(SpawnProcess, "start", start)
    monkeypatch.setattr(learning, "LONGEST", 3)
    monkeypatch.setattr(learning, "learn_what_is_sent", _sleep)
    answer = client.post(LEARN, json=LARGE)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "learning took more than 3 seconds and was given up"
    (process,) = started
    assert not alive(process)


def test_learning_that_cannot_start_is_told(client, monkeypatch):
    def fail(process):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(SpawnProcess, "start", fail)
        answer = client.post(LEARN, json=DOCUMENTS)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "learning failed; the log of the server has the details"
    assert client.post(LEARN, json=DOCUMENTS).status_code == 204


def test_what_is_learning_ends_with_the_server_and_the_model_stays(path, monkeypatch):
    before = (path / "model.json").read_bytes()
    monkeypatch.setattr(learning, "learn_what_is_sent", _sleep)

    async def end():
        learner = learning.Learner(5, 1)
        learns = asyncio.ensure_future(learner.learn(str(path), TEXTS, NAMES))
        while not (path / "process").exists():
            await asyncio.sleep(0.01)
        waits = asyncio.ensure_future(learner.learn(str(path), TEXTS, NAMES))
        await asyncio.sleep(0)
        learner.close()
        with pytest.raises(Problem, match="learning failed"):
            await learns
        with pytest.raises(Problem, match="the server is ending"):
            await waits

    asyncio.run(asyncio.wait_for(end(), PATIENCE))
    assert not alive(process_of(path))
    assert (path / "model.json").read_bytes() == before


def test_a_learner_that_is_starting_ends_with_the_server(path, monkeypatch):
    started, before = threading.Event(), (path / "model.json").read_bytes()
    original = SpawnProcess.start

    def start(process):
        original(process)
        started.set()
        # The server ends now.
        time.sleep(0.5)

    monkeypatch.setattr(SpawnProcess, "start", start)

    async def end():
        learner = learning.Learner(5, 1)
        learns = asyncio.ensure_future(learner.learn(str(path), TEXTS, NAMES))
        assert await asyncio.to_thread(started.wait, PATIENCE)
        await asyncio.to_thread(learner.close)
        with pytest.raises(Problem, match="learning failed"):
            await learns

    asyncio.run(asyncio.wait_for(end(), PATIENCE))
    assert (path / "model.json").read_bytes() == before


def test_nothing_is_learned_after_the_end_of_the_server(path, monkeypatch):
    monkeypatch.setattr(SpawnProcess, "start", lambda process: pytest.fail("a process started"))

    async def learn():
        learner = learning.Learner(5, 2)
        learner.close()
        with pytest.raises(Problem, match="the server is ending"):
            await learner.learn(str(path), TEXTS, NAMES)

    asyncio.run(learn())


#: Lets a model learn, in a process that waits for the learner.
LEARN_IN_A_PROCESS = """if True:
    import asyncio, sys
    from tests.serving import test_learning
    from xmlgp.serving import learning
    if __name__ == "__main__":
        learning.learn_what_is_sent = test_learning._end_with_parent
        asyncio.run(learning.Learner(5, 1).learn(sys.argv[1], ["a text"], [["a label"]]))
"""


def test_a_learner_ends_with_a_server_that_is_killed_and_can_be_ended_by_signals(path):
    command = [sys.executable, "-c", LEARN_IN_A_PROCESS, str(path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, env=environment) as server:
        try:
            until((path / "process").exists)
            status = Path(f"/proc/{process_of(path)}/status").read_text()
            assert int(re.search(r"SigBlk:\s*(\w+)", status)[1], 16) == 0
        finally:
            server.kill()
    until(lambda: not alive(process_of(path)))


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def process_of(path):
    """Return the id of the process that was learning the model in a folder."""
    return int((path / "process").read_text())


def alive(process):
    """Return whether a process has not ended; one that nobody has waited for has."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _say_which(path):
    """Write the id of this process into the folder of the model, at once."""
    Path(path, ".process").write_text(str(os.getpid()))
    os.replace(Path(path, ".process"), Path(path, "process"))


def _sleep(path, *arguments, **options):
    _say_which(path)
    time.sleep(600)


def _die(path, *arguments):
    _say_which(path)
    os._exit(7)


def _end_with_parent(*arguments):
    """Learn as a server lets models learn, but without an end."""
    # This is another process, where nothing is patched yet.
    runs.learn = _sleep
    learner.learn_what_is_sent(*arguments)
